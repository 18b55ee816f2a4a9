from __future__ import annotations

from contextlib import aclosing

import pytest

from rmqctl.admin.messages.pull import Expression, pull_queue
from rmqctl.errors import RemoteProtocolError, RmqctlError, UnreachableError
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode as Q
from tests.admin.cluster import BrokerState, Cluster
from tests.admin.message_store import MessageStore, damaged, message_cluster
from tests.scripted_peer import DROP, passing, run

MQ = MessageQueue("T", "broker-a", 0)


def _store(count: int = 100) -> MessageStore:
    store = MessageStore(BrokerState("broker-a"))
    for number in range(count):
        store.put("T", 0, body=str(number).encode(), tag=("Aa", "CC")[number % 2])
    return store


def _pull(cluster: Cluster, first: int, end: int, **settings: object) -> list[list[int]]:
    async def scenario() -> list[list[int]]:
        async with cluster.client() as client:
            pulls = pull_queue(client, "a:1", MQ, first, end, **settings)  # type: ignore[arg-type]
            return [[message.queue_offset for message in messages] async for messages in pulls]

    return run(passing(cluster.clock, scenario()))


@pytest.mark.parametrize("ahead", [False, True])
def test_a_range_is_read_in_pulls_and_not_beyond_its_end(ahead: bool) -> None:
    cluster = message_cluster(_store())
    assert _pull(cluster, 10, 60, ahead=ahead) == [list(range(10, 42)), list(range(42, 60))]
    asked = [int(request.ext_fields["queueOffset"]) for request in cluster.servers["broker-a"].asked]
    assert asked == [10, 42]
    assert _pull(cluster, 90, 1000, ahead=ahead) == [list(range(90, 100))]
    assert _pull(cluster, 5, 5, ahead=ahead) == []


@pytest.mark.parametrize(
    ("expression", "counts"), [(Expression(), [5, 6, 7, 7, 7, 7, 7]), (Expression("Aa||CC"), [2, 3, 4, 5, 6, 7, 7])]
)
def test_the_next_pulls_are_on_their_way_while_the_last_one_is_worked_on(
    expression: Expression, counts: list[int]
) -> None:
    cluster = message_cluster(_store(200))
    server = cluster.servers["broker-a"]

    async def scenario() -> list[int]:
        seen = []
        async with cluster.client() as client:
            async for _ in pull_queue(client, "a:1", MQ, 0, 200, ahead=True, expression=expression):
                await cluster.clock.await_idle()
                seen.append(server.codes().count(Q.PULL_MESSAGE))
        return seen

    assert run(passing(cluster.clock, scenario())) == counts


def test_pulls_ahead_of_what_is_shorter_or_longer_than_expected_lose_nothing() -> None:
    store = _store(400)
    cluster = message_cluster(store)
    store.most_count = 10
    assert [offset for pull in _pull(cluster, 0, 400, ahead=True) for offset in pull] == list(range(400))


def test_leaving_early_leaves_nothing_behind() -> None:
    cluster = message_cluster(_store())

    async def scenario() -> int:
        async with cluster.client() as client:
            async with aclosing(pull_queue(client, "a:1", MQ, 0, 100, ahead=True)) as pulls:
                async for _ in pulls:
                    await cluster.clock.await_idle()
                    break
            await cluster.clock.await_idle()
            return cluster.servers["broker-a"].codes().count(Q.PULL_MESSAGE)

    assert run(passing(cluster.clock, scenario())) == 4


def test_positions_go_up_to_the_end_also_where_nothing_matches() -> None:
    positions: list[int] = []
    cluster = message_cluster(_store(70))
    assert _pull(cluster, 0, 70, expression=Expression("nothing"), on_position=positions.append) == []
    assert positions == [70]
    positions.clear()
    _pull(cluster, 0, 50, on_position=positions.append)
    assert positions == [32, 50]


def test_an_unreadable_message_is_told_with_its_offset_or_ends_it() -> None:
    store = _store(40)
    store.queues["T", 0][7].record = damaged(store.queues["T", 0][7].record)
    broken: list[tuple[int, RmqctlError]] = []
    cluster = message_cluster(store)
    (first, second) = _pull(cluster, 0, 40, on_unreadable=lambda *told: broken.append(told))
    assert first + second == [offset for offset in range(40) if offset != 7]
    ((offset, error),) = broken
    assert (offset, type(error)) == (7, RemoteProtocolError)
    with pytest.raises(RemoteProtocolError):
        _pull(cluster, 0, 40)


def test_an_unreadable_message_does_not_lift_the_filter_from_the_others() -> None:
    store = _store(40)
    store.queues["T", 0][7].record = damaged(store.queues["T", 0][7].record)
    broken: list[int] = []
    pulled = _pull(
        message_cluster(store), 0, 40, expression=Expression("CC"), on_unreadable=lambda at, _: broken.append(at)
    )
    assert [offset for part in pulled for offset in part] == [offset for offset in range(1, 40, 2) if offset != 7]
    assert broken == [7]


def test_an_error_on_the_way_is_raised_after_what_came_before() -> None:
    cluster = message_cluster(_store())
    server = cluster.servers["broker-a"]

    async def scenario() -> list[int]:
        seen: list[int] = []
        async with cluster.client() as client:
            try:
                async for messages in pull_queue(client, "a:1", MQ, 0, 100):
                    seen.append(len(messages))
                    server.table[Q.PULL_MESSAGE] = DROP
            except UnreachableError:
                return seen
        raise AssertionError("the pull ended without the error")

    assert run(passing(cluster.clock, scenario()))[0] == 32
