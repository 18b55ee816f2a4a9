"""What a client takes and drops; details 7.1 to 7.3 of the mission by number."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.consumer.rules.rebalance import (
    QueueMoves,
    Share,
    UnchangedReason,
    compute_moves,
    compute_share,
    find_unsubscribed,
    share_of_all,
)
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import AllocationError, find_strategy
from rmqctl.rules.allocate.base import Assignment

AVERAGELY = find_strategy("AVG").allocate


def queues(count: int, topic: str = "T") -> list[MessageQueue]:
    return [MessageQueue(topic, "broker-a", queue_id) for queue_id in range(count)]


def ids_of(share: Share) -> list[int]:
    return sorted(mq.queue_id for mq in share.queues)


@pytest.mark.parametrize(
    ("queue_count", "shares"),
    [
        (10, [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]),
        (8, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (2, [[0], [1], []]),
    ],
)
def test_averagely_exactly_detail_7_1(queue_count: int, shares: list[list[int]]) -> None:
    clients = ["c1", "c2", "c3"]
    assert [ids_of(compute_share(queues(queue_count), clients, own_id, AVERAGELY)) for own_id in clients] == shares


def test_clients_that_were_told_of_different_members_hold_queues_twice_or_not_at_all_detail_7_2() -> None:
    # c3 has just come: the broker that c1 asked knows of it, the one that c2 asked does not yet.
    seen_by = {"c1": ["c1", "c2", "c3"], "c2": ["c1", "c2"], "c3": ["c1", "c2", "c3"]}
    held = {own_id: ids_of(compute_share(queues(8), seen_by[own_id], own_id, AVERAGELY)) for own_id in seen_by}
    assert held == {"c1": [0, 1, 2], "c2": [4, 5, 6, 7], "c3": [6, 7]}


def _fails(_: Sequence[MessageQueue], __: Sequence[str]) -> Assignment:
    raise AllocationError("No room is named.")


def _is_broken(_: Sequence[MessageQueue], __: Sequence[str]) -> Assignment:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("share", "kept", "detail"),
    [
        (compute_share([], ["c1"], "c1", AVERAGELY), UnchangedReason.NO_QUEUES, None),
        (compute_share(queues(4), [], "c1", AVERAGELY), UnchangedReason.NO_CLIENTS, None),
        (compute_share(queues(4), ["c1"], "c1", _fails), UnchangedReason.STRATEGY_FAILED, "No room is named."),
        (compute_share(queues(4), ["c1"], "c1", _is_broken), UnchangedReason.STRATEGY_FAILED, "ZeroDivisionError"),
        (share_of_all([]), UnchangedReason.NO_QUEUES, None),
    ],
)
def test_an_empty_list_and_a_strategy_that_fails_keep_the_old_share_detail_7_3(
    share: Share, kept: UnchangedReason, detail: str | None
) -> None:
    assert (share.kept, share.detail) == (kept, detail)
    held = queues(2)
    assert compute_moves(held, share) == QueueMoves()
    # Not even what seems to be dead is given up: nobody else might be there to take it.
    assert compute_moves(held, share, expired=held) == QueueMoves()


def test_a_client_that_the_broker_does_not_list_has_no_share() -> None:
    share = compute_share(queues(4), ["c1", "c2"], "c3", AVERAGELY)
    assert share == Share()
    assert compute_moves(queues(2), share).drop == tuple(queues(2))
    # Whatever its strategy would say.
    assert compute_share(queues(4), ["c1"], "c3", _fails) == Share()


def test_who_is_listed_twice_counts_itself_once_and_takes_nothing_of_others() -> None:
    once, twice = ["c1", "c2", "c3"], ["c1", "c2", "c2", "c3"]
    of_us = ids_of(compute_share(queues(12), twice, "c2", AVERAGELY, by_place=True))
    assert of_us == ids_of(compute_share(queues(12), once, "c2", AVERAGELY)) == [4, 5, 6, 7]
    for seen in (once, twice):
        of_others = [ids_of(compute_share(queues(12), seen, each, AVERAGELY)) for each in ("c1", "c3")]
        assert set(of_us).isdisjoint(of_others[0] + of_others[1])
    assert ids_of(compute_share(queues(12), twice, "c2", AVERAGELY)) == [3, 4, 5]


def test_where_names_decide_who_is_listed_twice_is_one() -> None:
    ids, allocate = ["c1", "c1", "c2"], find_strategy("CONSISTENT_HASH").allocate
    shares = [ids_of(compute_share(queues(9), ids, own_id, allocate)) for own_id in ("c1", "c2")]
    assert sorted(shares[0] + shares[1]) == list(range(9))


def test_what_is_not_ours_any_more_is_dropped_and_what_is_new_is_taken() -> None:
    q = queues(5)
    assert compute_moves([q[0], q[1], q[2]], Share(frozenset(q[2:]))) == QueueMoves((q[0], q[1]), (q[3], q[4]))
    assert compute_moves(q, Share(frozenset(q))) == QueueMoves()


def test_a_queue_whose_pulling_has_died_is_dropped_and_taken_anew() -> None:
    q = queues(2)
    expired = {q[0]}
    assert compute_moves(q, Share(frozenset(q)), expired) == QueueMoves((q[0],), (q[0],))
    # One that somebody else has now is only dropped.
    assert compute_moves(q, Share(frozenset({q[1]})), expired) == QueueMoves((q[0],), ())


def test_a_broadcasting_client_takes_all() -> None:
    assert share_of_all(queues(3)).queues == set(queues(3))


def test_queues_of_topics_that_are_no_longer_subscribed_are_dropped_detail_7_3() -> None:
    old, kept = queues(2, "Old"), queues(2, "Kept")
    assert find_unsubscribed([*kept, *reversed(old)], ["Kept"]) == tuple(old)


@given(
    st.sets(st.integers(0, 15)), st.integers(1, 16), st.integers(1, 5), st.integers(0, 4), st.sets(st.integers(0, 15))
)
def test_after_the_moves_exactly_the_share_is_held(
    held_ids: set[int], queue_count: int, client_count: int, own: int, expired_ids: set[int]
) -> None:
    clients = [f"c{number}" for number in range(client_count)]
    share = compute_share(queues(queue_count), clients, f"c{own % client_count}", AVERAGELY)
    held = {MessageQueue("T", "broker-a", queue_id) for queue_id in held_ids}
    expired = {mq for mq in held if mq.queue_id in expired_ids}
    moves = compute_moves(held, share, expired)
    left = held - set(moves.drop)
    assert not left & (set(moves.take) | expired)
    assert left | set(moves.take) == share.queues
