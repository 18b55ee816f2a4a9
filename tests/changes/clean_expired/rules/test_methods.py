from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rmqctl.changes.clean_expired.rules.methods import (
    MOST_SENT_BACK,
    CleanMethod,
    CleanScope,
    becomes_dead,
    describe_progress,
    find_methods,
    mark_dead,
)
from rmqctl.model.group import ProcessQueueInfo
from rmqctl.model.plan import CleanStep
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.health.positions import Position, PositionPair


def held(count: int, head: int = 10, last: int | None = None, **more: Any) -> ProcessQueueInfo:
    values: dict[str, Any] = {
        "cached_count": count, "cached_min_offset": head, "commit_offset": head, "dropped": False, "locked_at_ms": 7,
        "cached_max_offset": head + count - 1 if last is None else last,
    }  # fmt: skip
    return ProcessQueueInfo(**{**values, **more})


def looks(queue: ProcessQueueInfo, pulled: int | None = None, *, end: int = 200, **more: Any) -> PositionPair:
    one = Position(10, end, queue, 0, pulled)
    return PositionPair(one, one, 10_000, **{"is_orderly": False, **more})


def methods(
    watched: PositionPair, risk: int | None, listening: int | None = 1
) -> list[tuple[CleanScope, int, tuple[int, ...], int]]:
    return [
        (method.scope, method.target, method.offsets, method.duplicates_max)
        for method in find_methods(watched, risk, listening)
    ]


def test_all_behind_a_single_message_is_done() -> None:
    # 10 hangs, 11 to 109 are done: to go past all that was pulled repeats nothing but 10.
    assert methods(looks(held(1), 110), 99) == [(CleanScope.IN_HAND, 110, (10,), 1), (CleanScope.HEAD, 11, (10,), 100)]


def test_two_that_hang_are_the_first_and_the_last() -> None:
    assert methods(looks(held(2, last=60), 110), 98, listening=2) == [
        (CleanScope.IN_HAND, 110, (10, 60), 2), (CleanScope.HEAD, 11, (10,), 100),
    ]  # fmt: skip


def test_what_has_not_begun_is_read_again_rather_than_sent_back() -> None:
    # One thread, a thousand wait behind it: nothing is done.
    best, other = find_methods(looks(held(900), 910, end=2_000), 0, 1)
    assert (best.scope, best.target, best.offsets, best.duplicates_max) == (CleanScope.HEAD, 11, (10,), 1)
    assert (other.scope, len(other.offsets), other.is_exact) == (CleanScope.IN_HAND, 900, True)


def test_a_client_that_does_not_pull_first_consumes_what_it_has_in_hand() -> None:
    best, other = find_methods(looks(held(900), 910, end=2_000), 0, 1, goes_on=True)
    assert (best.scope, best.target, best.duplicates_max) == (CleanScope.HEAD, 11, 900)
    assert (other.scope, other.duplicates_max) == (CleanScope.IN_HAND, 900)


def test_which_of_many_are_in_hand_is_not_told() -> None:
    # 5 of 10 to 29 are in hand: all 20 would be sent back, the 15 that are done among them.
    best, other = find_methods(looks(held(5, last=29), 30), 15, 5)
    assert (best.scope, best.duplicates_max) == (CleanScope.HEAD, 20)
    assert (other.offsets, other.is_exact, other.duplicates_max) == (tuple(range(10, 30)), False, 24)


def test_a_49_broker_does_not_note_what_was_pulled() -> None:
    # The last in hand is known to be pulled, what lies behind it may be done.
    assert methods(looks(held(2, last=60)), None, listening=2) == [
        (CleanScope.IN_HAND, 61, (10, 60), 141), (CleanScope.HEAD, 11, (10,), 190),
    ]  # fmt: skip
    assert methods(looks(held(1)), None) == [(CleanScope.HEAD, 11, (10,), 190)]
    # All of it is in flight: only what is in the listener is consumed twice.
    assert methods(looks(held(190)), None, 16)[0] == (CleanScope.HEAD, 11, (10,), 16)
    assert methods(looks(held(190), end=150), None, 16)[0] == (CleanScope.HEAD, 11, (10,), 16)


@pytest.mark.parametrize(
    "watched",
    [
        pytest.param(looks(held(1), 110, is_orderly=True), id="in-order-nothing-behind-it-is-done"),
        pytest.param(looks(held(1, locked_at_ms=None), 110), id="it-may-have-taken-the-queue-anew"),
        pytest.param(
            PositionPair(Position(10, 200, held(1), 0, 110), Position(10, 200, held(1), 0, 90), 10_000, False),
            id="an-answer-got-lost",
        ),
        pytest.param(looks(held(MOST_SENT_BACK + 1), 10 + MOST_SENT_BACK + 1, end=5_000), id="too-many"),
    ],
)
def test_only_past_the_first_message(watched: PositionPair) -> None:
    assert [method.scope for method in find_methods(watched, 99, 1)] == [CleanScope.HEAD]


def test_what_was_pulled_after_the_first_look_is_left_to_the_client() -> None:
    first, last = Position(10, 200, held(1), 0, 100), Position(10, 200, held(2, last=150), 0, 151)
    best = find_methods(PositionPair(first, last, 10_000, False), 99, 2)[0]
    assert (best.target, best.offsets) == (100, (10,))


@pytest.mark.parametrize(
    ("in_hand", "listening", "most"),
    [
        pytest.param(900, 16, 16, id="a-batch-of-one-thread"),
        pytest.param(5, 16, 5, id="a-batch-that-is-not-full"),
        pytest.param(900, None, 900, id="unknown"),
        pytest.param(900, 0, 1, id="the-head-between-two-attempts"),
    ],
)
def test_messages_in_the_listener_may_be_consumed_twice(in_hand: int, listening: int | None, most: int) -> None:
    both = find_methods(looks(held(in_hand), 10 + in_hand, end=2_000), 0, listening)
    assert {method.duplicates_max for method in both} == {most}


@pytest.mark.parametrize(
    ("method", "dead", "most"),
    [
        pytest.param(CleanMethod(CleanScope.HEAD, 11, (10,), True, 0, 1, 1), {10}, 0, id="nothing-else-in-flight"),
        pytest.param(CleanMethod(CleanScope.HEAD, 11, (10,), True, 99, 1, 1), {10}, 99, id="consumed-ones-behind-it"),
        pytest.param(CleanMethod(CleanScope.HEAD, 11, (10,), True, 0, 900, 16), {10}, 15, id="the-rest-of-its-batch"),
        pytest.param(CleanMethod(CleanScope.IN_HAND, 14, (10, 11, 12), True, 0, 3, 3), {10, 12}, 1, id="two-of-three"),
        pytest.param(CleanMethod(CleanScope.IN_HAND, 14, (10, 11, 12), True, 0, 3, 3), {11}, 2, id="not-the-head"),
        pytest.param(CleanMethod(CleanScope.IN_HAND, 14, (10, 11, 12), True, 0, 3, 1), {11, 12}, 1, id="one-listens"),
        # Which of the 20 are consumed and which are in flight is unknown.
        pytest.param(CleanMethod(CleanScope.IN_HAND, 30, tuple(range(10, 30)), False, 19, 5, 5), {10}, 23, id="head"),
        pytest.param(
            CleanMethod(CleanScope.IN_HAND, 30, tuple(range(10, 30)), False, 19, 5, 5), set(range(10, 30)), 4, id="all"
        ),
        # A dead letter that another method would send back.
        pytest.param(CleanMethod(CleanScope.HEAD, 11, (10,), True, 0, 3, 3), {12}, 3, id="not-sent"),
    ],
)
def test_dead_letters_are_not_redelivered(method: CleanMethod, dead: set[int], most: int) -> None:
    assert replace(method, dead=frozenset(dead)).duplicates_max == most


@pytest.mark.parametrize(
    ("times", "limit", "level", "is_dead"), [(15, 16, 3, False), (16, 16, 3, True), (0, 16, -1, True), (0, 0, 3, True)]
)
def test_which_copies_are_dead_letters(times: int, limit: int, level: int, is_dead: bool) -> None:
    assert becomes_dead(times, limit, level) is is_dead


@pytest.mark.parametrize(
    ("times", "level", "most"),
    [
        ({10: 15}, 3, {CleanScope.HEAD: 3, CleanScope.IN_HAND: 3}),
        ({10: 16}, 3, {CleanScope.HEAD: 2, CleanScope.IN_HAND: 2}),
        ({10: 0}, -1, {CleanScope.HEAD: 2, CleanScope.IN_HAND: 0}),
    ],
)
def test_what_was_not_read_is_dead_only_if_all_is(
    times: dict[int, int], level: int, most: dict[CleanScope, int]
) -> None:
    marked = mark_dead(find_methods(looks(held(3), 13), 0, 3), times, 16, level)
    assert {method.scope: method.duplicates_max for method in marked} == most


def test_nothing_in_hand_has_no_way() -> None:
    empty = ProcessQueueInfo(0, 0, 0, 10, False)
    assert find_methods(looks(empty), 0, 0) == ()


@pytest.mark.parametrize(
    ("queue", "taken_at_ms", "is_gone"),
    [
        (held(1), 7, False),
        (held(9), 7, False),
        (held(1), None, False),
        (None, 7, True),
        (held(1, dropped=True), 7, True),
        (held(1, head=11), 7, True),
        (held(0), 7, True),
        # It may have again what it had done when the plan was made.
        (held(1, locked_at_ms=8), 7, True),
    ],
)
def test_messages_that_are_not_in_the_same_hands_any_more(
    queue: ProcessQueueInfo | None, taken_at_ms: int | None, is_gone: bool
) -> None:
    cleaning = CleanStep(10, 3, 16, (), "one", taken_at_ms)
    assert (describe_progress(MessageQueue("T", "broker-a", 0), cleaning, queue) is not None) == is_gone
