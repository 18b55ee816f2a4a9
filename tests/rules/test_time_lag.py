from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.rules.health import Observation
from rmqctl.rules.time_lag import Anchor, TimeLag, anchor_of, interpolate_time_lag

# At 0, 10 and 20 s the queue ended at 100, 110 and 130.
_ENDS = ((0, 100), (10_000, 110), (20_000, 130))


def _samples(offset: int | None, **last: int) -> list[Observation]:
    return [Observation(at_ms, offset, end, **(last if at_ms == 20_000 else {})) for at_ms, end in _ENDS]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (130, TimeLag(0)),
        (129, TimeLag(0, 0)),
        (119, TimeLag(5_000, 5_000)),  # stored when the end became 120
        (109, TimeLag(10_000, 10_000)),
        (100, TimeLag(19_000, 19_000)),
        (99, TimeLag(None, 20_000)),
        (None, TimeLag(None)),
        (131, TimeLag(None)),
    ],
)
def test_a_message_was_stored_when_the_end_of_the_queue_passed_it(offset: int | None, expected: TimeLag) -> None:
    assert interpolate_time_lag(_samples(offset)) == expected


@pytest.mark.parametrize(
    ("anchor", "expected"),
    [
        (Anchor(50, -100_000), TimeLag(120_000, 120_000)),
        # Of 49 messages up to the first sample, stored within 100 s, half are older.
        (Anchor(0, -100_000), TimeLag(69_495, 69_495)),
        # An anchor of a message behind the one that is asked for says nothing about it.
        (Anchor(51, -100_000), TimeLag(None, 20_000)),
    ],
)
def test_an_anchor_dates_what_is_older_than_all_samples(anchor: Anchor, expected: TimeLag) -> None:
    assert interpolate_time_lag(_samples(50), [anchor]) == expected


def test_a_known_age_is_an_anchor_for_later() -> None:
    samples = _samples(109)
    anchor = anchor_of(samples[-1], interpolate_time_lag(samples))
    assert anchor == Anchor(109, 10_000)
    later = [Observation(at_ms, 109, 200) for at_ms in (60_000, 70_000)]
    assert interpolate_time_lag(later, [Anchor(0, 0), anchor]) == TimeLag(60_000, 60_000)
    assert anchor_of(Observation(0, 9, 9), TimeLag(0)) is None


def test_deleted_messages_have_no_age() -> None:
    assert interpolate_time_lag(_samples(100, min_offset=119)) == TimeLag(5_000, 5_000)
    assert interpolate_time_lag(_samples(100, min_offset=130)) == TimeLag(0)


def test_samples_before_the_queue_was_made_again_do_not_count() -> None:
    samples = [Observation(0, 5, 1000), Observation(10_000, 5, 10), Observation(20_000, 5, 20)]
    assert interpolate_time_lag(samples) == TimeLag(None, 10_000)


@given(
    st.lists(st.tuples(st.integers(1, 10_000), st.integers(0, 50)), min_size=1, max_size=12),
    st.integers(0, 700),
    st.none() | st.builds(Anchor, st.integers(0, 600), st.integers(-(10**6), 0)),
)
def test_an_age_is_never_negative_and_grows_with_the_backlog(
    steps: list[tuple[int, int]], offset: int, anchor: Anchor | None
) -> None:
    at_ms, end, samples = 0, 100, []
    for step_ms, grown in steps:
        at_ms, end = at_ms + step_ms, end + grown
        samples.append((at_ms, end))
    ages = [
        interpolate_time_lag(
            [Observation(each_ms, at, each_end) for each_ms, each_end in samples], [anchor] if anchor else []
        )
        for at in (offset, offset + 1)
    ]
    for age in ages:
        assert age.ms is None or age.ms >= 0
    if ages[0].ms is not None and ages[1].ms is not None:
        assert ages[0].ms >= ages[1].ms
