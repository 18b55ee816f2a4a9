from __future__ import annotations

import pytest

from rmqctl.admin.messages.filter import MessageFilter
from rmqctl.admin.messages.index import IndexedMessages, find_indexed
from rmqctl.admin.topics.queues import fetch_route
from rmqctl.protocol.codes import RequestCode as Q
from tests.admin.cluster import BrokerState, Cluster
from tests.admin.message_store import NOW_MS, MessageStore, message_cluster
from tests.scripted_peer import ok, passing, run


def _find(cluster: Cluster, wanted: MessageFilter, limit: int | None = None) -> IndexedMessages:
    async def scenario() -> IndexedMessages:
        async with cluster.client() as client:
            return await find_indexed(client, await fetch_route(client, "T"), wanted, limit=limit)

    return run(passing(cluster.clock, scenario()))


def _bodies(indexed: IndexedMessages) -> list[bytes]:
    return [each.message.body for each in indexed.found if each.message is not None]


def test_keys_of_all_brokers_are_found_as_business_and_as_unique_keys() -> None:
    a, b = MessageStore(BrokerState("broker-a")), MessageStore(BrokerState("broker-b"))
    a.put("T", 0, body=b"1", keys="k1 k2", at_ms=NOW_MS)
    b.put("T", 3, body=b"2", keys="k2", at_ms=NOW_MS - 5)
    b.put("T", 3, body=b"3", uniq="k2", at_ms=NOW_MS + 5)
    cluster = message_cluster(a, b)
    assert _bodies(_find(cluster, MessageFilter(key="k2"))) == [b"2", b"1", b"3"]
    assert _bodies(_find(cluster, MessageFilter(key="k1"))) == [b"1"]
    assert _find(cluster, MessageFilter(key="k")).found == ()


def test_keys_with_one_hash_are_told_apart() -> None:
    store = MessageStore(BrokerState("broker-a"))
    store.put("T", 0, body=b"Aa", keys="Aa")
    store.put("T", 0, body=b"BB", keys="BB")
    assert _bodies(_find(message_cluster(store), MessageFilter(key="BB"))) == [b"BB"]


def test_more_than_a_broker_answers_at_once_is_found_all_the_same() -> None:
    store = MessageStore(BrokerState("broker-a"))
    for number in range(200):
        store.put("T", 0, body=str(number).encode(), keys="k", at_ms=NOW_MS + number * 100)
    cluster = message_cluster(store)
    everything = _find(cluster, MessageFilter(key="k"))
    assert _bodies(everything) == [str(number).encode() for number in range(200)]
    assert (everything.is_cut, everything.crowded) == (False, ())
    newest = _find(cluster, MessageFilter(key="k"), limit=10)
    assert _bodies(newest) == [str(number).encode() for number in range(190, 200)]
    assert newest.is_cut


def test_a_second_with_more_than_a_broker_answers_is_told() -> None:
    store = MessageStore(BrokerState("broker-a"))
    store.put("T", 0, body=b"before", keys="k", at_ms=NOW_MS - 60_000)
    for number in range(100):
        store.put("T", 0, body=b"crowd", keys="k", at_ms=NOW_MS + number)
    indexed = _find(message_cluster(store), MessageFilter(key="k"))
    assert indexed.crowded == ("broker-a",)
    assert indexed.is_cut
    assert _bodies(indexed).count(b"before") == 1
    assert _bodies(indexed).count(b"crowd") == 64


@pytest.mark.parametrize(("since", "until", "expected"), [(1500, 2500, [2]), (1000, 2000, [1, 2]), (3001, 9000, [])])
def test_the_indexs_seconds_are_checked_to_the_ms(since: int, until: int, expected: list[int]) -> None:
    store = MessageStore(BrokerState("broker-a"))
    for number in range(4):
        store.put("T", 0, body=str(number).encode(), keys="k", at_ms=NOW_MS + number * 1000)
    wanted = MessageFilter(key="k", since_ms=NOW_MS + since, until_ms=NOW_MS + until)
    assert _bodies(_find(message_cluster(store), wanted)) == [str(number).encode() for number in expected]


def test_other_conditions_hold_too() -> None:
    store = MessageStore(BrokerState("broker-a"))
    store.put("T", 0, body=b"x", keys="k", tag="A")
    store.put("T", 0, body=b"y", keys="k", tag="B")
    assert _bodies(_find(message_cluster(store), MessageFilter(key="k", tags=frozenset("B")))) == [b"y"]


def test_a_broker_that_is_down_is_named() -> None:
    a, b = MessageStore(BrokerState("broker-a")), MessageStore(BrokerState("broker-b"))
    a.put("T", 0, keys="k")
    b.put("T", 0, keys="k")
    cluster = message_cluster(a, b)
    cluster.stop("broker-b")
    indexed = _find(cluster, MessageFilter(key="k"))
    assert len(indexed.found) == 1
    assert [failure.broker_name for failure in indexed.failures] == ["broker-b"]


def test_a_message_that_the_index_has_twice_is_found_once() -> None:
    store = MessageStore(BrokerState("broker-a"))
    record = store.put("T", 0, body=b"1", keys="k", uniq="k").record
    cluster = message_cluster(store)
    cluster.servers["broker-a"].fail_next(Q.QUERY_MESSAGE, ok(record + record))
    assert _bodies(_find(cluster, MessageFilter(key="k"))) == [b"1"]
