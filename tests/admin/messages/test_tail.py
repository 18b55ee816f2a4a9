from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from rmqctl.admin.messages.filter import MessageFilter
from rmqctl.admin.messages.pull import ALL, Expression, pull_request
from rmqctl.admin.messages.tail import MessageTail
from rmqctl.errors import DeadlineError, NotAuthorisedError, NotFoundError, RmqctlError
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.admin.message_store import NOW_MS, MessageStore, damaged, message_cluster
from tests.scripted_peer import SILENCE, V4_9_7, V5_4_0, Reply, ok, passing, refused, run

Step = Callable[[], None]


def _follow(
    cluster: Cluster,
    scenario: Callable[[list[str], Callable[[float], Awaitable[None]]], Awaitable[None]],
    *,
    since_ms: int | None = None,
    is_from_end: bool = True,
    last_count: int = 0,
    tags: frozenset[str] = frozenset(),
    expression: Expression = ALL,
) -> tuple[list[str], list[str]]:
    """Follow topic T while a scenario runs; return the bodies that came and what was reported."""
    bodies: list[str] = []
    reports: list[str] = []

    async def main() -> None:
        async with cluster.client(timeout_s=1e9) as client:
            tail = MessageTail(client, "T", MessageFilter(tags=tags), reports.append, expression=expression)

            async def read() -> None:
                run_tail = tail.run(since_ms=since_ms, is_from_end=is_from_end, last_count=last_count)
                async with aclosing(run_tail) as batches:
                    async for batch in batches:
                        bodies.extend(
                            found.message.body.decode() if found.message is not None else f"?{found.queue_offset}"
                            for found in batch
                        )

            reading = asyncio.ensure_future(read())
            await cluster.clock.advance(0.1)
            try:
                await scenario(bodies, cluster.clock.advance)
                if reading.done():
                    await reading
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    run(main())
    return bodies, reports


def _store(name: str = "broker-a", count: int = 5) -> MessageStore:
    store = MessageStore(BrokerState(name))
    for number in range(count):
        store.put("T", 0, body=f"{name[-1]}{number}".encode(), at_ms=NOW_MS + number * 1000)
    return store


async def _nothing(bodies: list[str], advance: Callable[[float], Awaitable[None]]) -> None:
    await advance(2)


def test_only_what_comes_is_shown_and_within_a_second() -> None:
    store = _store()

    async def scenario(bodies: list[str], advance: Callable[[float], Awaitable[None]]) -> None:
        assert bodies == []
        store.put("T", 0, body=b"new")
        await advance(0.5)
        assert bodies == ["new"]

    _follow(message_cluster(store), scenario)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"is_from_end": False}, ["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2", "b3", "b4"]),
        ({"is_from_end": False, "since_ms": NOW_MS + 4000}, ["a4", "b4"]),
        ({"last_count": 3}, ["a4", "b3", "b4"]),
        ({"last_count": 100}, ["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2", "b3", "b4"]),
    ],
)
def test_it_starts_where_it_is_told(settings: dict[str, int], expected: list[str]) -> None:
    cluster = message_cluster(_store(), _store("broker-b"))
    bodies, reports = _follow(cluster, _nothing, **settings)  # type: ignore[arg-type]
    assert sorted(bodies) == expected
    assert reports == []


def test_tags_with_one_hash_are_told_apart() -> None:
    store = MessageStore(BrokerState("broker-a"))
    for number in range(6):
        store.put("T", 0, body=str(number).encode(), tag=("Aa", "BB")[number % 2])
    wanted = frozenset({"BB"})
    bodies, _ = _follow(message_cluster(store), _nothing, is_from_end=False, tags=wanted, expression=Expression("BB"))
    assert bodies == ["1", "3", "5"]


def test_a_broker_that_goes_and_comes_back_is_reported_once_and_nothing_is_missed() -> None:
    a, b = _store(), _store("broker-b")
    cluster = message_cluster(a, b)

    async def scenario(bodies: list[str], advance: Callable[[float], Awaitable[None]]) -> None:
        cluster.stop("broker-b")
        await cluster.servers["broker-b"].drop()
        await advance(5)
        a.put("T", 0, body=b"meanwhile")
        b.put("T", 0, body=b"behind")
        await advance(5)
        assert bodies == ["meanwhile"]
        cluster.network.refusing.clear()
        await advance(5)

    bodies, reports = _follow(cluster, scenario)
    assert bodies == ["meanwhile", "behind"]
    assert [report.split(" ")[0:2] for report in reports] == [["broker-b", "cannot"], ["broker-b", "answers"]]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["late"]),
        ({"is_from_end": False}, ["b0", "b1", "b2", "b3", "b4", "late"]),
        ({"is_from_end": False, "since_ms": NOW_MS + 3000}, ["b3", "b4", "late"]),
    ],
)
def test_a_broker_that_is_down_at_first_is_followed_from_where_it_was_told(
    settings: dict[str, Any], expected: list[str]
) -> None:
    a, b = _store(), _store("broker-b")
    cluster = message_cluster(a, b)
    cluster.stop("broker-b")

    async def scenario(bodies: list[str], advance: Callable[[float], Awaitable[None]]) -> None:
        await advance(5)
        cluster.network.refusing.clear()
        await advance(5)
        b.put("T", 0, body=b"late")
        await advance(2)

    bodies, reports = _follow(cluster, scenario, **settings)
    assert [body for body in bodies if not body.startswith("a")] == expected
    assert len(reports) == 2


def test_a_queue_that_is_added_is_followed_from_its_beginning() -> None:
    store = _store()
    cluster = message_cluster(store)

    async def scenario(bodies: list[str], advance: Callable[[float], Awaitable[None]]) -> None:
        store.put("T", 1, body=b"other queue")
        await advance(31)

    bodies, reports = _follow(cluster, scenario)
    assert bodies == ["other queue"]
    assert reports == ["broker-a has a new queue 1."]


def test_a_queue_that_lost_its_newest_messages_is_followed_from_its_end() -> None:
    store = _store()

    async def scenario(bodies: list[str], advance: Callable[[float], Awaitable[None]]) -> None:
        del store.queues["T", 0][3:]
        await advance(1)
        store.put("T", 0, body=b"anew")
        await advance(1)

    bodies, reports = _follow(message_cluster(store), scenario)
    assert bodies == ["anew"]
    assert reports == ["broker-a:0: the broker lost its newest messages and continues at offset 3 instead of 5."]


def test_what_is_deleted_before_it_was_read_is_told() -> None:
    store = _store()
    cluster = message_cluster(store)

    async def scenario(bodies: list[str], advance: Callable[[float], Awaitable[None]]) -> None:
        cluster.stop("broker-a")
        await cluster.servers["broker-a"].drop()
        for _ in range(4):
            store.put("T", 0, body=b"new")
        store.delete_before("T", 0, 7)
        cluster.network.refusing.clear()
        await advance(5)

    bodies, reports = _follow(cluster, scenario)
    assert bodies == ["new", "new"]
    assert "broker-a:0: offsets 5 to 6 were deleted before they were read." in reports


def test_a_broker_without_an_address_is_followed_when_it_has_one() -> None:
    a, b = _store(), _store("broker-b")
    cluster = message_cluster(a, b)
    whole = cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC]
    queues = [
        {"brokerName": name, "perm": 6, "readQueueNums": 1, "writeQueueNums": 1} for name in ("broker-a", "broker-b")
    ]
    brokers = [{"cluster": "C", "brokerName": "broker-a", "brokerAddrs": {"0": cluster.address("broker-a")}}]
    route = ok(json.dumps({"queueDatas": queues, "brokerDatas": brokers}).encode())
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = route

    async def scenario(bodies: list[str], advance: Callable[[float], Awaitable[None]]) -> None:
        await advance(2)
        cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = whole
        await advance(32)
        b.put("T", 0, body=b"new")
        await advance(2)

    bodies, reports = _follow(cluster, scenario)
    assert bodies == ["new"]
    assert [report.split(" ")[:2] for report in reports] == [["broker-b", "cannot"], ["broker-b", "answers"]]


def test_an_unreadable_message_is_shown_as_such() -> None:
    store = _store()
    store.queues["T", 0][1].record = damaged(store.queues["T", 0][1].record)
    bodies, _ = _follow(message_cluster(store), _nothing, is_from_end=False)
    assert bodies == ["a0", "?1", "a2", "a3", "a4"]


def test_a_topic_that_does_not_exist_and_brokers_that_do_not_answer_are_errors() -> None:
    with pytest.raises(NotFoundError):
        _follow(message_cluster(MessageStore(BrokerState("broker-a", topics={"U": [Queue()]}))), _nothing)
    cluster = message_cluster(_store())
    cluster.stop("broker-a")
    with pytest.raises(RmqctlError) as caught:
        _follow(cluster, _nothing)
    assert caught.value.exit_code == 6


def test_a_queue_that_can_not_be_read_is_reported_once_beside_others_of_its_broker() -> None:
    store = _store()
    store.put("T", 1, body=b"other")
    cluster = message_cluster(store)
    pull = store.table()[Q.PULL_MESSAGE]

    def without_queue_1(request: Command) -> Reply:
        gone = refused(R.SYSTEM_ERROR, "queueId[1] is illegal")
        return gone if request.ext_fields["queueId"] == "1" else pull

    cluster.servers["broker-a"].table[Q.PULL_MESSAGE] = without_queue_1

    async def scenario(bodies: list[str], advance: Callable[[float], Awaitable[None]]) -> None:
        store.put("T", 0, body=b"new")
        await advance(20)
        cluster.servers["broker-a"].table[Q.PULL_MESSAGE] = pull
        await advance(5)

    bodies, reports = _follow(cluster, scenario)
    assert bodies == ["new"]
    assert [report.split(" ")[:2] for report in reports] == [["broker-a", "cannot"], ["broker-a", "answers"]]


def test_when_no_queue_may_be_read_it_is_an_error() -> None:
    store, other = _store(), _store("broker-b")
    store.put("T", 1)
    cluster = message_cluster(store, other)
    for server in cluster.servers.values():
        server.table[Q.PULL_MESSAGE] = refused(R.NO_PERMISSION, "User:u has no permission to access Topic:T.")
    with pytest.raises(NotAuthorisedError, match="has no permission"):
        _follow(cluster, _nothing)


@pytest.mark.parametrize("version", [V5_4_0, V4_9_7])
def test_an_old_broker_that_appears_later_shows_only_what_is_new(version: int) -> None:
    a, b = _store(), _store("broker-b")
    b.state.version = version
    cluster = message_cluster(a, b)
    whole = cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC]
    alone = message_cluster(a)
    alone.addresses.update(cluster.addresses)
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = alone.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC]

    async def scenario(bodies: list[str], advance: Callable[[float], Awaitable[None]]) -> None:
        b.put("T", 0, body=b"new", at_ms=cluster.clock.now_ms() + 1000)
        cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = whole
        await advance(31)
        b.put("T", 0, body=b"newer")
        await advance(1)

    bodies, _ = _follow(cluster, scenario)
    assert bodies == ["new", "newer"]


def test_the_beginning_of_a_new_queue_is_asked_for() -> None:
    store = _store()
    cluster = message_cluster(store)

    async def scenario(bodies: list[str], advance: Callable[[float], Awaitable[None]]) -> None:
        for number in range(3):
            store.put("T", 1, body=str(number).encode())
        store.delete_before("T", 1, 2)
        await advance(31)

    assert _follow(cluster, scenario)[0] == ["2"]
    offsets = [
        request.ext_fields["queueOffset"]
        for request in cluster.servers["broker-a"].asked
        if request.code == Q.PULL_MESSAGE and request.ext_fields["queueId"] == "1"
    ]
    assert set(offsets) == {"2", "3"}  # brokers note a pull below the smallest offset in OFFSET_MOVED_EVENT


def test_a_search_by_time_that_begins_too_early_shows_nothing_older() -> None:
    store = _store()
    store.state.version = V4_9_7  # answers the nearer neighbour
    bodies, _ = _follow(message_cluster(store), _nothing, is_from_end=False, since_ms=NOW_MS + 3_600_000)
    assert bodies == []


def test_the_last_of_a_broker_that_can_not_be_read_are_missed_alone_and_unreadable_ones_are_shown() -> None:
    a, b = _store(), _store("broker-b")
    a.queues["T", 0][4].record = damaged(a.queues["T", 0][4].record)
    cluster = message_cluster(a, b)
    cluster.servers["broker-b"].table[Q.PULL_MESSAGE] = refused(R.SYSTEM_BUSY, "[OVERLOAD]")
    bodies, reports = _follow(cluster, _nothing, last_count=10)
    assert sorted(bodies) == ["?4", "a0", "a1", "a2", "a3"]
    assert [report.split(" ")[:2] for report in reports] == [["broker-b", "cannot"]]


def test_a_connection_that_falls_silent_is_opened_anew() -> None:
    store = _store()
    cluster = message_cluster(store)
    server = cluster.servers["broker-a"]
    pull = server.table[Q.PULL_MESSAGE]

    async def main() -> None:
        async with cluster.client(timeout_s=30) as client:
            request = pull_request(MessageQueue("T", "broker-a", 0), 0, ALL, 1, hold_ms=10_000)
            server.table[Q.PULL_MESSAGE] = SILENCE
            with pytest.raises(DeadlineError):
                await client.ask(server.address, request, held_s=5)
            server.table[Q.PULL_MESSAGE] = pull
            await client.ask(server.address, request, held_s=5)

    run(passing(cluster.clock, main()))
    assert cluster.network.attempts.count(server.address) == 2
