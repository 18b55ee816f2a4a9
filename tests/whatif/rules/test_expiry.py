from __future__ import annotations

import pytest

from rmqctl.whatif.rules.expiry import HEADS_PER_LOOK, expiry_waits, likely_now_ms, next_look_ms, sent_back_in_ms

TIMEOUT_MS = 900_000


@pytest.mark.parametrize(
    ("began_ms", "waits_ms"),
    [
        # Just before a look: it is a moment too young for the next one.
        (-1, 1 + TIMEOUT_MS),
        # At a look, and just after one: almost twice as long.
        (0, 2 * TIMEOUT_MS),
        (1, 2 * TIMEOUT_MS - 1),
        (TIMEOUT_MS // 2, TIMEOUT_MS + TIMEOUT_MS // 2),
    ],
)
def test_one_message_waits_up_to_twice_as_long(began_ms: int, waits_ms: int) -> None:
    (wait,) = expiry_waits([began_ms], TIMEOUT_MS, 0)
    assert (wait.rocketmq_ms, wait.exact_ms) == (waits_ms, TIMEOUT_MS)


def test_sixteen_of_a_queue_are_sent_back_with_each_look() -> None:
    waits = expiry_waits([1] * (2 * HEADS_PER_LOOK + 1), TIMEOUT_MS, 0)
    first = 2 * TIMEOUT_MS - 1
    assert [wait.rocketmq_ms for wait in waits] == [
        *[first] * HEADS_PER_LOOK, *[first + TIMEOUT_MS] * HEADS_PER_LOOK, first + 2 * TIMEOUT_MS,
    ]  # fmt: skip


def test_a_young_head_hides_an_old_message() -> None:
    young, old = expiry_waits([500, -TIMEOUT_MS - 1], TIMEOUT_MS, 0)
    assert young.rocketmq_ms == 2 * TIMEOUT_MS - 500
    assert old.rocketmq_ms == 3 * TIMEOUT_MS + 1


def test_looks_are_counted_from_the_clients_start() -> None:
    assert next_look_ms(1_000, 60_000, 1_000) == 61_000
    assert next_look_ms(1_000, 60_000, 60_999) == 61_000
    assert next_look_ms(1_000, 60_000, 61_000) == 121_000
    assert next_look_ms(5_000, 60_000, 1_000) == 65_000  # a clock that was set back


@pytest.mark.parametrize(
    ("least_ms", "most_ms", "expected"),
    [
        # The client looks in 40 s, and again every 60 s.
        (30_000, 30_000, (40_000, 40_000)),
        (5_000, 20_000, (100_000, 100_000)),
        (5_000, 20_001, (40_000, 100_000)),
        (5_000, 0, (100_000, 100_000)),
    ],
)
def test_an_age_that_is_not_certain_leaves_open_which_look_it_is(
    least_ms: int, most_ms: int, expected: tuple[int, int]
) -> None:
    assert sent_back_in_ms(least_ms, most_ms, 60_000, 40_000) == expected


def test_a_client_that_told_nothing_new_for_a_while_has_a_clock_all_the_same() -> None:
    assert likely_now_ms(1_000_000, 1_014_000) == 1_014_000
    # Two clocks that differ: the client's own word is all there is.
    assert likely_now_ms(1_000_000, 999_000) == 1_000_000
    assert likely_now_ms(1_000_000, 1_090_000) == 1_000_000
