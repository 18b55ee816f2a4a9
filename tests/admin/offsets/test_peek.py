from __future__ import annotations

import pytest

from rmqctl.admin.offsets.peek import Peek, peek_group
from rmqctl.admin.topics.queues import parse_queue_choice
from rmqctl.errors import NotFoundError, RmqctlError, UnreachableError
from tests.admin.cluster import BrokerState, Cluster
from tests.admin.message_store import MessageStore, message_cluster
from tests.scripted_peer import V4_9_7, V5_4_0, passing, run


def _store(version: int = V5_4_0, name: str = "broker-a") -> MessageStore:
    state = BrokerState(name, version, configured={"G", "TOOLS_CONSUMER"})
    store = MessageStore(state)
    for queue_id in range(2):
        for number in range(10):
            store.put("T", queue_id, body=f"{queue_id}-{number}".encode())
    return store


def _peek(cluster: Cluster, group: str = "G", *queues: str, before: int = 2, after: int = 2) -> Peek:
    async def scenario() -> Peek:
        async with cluster.client() as client:
            choices = [parse_queue_choice(text) for text in queues]
            return await peek_group(client, group, "T", choices, before, after)

    return run(passing(cluster.clock, scenario()))


def _offsets(peek: Peek) -> list[tuple[int | None, list[int]]]:
    return [(queue.consumer_offset, [found.queue_offset for found in queue.found]) for queue in peek.queues]


@pytest.mark.parametrize("version", [V5_4_0, V4_9_7])
def test_messages_on_both_sides_of_each_offset_are_shown(version: int) -> None:
    store = _store(version)
    store.state.offsets["G"] = {"T": {0: 5, 1: 0}}
    assert _offsets(_peek(message_cluster(store))) == [(5, [3, 4, 5, 6, 7]), (0, [0, 1, 2])]
    assert _offsets(_peek(message_cluster(store), "G", "broker-a:0", before=0, after=0)) == [(5, [5])]


@pytest.mark.parametrize("version", [V5_4_0, V4_9_7])
def test_a_queue_without_an_offset_is_told_from_one_at_0(version: int) -> None:
    store = _store(version)
    store.state.offsets["G"] = {"T": {1: 0}}
    assert _offsets(_peek(message_cluster(store))) == [(None, []), (0, [0, 1, 2])]


@pytest.mark.parametrize("version", [V5_4_0, V4_9_7])
def test_offsets_that_only_a_slave_lacks_are_unknown(version: int) -> None:
    store = _store(version)
    cluster = message_cluster(store)
    cluster.slaves = {"broker-a"}
    with pytest.raises(UnreachableError):
        _peek(cluster)


def test_the_ends_of_the_queue_bound_it() -> None:
    store = _store()
    store.state.offsets["G"] = {"T": {0: 10, 1: 9}}
    assert _offsets(_peek(message_cluster(store))) == [(10, [8, 9]), (9, [7, 8, 9])]
    store.state.offsets["G"] = {"T": {0: 99, 1: 1}}
    assert _offsets(_peek(message_cluster(store))) == [(99, [8, 9]), (1, [0, 1, 2, 3])]


def test_an_offset_that_was_deleted_shows_the_first_that_is_left() -> None:
    store = _store()
    store.delete_before("T", 0, 6)
    store.state.offsets["G"] = {"T": {0: 3, 1: 9}}
    first = _peek(message_cluster(store)).queues[0]
    assert (first.consumer_offset, first.span.min_offset) == (3, 6)
    assert [found.queue_offset for found in first.found] == [6, 7, 8]


def test_a_group_that_does_not_exist_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(NotFoundError) as caught:
        _peek(message_cluster(_store()), "g")
    assert caught.value.suggestions == ("G",)
    assert _offsets(_peek(message_cluster(_store()), "G")) == [(None, []), (None, [])]


def test_a_broker_that_is_down_is_named_and_the_others_are_shown() -> None:
    a, b = _store(), _store(name="broker-b")
    for store in (a, b):
        store.state.offsets["G"] = {"T": {0: 1, 1: 1}}
    cluster = message_cluster(a, b)
    cluster.stop("broker-b")
    peek = _peek(cluster)
    assert {queue.span.mq.broker_name for queue in peek.queues} == {"broker-a"}
    assert {failure.broker_name for failure in peek.failures} == {"broker-b"}
    cluster.stop("broker-a")
    with pytest.raises(RmqctlError) as caught:
        _peek(cluster)
    assert caught.value.exit_code == 6
