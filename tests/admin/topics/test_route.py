from __future__ import annotations

import json
from typing import Any

import pytest

from rmqctl.admin.topics.route import RouteReport, fetch_route_report
from rmqctl.errors import NotFoundError, UnreachableError
from rmqctl.model.topic import TopicFinding
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.scripted_peer import ok, passing, refused, run

F = TopicFinding
NO_ROUTE = refused(R.TOPIC_NOT_EXIST, "No topic route info in name server for the topic: T")


def _route(**queues: int) -> Command:
    """Return a route with so many queues on each broker a, b..."""
    data = [
        {"brokerName": f"broker-{name}", "perm": 6, "readQueueNums": count, "topicSysFlag": 0, "writeQueueNums": count}
        for name, count in queues.items()
    ]
    brokers = [
        {"brokerAddrs": {"0": f"{name}:1", "1": f"{name}:2"}, "brokerName": f"broker-{name}", "cluster": "C"}
        for name in queues
    ]
    return ok(json.dumps({"brokerDatas": brokers, "filterServerTable": {}, "queueDatas": data}).encode())


def _fetch(cluster: Cluster, *name_servers: str) -> RouteReport:
    async def scenario() -> RouteReport:
        async with cluster.network.client(*name_servers) as client:
            return await passing(cluster.clock, fetch_route_report(client, "T"))

    return run(scenario())


def _two(first: Any, second: Any) -> Cluster:
    """Return a cluster with two name servers that tell these routes, which are of 4 queues a broker."""
    names = ("broker-a", "broker-b")
    cluster = Cluster(*(BrokerState(name, topics={"T": [Queue() for _ in range(4)]}) for name in names))
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = first
    kv = {Q.GET_KV_CONFIG: refused(R.QUERY_NOT_FOUND, "none")}
    names = cluster.name_server.table[Q.GET_ALL_TOPIC_LIST_FROM_NAMESERVER]
    cluster.network.add("ns:2", {**kv, Q.GET_ROUTEINFO_BY_TOPIC: second, Q.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: names})
    return cluster


def test_name_servers_that_agree_have_one_row_a_broker() -> None:
    report = _fetch(_two(_route(a=4, b=4), _route(b=4, a=4)), "ns:1", "ns:2")
    assert [(part.data.broker_name, part.name_servers, part.findings) for part in report.parts] == [
        ("broker-a", ("ns:1", "ns:2"), ()),
        ("broker-b", ("ns:1", "ns:2"), ()),
    ]
    assert report.is_agreed
    assert report.parts[0].broker is not None
    assert report.parts[0].broker.addresses == {0: "a:1", 1: "a:2"}


def test_name_servers_that_differ_are_never_merged() -> None:
    report = _fetch(_two(_route(a=4, b=4), _route(a=8)), "ns:1", "ns:2")
    differ = F.NAME_SERVERS_DIFFER
    assert [
        (part.data.broker_name, part.data.read_queue_count, part.name_servers, part.findings) for part in report.parts
    ] == [
        ("broker-a", 4, ("ns:1",), (differ,)),
        ("broker-a", 8, ("ns:2",), (F.ROUTE_DIFFERS, differ)),
        ("broker-b", 4, ("ns:1",), (differ,)),
    ]
    assert not report.is_agreed


def test_a_name_server_without_the_route_is_a_difference() -> None:
    report = _fetch(_two(_route(a=4), NO_ROUTE), "ns:1", "ns:2")
    assert (report.without_route, report.is_agreed, report.failures) == (("ns:2",), False, ())
    assert report.parts[0].findings == (F.NAME_SERVERS_DIFFER,)


def test_a_name_server_that_is_down_is_a_failure_and_no_difference() -> None:
    cluster = _two(_route(a=4), _route(a=4))
    cluster.network.refusing.add("ns:2")
    report = _fetch(cluster, "ns:1", "ns:2")
    assert [(failure.what, failure.error.name) for failure in report.failures] == [
        ("route at name server ns:2", "UNREACHABLE")
    ]
    assert (report.parts[0].findings, report.is_agreed) == ((), True)


def test_no_name_server_at_all_is_an_error() -> None:
    cluster = _two(_route(a=4), _route(a=4))
    cluster.network.refusing |= {"ns:1", "ns:2"}
    with pytest.raises(UnreachableError):
        _fetch(cluster, "ns:1", "ns:2")


def test_a_topic_that_none_has_is_not_found_and_like_names_are_told() -> None:
    cluster = _two(NO_ROUTE, NO_ROUTE)
    cluster.brokers["broker-a"].topics = {"T1": [Queue()]}
    cluster.brokers["broker-b"].topics = {}
    with pytest.raises(NotFoundError) as raised:
        _fetch(cluster, "ns:1", "ns:2")
    assert raised.value.suggestions == ("T1",)


def test_none_has_it_and_one_is_silent_is_no_proof() -> None:
    cluster = _two(NO_ROUTE, _route(a=4))
    cluster.network.refusing.add("ns:2")
    with pytest.raises(UnreachableError, match="Topic T was not found, but ns:2 could not be read"):
        _fetch(cluster, "ns:1", "ns:2")


def test_misfits_are_flagged() -> None:
    text = (
        '{"brokerDatas":[{"brokerAddrs":{"1":"a:2"},"brokerName":"broker-a","cluster":"C"}],"queueDatas":['
        '{"brokerName":"broker-a","perm":2,"readQueueNums":2,"writeQueueNums":5},'
        '{"brokerName":"broker-b","perm":4,"readQueueNums":5,"writeQueueNums":2}]}'
    )
    cluster = _two(ok(text.encode()), NO_ROUTE)
    report = _fetch(cluster, "ns:1")
    assert [part.findings for part in report.parts] == [
        (F.NO_MASTER, F.NOT_READABLE, F.UNREAD_QUEUES, F.ROUTE_DIFFERS),
        (F.NO_ADDRESS, F.NOT_WRITABLE, F.UNWRITTEN_QUEUES, F.ROUTE_DIFFERS),
    ]


def test_the_route_and_the_brokers_are_compared() -> None:
    cluster = _two(_route(a=4), _route(a=4))
    del cluster.brokers["broker-a"].topics["T"]
    report = _fetch(cluster, "ns:1", "ns:2")
    assert [(part.data.broker_name, part.name_servers, part.findings) for part in report.parts] == [
        ("broker-a", ("ns:1", "ns:2"), (F.NOT_ON_BROKER,)),
        ("broker-b", (), (F.NOT_IN_ROUTE,)),
    ]
    assert (report.is_agreed, report.failures) == (True, ())


def test_a_broker_that_can_not_be_compared_with_the_route_is_a_failure() -> None:
    cluster = _two(_route(a=4), _route(a=4))
    cluster.stop("broker-a")
    cluster.stop("broker-b")
    report = _fetch(cluster, "ns:1", "ns:2")
    # The route does not name broker-b.
    assert [(failure.broker_name, failure.what) for failure in report.failures] == [("broker-a", "topic")]
    assert report.parts[0].findings == ()


def test_the_order_configuration_is_asked_of_each_name_server() -> None:
    cluster = _two(_route(a=4), _route(a=4))
    cluster.kv_configs["ORDER_TOPIC_CONFIG", "T"] = "broker-a:4"
    report = _fetch(cluster, "ns:1", "ns:2")
    assert report.order_confs == {"ns:1": "broker-a:4", "ns:2": None}
    assert report.order_in_route == ()
    assert not report.is_agreed
    in_route = json.loads(_route(a=4).body) | {"orderTopicConf": "broker-a:4"}
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = ok(json.dumps(in_route).encode())
    assert _fetch(cluster, "ns:1").order_in_route == ("ns:1",)


def test_an_order_configuration_that_is_refused_is_a_failure() -> None:
    cluster = _two(_route(a=4), _route(a=4))
    cluster.name_server.table[Q.GET_KV_CONFIG] = refused(R.SYSTEM_ERROR, "no")
    report = _fetch(cluster, "ns:1")
    assert [failure.what for failure in report.failures] == ["order at name server ns:1"]
    assert report.order_confs == {}


def test_a_topic_that_a_slave_lacks_is_not_missing_on_its_broker() -> None:
    cluster = _two(_route(a=4, b=4), _route(a=4, b=4))
    del cluster.brokers["broker-b"].topics["T"]
    assert [part.findings for part in _fetch(cluster, "ns:1").parts] == [(), (F.NOT_ON_BROKER,)]
    cluster.slaves = {"broker-b"}
    report = _fetch(cluster, "ns:1")
    assert [part.findings for part in report.parts] == [(), ()]
    assert [failure.what for failure in report.failures] == ["master, its slave answered"]
