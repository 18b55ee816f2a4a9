from __future__ import annotations

from typing import Any

import pytest

from rmqctl.admin.topics.list import TopicList, fetch_topic_list
from rmqctl.errors import NotFoundError, UnreachableError
from rmqctl.model.topic import TopicFinding, TopicKind
from rmqctl.protocol import headers
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.scripted_peer import SILENCE, V4_9_7, ok, passing, refused, run

F = TopicFinding


def _fetch(cluster: Cluster, *patterns: str, **options: Any) -> TopicList:
    async def scenario() -> TopicList:
        async with cluster.client() as client:
            return await passing(cluster.clock, fetch_topic_list(client, patterns, **options))

    return run(scenario())


def _cluster() -> Cluster:
    a, b = BrokerState("broker-a"), BrokerState("broker-b")
    for broker in (a, b):
        broker.topics |= {"orders": [Queue(10, 2), Queue(5)], "%RETRY%g": [Queue()], "TBW102": [Queue()], "C": []}
    a.topics["only-a"] = [Queue(3)]
    return Cluster(a, b)


def test_users_topics_are_listed_with_each_brokers_own_configuration() -> None:
    found = _fetch(_cluster())
    assert [topic.topic for topic in found.topics] == ["only-a", "orders"]
    assert found.hidden_count == 3
    orders = found.topics[1]
    assert list(orders.configs) == ["broker-a", "broker-b"]
    assert (orders.kind, orders.at_name_server, orders.is_whole) == (TopicKind.NORMAL, True, True)
    assert (orders.findings, orders.stats, found.failures) == ((), None, ())


def test_other_kinds_are_listed_on_request() -> None:
    found = _fetch(_cluster(), with_system=True)
    assert [(topic.topic, topic.kind) for topic in found.topics] == [
        ("%RETRY%g", TopicKind.RETRY),
        ("C", TopicKind.SYSTEM),
        ("TBW102", TopicKind.SYSTEM),
        ("only-a", TopicKind.NORMAL),
        ("orders", TopicKind.NORMAL),
    ]
    assert found.hidden_count == 0


def test_patterns_choose_among_all_kinds() -> None:
    found = _fetch(_cluster(), "%RETRY%*", "o?ders")
    assert [topic.topic for topic in found.topics] == ["%RETRY%g", "orders"]
    assert found.hidden_count == 0
    with pytest.raises(NotFoundError, match="Topic ordesr does not exist"):
        _fetch(_cluster(), "ordesr")


def test_a_topic_on_one_broker_only_is_no_difference() -> None:
    (topic,) = _fetch(_cluster(), "only-a").topics
    assert (list(topic.configs), topic.findings) == (["broker-a"], ())


def test_brokers_that_differ_are_said_to() -> None:
    cluster = _cluster()
    cluster.brokers["broker-b"].topic_configs["orders"] = {"readQueueNums": 4, "perm": 4, "order": True}
    (topic,) = _fetch(cluster, "orders").topics
    assert topic.findings == (F.QUEUES_DIFFER, F.PERMISSIONS_DIFFER, F.ATTRIBUTES_DIFFER)


def test_a_broker_that_lost_a_topic_that_the_route_names_is_found() -> None:
    cluster = _cluster()
    routes = cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC]
    assert callable(routes)
    # The name server goes on to name both.
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = routes(headers.get_route("orders"))
    del cluster.brokers["broker-b"].topics["orders"]
    (topic,) = _fetch(cluster, "orders").topics
    assert (list(topic.configs), topic.findings) == (["broker-a"], (F.NOT_ON_BROKER,))


def test_a_topic_that_no_broker_has_keeps_its_row() -> None:
    cluster = _cluster()
    cluster.name_server.table[Q.GET_ALL_TOPIC_LIST_FROM_NAMESERVER] = ok(b'{"topicList":["gone","orders"]}')
    topics = {topic.topic: topic for topic in _fetch(cluster).topics}
    assert (topics["gone"].configs, topics["gone"].at_name_server) == ({}, True)
    # And one that only brokers have is found beside it.
    assert topics["only-a"].findings == (F.NOT_AT_NAME_SERVER,)


def test_routes_are_asked_only_for_topics_that_a_broker_lacks() -> None:
    cluster = _cluster()
    _fetch(cluster)
    asked = [r.ext_fields["topic"] for r in cluster.name_server.asked if r.code == Q.GET_ROUTEINFO_BY_TOPIC]
    assert asked == ["only-a"]


@pytest.mark.parametrize("version", [None, V4_9_7])
def test_statistics_are_by_broker(version: int | None) -> None:
    cluster = _cluster()
    if version is not None:
        cluster = Cluster(BrokerState("broker-a", version, {"orders": [Queue(10, 2), Queue(5)]}))
    (topic,) = _fetch(cluster, "orders", with_stats=True).topics
    assert topic.stats is not None
    queues = topic.stats["broker-a"].queues
    assert [(queues[0].min_offset, queues[0].max_offset), queues[1].max_offset] == [(2, 10), 5]
    assert topic.stats["broker-a"].put_tps == (None if version else 0.0)


def test_a_broker_that_is_down_hides_no_other() -> None:
    cluster = _cluster()
    cluster.stop("broker-b")
    found = _fetch(cluster, with_stats=True)
    assert [(topic.topic, topic.is_whole, topic.findings) for topic in found.topics] == [
        ("only-a", False, ()),
        ("orders", False, ()),
    ]
    assert [(failure.broker_name, failure.error.name) for failure in found.failures] == [("broker-b", "UNREACHABLE")]


def test_no_broker_at_all_is_an_error() -> None:
    cluster = _cluster()
    cluster.stop("broker-a")
    cluster.stop("broker-b")
    with pytest.raises(UnreachableError):
        _fetch(cluster)


def test_a_broker_that_ends_amid_its_statistics_is_named_once() -> None:
    cluster = _cluster()
    cluster.servers["broker-b"].table[Q.GET_TOPIC_STATS_INFO] = refused(R.SYSTEM_ERROR, "no")
    found = _fetch(cluster, with_stats=True, with_system=True)
    assert [(failure.broker_name, failure.error.name) for failure in found.failures] == [("broker-b", "SYSTEM_ERROR")]
    assert all(topic.stats is not None and "broker-a" in topic.stats for topic in found.topics)


def test_a_silent_name_server_for_routes_is_said() -> None:
    cluster = _cluster()
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = SILENCE
    found = _fetch(cluster)
    assert [(failure.what, failure.error.name) for failure in found.failures] == [("routes of topics", "TIMED_OUT")]
    assert [topic.topic for topic in found.topics] == ["only-a", "orders"]
