"""Messages that are not in their topic yet, on scripted brokers: which are asked what, and what is left out."""

from __future__ import annotations

import pytest

from rmqctl.admin.messages.filter import MessageFilter
from rmqctl.admin.messages.index import IndexedMessages
from rmqctl.admin.messages.wait_lookup import find_indexed_or_waiting
from rmqctl.admin.topics.queues import fetch_route
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.rules.message_wait import Wait
from tests.admin.cluster import BrokerState, Cluster
from tests.admin.message_store import NOW_MS, MessageStore, message_cluster
from tests.scripted_peer import Reply, ok, passing, refused, run

_DELAYS, _TIMERS = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"
_CONFIG = ok(b"messageDelayLevel=1s 5s 10s 30s\n")
_FOR_T = {"REAL_TOPIC": "T", "REAL_QID": "2"}


def _stores() -> tuple[MessageStore, MessageStore]:
    stores = MessageStore(BrokerState("broker-a")), MessageStore(BrokerState("broker-b"))
    for store in stores:
        store.put("T", 0, keys="there")
    return stores


def _cluster(*stores: MessageStore) -> Cluster:
    cluster = message_cluster(*stores)
    for server in cluster.servers.values():
        server.table[Q.GET_BROKER_CONFIG] = _CONFIG
    return cluster


def _find(cluster: Cluster, key: str, limit: int | None = None, topic: str = "T") -> IndexedMessages:
    async def scenario() -> IndexedMessages:
        async with cluster.client() as client:
            route = await fetch_route(client, topic)
            return await find_indexed_or_waiting(client, route, MessageFilter(key=key), limit=limit)

    return run(passing(cluster.clock, scenario()))


def _asked(cluster: Cluster, name: str) -> list[str]:
    return [each.ext_fields["topic"] for each in cluster.servers[name].asked if each.code == Q.QUERY_MESSAGE]


def _bodies(indexed: IndexedMessages) -> list[bytes]:
    return [each.message.body for each in indexed.found if each.message is not None]


def test_what_waits_is_found_with_its_time() -> None:
    a, b = _stores()
    a.put(_DELAYS, 3, body=b"level", keys="k", more=_FOR_T, at_ms=NOW_MS)
    b.put(_TIMERS, 0, body=b"timer", keys="k", more=_FOR_T | {"TIMER_OUT_MS": str(NOW_MS)}, at_ms=NOW_MS + 1)
    b.put(_DELAYS, 3, body=b"other", keys="k", more=_FOR_T | {"REAL_TOPIC": "Other"})
    indexed = _find(_cluster(a, b), "k")
    assert _bodies(indexed) == [b"level", b"timer"]
    assert [each.wait for each in indexed.found] == [
        Wait("T", 2, 4, NOW_MS + 30_000),
        Wait("T", 2, None, NOW_MS + 1_000),
    ]
    assert [str(each.meant_for) for each in indexed.found] == ["T@broker-a:2", "T@broker-b:2"]


def test_brokers_are_asked_again_only_where_the_topic_has_none() -> None:
    cluster = _cluster(*_stores())
    assert len(_find(cluster, "there").found) == 2
    assert {*_asked(cluster, "broker-a"), *_asked(cluster, "broker-b")} == {"T"}
    before_count = len(_asked(cluster, "broker-a"))
    assert _find(cluster, "nowhere").found == ()
    assert sorted(_asked(cluster, "broker-a")[before_count:]) == [_DELAYS, "T", _TIMERS]


def test_a_broker_that_does_not_answer_is_not_hidden_by_what_waits_elsewhere() -> None:
    a, b = _stores()
    a.put(_DELAYS, 0, body=b"waits", keys="k", more=_FOR_T)
    cluster = _cluster(a, b)
    cluster.servers["broker-b"].table[Q.QUERY_MESSAGE] = refused(R.SYSTEM_BUSY, "later")
    indexed = _find(cluster, "k")
    assert _bodies(indexed) == [b"waits"]
    assert [failure.broker_name for failure in indexed.failures] == ["broker-b"]
    assert set(_asked(cluster, "broker-b")) == {"T"}


def _only_of_t(store: MessageStore, answer: Command) -> Reply:
    query = store.table()[Q.QUERY_MESSAGE]
    return lambda request: query(request) if request.ext_fields["topic"] == "T" else answer  # type: ignore[operator]


def test_what_fails_only_where_messages_wait_is_told() -> None:
    a, b = _stores()
    cluster = _cluster(a, b)
    cluster.servers["broker-a"].table[Q.QUERY_MESSAGE] = _only_of_t(a, refused(R.SYSTEM_ERROR, "broken"))
    indexed = _find(cluster, "k")
    assert [(failure.broker_name, failure.what) for failure in indexed.failures] == [("broker-a", "messages that wait")]


def test_an_account_without_the_right_to_look_there_gets_a_hint_and_no_error() -> None:
    a, b = _stores()
    cluster = _cluster(a, b)
    cluster.servers["broker-a"].table[Q.QUERY_MESSAGE] = _only_of_t(a, refused(R.NO_PERMISSION, "no right"))
    indexed = _find(cluster, "k")
    assert (indexed.found, indexed.failures, indexed.hides_waiting) == ((), (), True)
    assert _DELAYS in indexed.waiting_hint


def test_of_a_message_that_was_stored_again_while_it_waits_the_last_copy_counts() -> None:
    a, b = _stores()
    for number in range(3):
        a.put(_TIMERS, 0, body=b"%d" % number, uniq="U", more=_FOR_T | {"TIMER_OUT_MS": str(NOW_MS)})
    a.put(_TIMERS, 0, body=b"second", keys="U", more=_FOR_T)
    assert _bodies(_find(_cluster(a, b), "U")) == [b"2", b"second"]
    assert _bodies(_find(_cluster(a, b), "U", limit=1)) == [b"second"]


@pytest.mark.parametrize("recalled", ["T+U", "U"])
def test_a_message_that_was_taken_back_waits_no_more(recalled: str) -> None:
    a, b = _stores()
    a.put(_TIMERS, 0, uniq="U", more=_FOR_T)
    a.put(_TIMERS, 0, uniq="U", more=_FOR_T | {"TIMER_DEL_UNIQKEY": recalled})
    assert _find(_cluster(a, b), "U").found == ()


def test_where_the_levels_are_not_told_the_time_is_unknown() -> None:
    a, b = _stores()
    a.put(_DELAYS, 1, keys="k", more=_FOR_T)
    cluster = _cluster(a, b)
    cluster.servers["broker-a"].table[Q.GET_BROKER_CONFIG] = refused(R.NO_PERMISSION, "no right")
    (found,) = _find(cluster, "k").found
    assert found.wait == Wait("T", 2, 2, None, "NOT_AUTHORISED")


def test_the_topics_where_messages_wait_are_searched_like_any_other() -> None:
    a, b = _stores()
    a.put(_DELAYS, 1, body=b"waits", keys="k", more=_FOR_T)
    cluster = _cluster(a, b)
    indexed = _find(cluster, "k", topic=_DELAYS)
    assert (_bodies(indexed), indexed.found[0].wait) == ([b"waits"], None)
    assert _find(cluster, "none", topic=_DELAYS).found == ()
    assert set(_asked(cluster, "broker-a")) == {_DELAYS}
