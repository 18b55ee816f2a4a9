"""Which messages are looked at, and what is concluded of their store times."""

from __future__ import annotations

import pytest

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.store_times import (
    TimeOrder,
    TimeTarget,
    describe_orders,
    evenly,
    is_rising,
    may_hold,
    near_first,
    widest_drop,
)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({}, True),
        ({5: 10}, True),
        ({5: 10, 6: 10, 9: 11}, True),
        ({9: 11, 5: 10}, True),
        ({5: 10, 6: 9}, False),
        ({9: 9, 5: 10, 7: 12}, False),
        # Before and after a stretch that no look met: not seen.
        ({0: 1, 20: 5}, True),
    ],
)
def test_times_rise_as_long_as_no_later_message_is_older(seen: dict[int, int], expected: bool) -> None:
    assert is_rising(seen) is expected


@pytest.mark.parametrize(
    ("near", "far", "expected"),
    [
        (5, 5, []),
        (5, 4, [4]),
        (5, 6, [6]),
        (100, 0, [0, 68, 90, 97]),
        (0, 100, [3, 10, 32, 100]),
        (3, 0, [0, 1, 2]),
    ],
)
def test_looks_are_near_the_answer_first_and_reach_the_end(near: int, far: int, expected: list[int]) -> None:
    assert near_first(near, far, 4) == expected


@pytest.mark.parametrize(
    ("delays_ms", "expected"),
    [
        ({}, None),
        ({5: 10}, None),
        ({5: 10, 8: 900, 9: 3}, None),
        ({5: 10, 8: -990}, (5, 8)),
        ({9: 0, 5: 10, 8: 3_600_000, 20: -5_000, 30: 0}, (8, 9)),
        ({5: 0, 8: 3_600_000}, None),  # waited for a delay, or the clock was set ahead
    ],
)
def test_a_clock_that_was_set_back_shows_by_the_producers_clocks(
    delays_ms: dict[int, int], expected: tuple[int, int] | None
) -> None:
    assert widest_drop(delays_ms) == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(0, 10, [3, 5, 7]), (10, 0, [7, 5, 2]), (4, 6, [5]), (6, 4, [5]), (4, 5, []), (5, 4, [])],
)
def test_looks_between_two_messages_are_even_and_in_their_direction(first: int, last: int, expected: list[int]) -> None:
    found = evenly(first, last, 3)
    assert len(found) == len(expected)
    assert found == sorted(found, reverse=last < first)
    assert all(min(first, last) < at < max(first, last) for at in found)
    assert max((abs(at - each) for at, each in zip(found, expected, strict=True)), default=0) <= 1


@pytest.mark.parametrize(
    ("wanted", "before_ms", "after_ms", "expected"),
    [
        (TimeTarget(100), 10, 20, False),
        (TimeTarget(100), 20, 20, False),
        (TimeTarget(100), 20, 10, True),  # what is between may have been later than both
        (TimeTarget(100), 10, 100, True),
        (TimeTarget(100, is_last=True), 300, 200, False),
        (TimeTarget(100, is_last=True), 200, 300, True),
        (TimeTarget(100, is_last=True), 300, 99, True),
        (TimeTarget(100, is_last=True), 300, 100, False),
    ],
)
def test_between_two_messages_the_wanted_one_may_be(
    wanted: TimeTarget, before_ms: int, after_ms: int, expected: bool
) -> None:
    assert may_hold(wanted, before_ms, after_ms) is expected


def test_only_queues_whose_times_go_back_are_told_of() -> None:
    a, b, c = (MessageQueue("T", "broker-a", number) for number in range(3))
    assert list(describe_orders({a: TimeOrder.RISING})) == []
    read, missed = describe_orders({c: TimeOrder.HALVED, a: TimeOrder.RISING, b: TimeOrder.READ})
    assert str(b) in read
    assert str(c) in missed
    assert str(a) not in read + missed
