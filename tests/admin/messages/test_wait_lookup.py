"""Messages that are not in their topic yet, on scripted brokers: which are asked what, and what is left out."""

from __future__ import annotations

import json

import pytest

from rmqctl.admin.messages.filter import MessageFilter
from rmqctl.admin.messages.index import IndexedMessages
from rmqctl.admin.messages.wait_lookup import find_indexed_or_waiting
from rmqctl.admin.topics.queues import fetch_route
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.rules.message_wait import Transaction, TransactionState, Wait
from tests.admin.cluster import HOUR_MS, BrokerState, Cluster
from tests.admin.cluster import NOW_MS as CLOCK_MS
from tests.admin.message_store import NOW_MS, MessageStore, message_cluster
from tests.scripted_peer import Reply, ok, passing, refused, run

_DELAYS, _TIMERS = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"
_HALVES, _GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
_ALL_HALVES = (_HALVES, "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", _GIVEN_UP)
# After the time of the tests' clock.
_LATER_MS = CLOCK_MS + HOUR_MS
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
        server.table[Q.GET_ALL_DELAY_OFFSET] = ok(b'{"offsetTable":{"2":1}}')
        server.table[Q.QUERY_CONSUMER_OFFSET] = ok(offset="2")
        server.table[Q.QUERY_CONSUME_TIME_SPAN] = lambda request: _telling(cluster.clock.now_ms())
    return cluster


def _telling(now_ms: int) -> Command:
    queue = {"brokerName": "any", "queueId": 0, "topic": "SELF_TEST_TOPIC"}
    return ok(json.dumps({"consumeTimeSpanSet": [{"delayTime": now_ms + 1, "messageQueue": queue}]}).encode())


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
    a.put(_DELAYS, 3, body=b"level", keys="k", more=_FOR_T, at_ms=_LATER_MS)
    b.put(_TIMERS, 0, body=b"timer", keys="k", more=_FOR_T | {"TIMER_OUT_MS": str(_LATER_MS)}, at_ms=_LATER_MS + 1)
    b.put(_DELAYS, 3, body=b"other", keys="k", more=_FOR_T | {"REAL_TOPIC": "Other"})
    indexed = _find(_cluster(a, b), "k")
    assert _bodies(indexed) == [b"level", b"timer"]
    assert [each.wait for each in indexed.found] == [
        Wait("T", 2, 4, _LATER_MS + 30_000),
        Wait("T", 2, None, _LATER_MS + 1_000),
    ]
    assert [str(each.meant_for) for each in indexed.found] == ["T@broker-a:2", "T@broker-b:2"]


def test_brokers_are_asked_again_only_where_the_topic_has_none() -> None:
    cluster = _cluster(*_stores())
    assert len(_find(cluster, "there").found) == 2
    assert {*_asked(cluster, "broker-a"), *_asked(cluster, "broker-b")} == {"T"}
    before_count = len(_asked(cluster, "broker-a"))
    assert _find(cluster, "nowhere").found == ()
    assert sorted(_asked(cluster, "broker-a")[before_count:]) == sorted([_DELAYS, "T", _TIMERS, *_ALL_HALVES])


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
    assert found.wait == Wait("T", 2, 2, None, "NOT_AUTHORISED", None, "NOT_AUTHORISED")


def test_the_topics_where_messages_wait_are_searched_like_any_other() -> None:
    a, b = _stores()
    a.put(_DELAYS, 1, body=b"waits", keys="k", more=_FOR_T)
    cluster = _cluster(a, b)
    indexed = _find(cluster, "k", topic=_DELAYS)
    assert (_bodies(indexed), indexed.found[0].wait) == ([b"waits"], None)
    assert _find(cluster, "none", topic=_DELAYS).found == ()
    assert set(_asked(cluster, "broker-a")) == {_DELAYS}


@pytest.mark.parametrize(
    ("level", "overdue_ms", "reason"),
    [(4, 55_000, None), (2, None, "LEFT")],
    ids=["due for a while", "the level is beyond it"],
)
def test_what_is_overdue_has_been_for_so_long(level: int, overdue_ms: int | None, reason: str | None) -> None:
    a, b = _stores()
    a.put(_DELAYS, level - 1, keys="k", more=_FOR_T, at_ms=CLOCK_MS - 55_000 - (30_000 if level == 4 else 5_000))
    (found,) = _find(_cluster(a, b), "k").found
    assert found.wait is not None
    assert found.wait.overdue_reason == reason
    # The answers take a little while by the tests' clock.
    assert overdue_ms is None or found.wait.overdue_ms in range(overdue_ms - 1_000, overdue_ms + 2_000)


def test_what_has_come_meanwhile_does_not_wait() -> None:
    a, b = _stores()
    a.put(_DELAYS, 3, keys="k", more=_FOR_T, at_ms=CLOCK_MS - HOUR_MS)
    cluster = _cluster(a, b)
    real = cluster.servers["broker-a"].table[Q.QUERY_MESSAGE]

    def query(request: Command) -> Reply:
        answer: Reply = real(request)  # type: ignore[operator]
        if request.ext_fields["topic"] == _DELAYS and ("T", 1) not in a.queues:
            a.put("T", 1, body=b"come", keys="k")
        return answer

    cluster.servers["broker-a"].table[Q.QUERY_MESSAGE] = query
    indexed = _find(cluster, "k")
    assert (_bodies(indexed), indexed.found[0].wait) == ([b"come"], None)


@pytest.mark.parametrize(
    ("copies", "state"),
    [([_HALVES] * 3, "PREPARED"), ([_HALVES], "ENDED"), ([_HALVES, _HALVES, _GIVEN_UP], "GIVEN_UP")],
)
def test_the_last_copy_of_a_half_message_tells_its_state(copies: list[str], state: str) -> None:
    a, b = _stores()
    for number, topic in enumerate(copies):
        more = _FOR_T | {"PGROUP": "P", "TRANSACTION_CHECK_TIMES": str(number)}
        a.put(topic, 0, uniq="U", more=more, at_ms=NOW_MS + number)
    (found,) = _find(_cluster(a, b), "U").found
    expected = Transaction("T", 2, "P", len(copies) - 1, TransactionState(state))
    assert found.transaction == expected


def test_a_half_message_that_is_checked_during_the_search_has_not_ended() -> None:
    a, b = _stores()
    more = _FOR_T | {"PGROUP": "P"}
    a.put(_HALVES, 0, uniq="U", more=more, at_ms=NOW_MS)
    a.put(_HALVES, 0, uniq="other", more=more, at_ms=NOW_MS)
    cluster = _cluster(a, b)

    def checked(_: Command) -> Command:
        if len(a.queues[_HALVES, 0]) == 2:
            a.put(_HALVES, 0, uniq="U", more=more | {"TRANSACTION_CHECK_TIMES": "1"}, at_ms=NOW_MS + 1)
        return ok(offset="2")

    cluster.servers["broker-a"].table[Q.QUERY_CONSUMER_OFFSET] = checked
    (found,) = _find(cluster, "U").found
    assert found.transaction == Transaction("T", 2, "P", 1, TransactionState.PREPARED)


def test_without_the_offset_of_the_checks_the_state_is_unknown() -> None:
    a, b = _stores()
    a.put(_HALVES, 0, uniq="U", more=_FOR_T)
    cluster = _cluster(a, b)
    cluster.servers["broker-a"].table[Q.QUERY_CONSUMER_OFFSET] = refused(R.NO_PERMISSION, "no right")
    (found,) = _find(cluster, "U").found
    assert found.transaction == Transaction("T", 2, None, 0, None, "NOT_AUTHORISED")
