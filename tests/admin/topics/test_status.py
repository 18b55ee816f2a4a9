from __future__ import annotations

import json

import pytest

from rmqctl.admin.topics.status import TopicStatus, fetch_topic_status
from rmqctl.errors import NotFoundError, UnreachableError
from rmqctl.model.topic import TopicFinding
from rmqctl.protocol import headers
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.admin.cluster import BrokerState, Cluster, Group, Queue
from tests.scripted_peer import V4_9_7, V5_4_0, ok, passing, refused, run

F = TopicFinding


def _fetch(cluster: Cluster, topic: str = "T") -> TopicStatus:
    async def scenario() -> TopicStatus:
        async with cluster.client() as client:
            return await passing(cluster.clock, fetch_topic_status(client, topic))

    return run(scenario())


def _cluster(version: int = V5_4_0) -> Cluster:
    a, b = BrokerState("broker-a", version), BrokerState("broker-b", version)
    a.topics["T"] = [Queue(10, 4), Queue()]
    b.topics["T"] = [Queue(7)]
    a.groups["g1"] = Group({})
    b.offsets["g2"] = {"T": {0: 1}}
    return Cluster(a, b)


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
def test_every_queue_has_its_offsets_and_times(version: int) -> None:
    status = _fetch(_cluster(version))
    rows = [(row.mq.broker_name, row.mq.queue_id, row.message_count, row.earliest_at_ms) for row in status.queues]
    earliest = 1_795_238_100_000 - 3_600_000
    assert rows == [("broker-a", 0, 6, earliest), ("broker-a", 1, 0, None), ("broker-b", 0, 7, earliest)]
    assert all((row.is_read, row.is_written) == (True, True) for row in status.queues)
    assert [item.put_tps for item in status.brokers] == ([None, None] if version == V4_9_7 else [0.0, 0.0])
    assert status.failures == ()


def test_the_oldest_message_is_asked_for_only_where_there_is_one() -> None:
    cluster = _cluster()
    _fetch(cluster)
    asked = [
        (name, request.ext_fields["queueId"])
        for name, server in cluster.servers.items()
        for request in server.asked
        if request.code == Q.GET_EARLIEST_MSG_STORETIME
    ]
    assert asked == [("broker-a", "0"), ("broker-b", "0")]


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
def test_configuration_and_consumers_are_each_brokers_own(version: int) -> None:
    status = _fetch(_cluster(version))
    assert [(item.broker_name, item.groups) for item in status.brokers] == [
        ("broker-a", ("g1",)),
        ("broker-b", ("g2",)),
    ]
    assert [item.config.read_queue_count for item in status.brokers if item.config is not None] == [2, 1]
    assert status.findings == (F.QUEUES_DIFFER,)


def test_messages_in_queues_that_nobody_reads_are_found() -> None:
    cluster = Cluster(BrokerState("broker-a", topics={"T": [Queue(1), Queue(1)]}))
    cluster.brokers["broker-a"].topic_configs["T"] = {"readQueueNums": 1}
    status = _fetch(cluster)
    assert [row.is_read for row in status.queues] == [True, False]
    assert status.findings == (F.UNREAD_QUEUES, F.UNREAD_MESSAGES)
    cluster.brokers["broker-a"].topics["T"] = [Queue(1), Queue()]
    assert _fetch(cluster).findings == (F.UNREAD_QUEUES,)


def test_a_route_that_says_something_else_than_the_broker_is_found() -> None:
    cluster = _cluster()
    routes = cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC]
    assert callable(routes)
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = routes(headers.get_route("T"))
    cluster.brokers["broker-a"].topic_configs["T"] = {"perm": 4}
    del cluster.brokers["broker-b"].topics["T"]
    status = _fetch(cluster)
    assert status.findings == (F.NOT_ON_BROKER, F.ROUTE_DIFFERS)
    gone = status.brokers[1]
    assert (gone.config, gone.groups, gone.error) == (None, (), None)
    assert gone.in_route is not None
    assert [row.is_written for row in status.queues] == [False, False]


def test_a_topic_that_only_brokers_have_is_shown_all_the_same() -> None:
    cluster = _cluster()
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = refused(R.TOPIC_NOT_EXIST)
    status = _fetch(cluster)
    assert status.findings[0] == F.NOT_AT_NAME_SERVER
    assert len(status.queues) == 3


def test_a_broker_that_the_route_does_not_name_is_found() -> None:
    cluster = _cluster()
    (_, *rest) = json.loads(_route_body(cluster))["queueDatas"]
    route = json.loads(_route_body(cluster)) | {"queueDatas": rest}
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = ok(json.dumps(route).encode())
    assert F.NOT_IN_ROUTE in _fetch(cluster).findings


def _route_body(cluster: Cluster) -> bytes:
    routes = cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC]
    assert callable(routes)
    answer = routes(headers.get_route("T"))
    assert isinstance(answer, Command)
    return answer.body


def test_a_broker_that_is_down_keeps_its_queues_with_the_error() -> None:
    cluster = _cluster()
    cluster.stop("broker-b")
    status = _fetch(cluster)
    row = status.queues[-1]
    assert (row.mq.broker_name, row.message_count, row.is_read) == ("broker-b", None, None)
    assert row.error is not None
    assert row.error.name == "UNREACHABLE"
    assert (status.brokers[1].groups, status.brokers[1].put_tps) == (None, None)
    assert [(failure.broker_name, failure.what) for failure in status.failures] == [("broker-b", "topic")]


def test_a_broker_of_the_route_without_an_address_is_a_failure() -> None:
    cluster = _cluster()
    route = json.loads(_route_body(cluster))
    route["queueDatas"].append({"brokerName": "broker-z", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1})
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = ok(json.dumps(route).encode())
    status = _fetch(cluster)
    assert [failure.broker_name for failure in status.failures] == ["broker-z"]
    assert [item.broker_name for item in status.brokers] == ["broker-a", "broker-b", "broker-z"]


def test_a_topic_that_does_not_exist_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        _fetch(_cluster(), "TT")
    cluster = _cluster()
    cluster.stop("broker-b")
    with pytest.raises(UnreachableError, match="Topic TT was not found, but broker-b could not be read"):
        _fetch(cluster, "TT")
    cluster.stop("broker-a")
    with pytest.raises(UnreachableError):
        _fetch(cluster)


def test_oldest_messages_that_are_refused_are_said_once_a_broker() -> None:
    cluster = _cluster()
    cluster.brokers["broker-a"].topics["T"] = [Queue(1), Queue(1)]
    cluster.servers["broker-a"].table[Q.GET_EARLIEST_MSG_STORETIME] = refused(R.SYSTEM_ERROR, "no")
    status = _fetch(cluster)
    assert [(failure.broker_name, failure.what) for failure in status.failures] == [("broker-a", "oldest messages")]
    assert [row.earliest_at_ms is None for row in status.queues] == [True, True, False]


def test_without_a_route_a_silent_broker_may_have_the_topic() -> None:
    cluster = _cluster()
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = refused(R.TOPIC_NOT_EXIST, "none")
    cluster.stop("broker-b")
    status = _fetch(cluster)
    assert [failure.broker_name for failure in status.failures] == ["broker-b"]
    told = {item.broker_name: (item.groups is None, item.error is None) for item in status.brokers}
    assert told == {"broker-a": (False, True), "broker-b": (True, False)}


def test_a_topic_that_a_slave_lacks_is_not_missing_on_its_broker() -> None:
    cluster = _cluster()
    route = cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC](Command(0, {"topic": "T"}))  # type: ignore[operator]
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = route
    del cluster.brokers["broker-b"].topics["T"]
    assert F.NOT_ON_BROKER in _fetch(cluster).findings
    cluster.slaves = {"broker-b"}
    status = _fetch(cluster)
    assert F.NOT_ON_BROKER not in status.findings
    assert [failure.what for failure in status.failures] == ["master, its slave answered"]
