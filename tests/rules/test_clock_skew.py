from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.rules.clock_skew import ClockSample, SkewBounds, compute_skew


def test_one_sample_bounds_the_skew_by_its_round_trip() -> None:
    bounds = compute_skew([ClockSample(1_000, 1_010, 1_305)])
    assert (bounds.low_ms, bounds.high_ms) == (294, 306)
    assert (bounds.middle_ms, bounds.error_ms) == (300, 6)


def test_several_samples_prove_more_than_the_best_of_them() -> None:
    samples = [ClockSample(0, 100, 299), ClockSample(1_000, 1_100, 1_301)]
    assert compute_skew(samples) == SkewBounds(200, 300)


def test_samples_that_contradict_each_other_leave_the_last_one() -> None:
    samples = [ClockSample(0, 2, 1), ClockSample(100, 102, 5_101)]
    assert compute_skew(samples) == SkewBounds(4_998, 5_002)


@given(
    st.integers(-(10**7), 10**7),
    st.lists(st.tuples(st.floats(0, 10**6), st.floats(0, 500), st.floats(0, 500)), min_size=1, max_size=5),
)
def test_the_true_skew_is_always_within_the_bounds(skew_ms: int, trips: list[tuple[float, float, float]]) -> None:
    """Clocks are read in whole ms, rounded down, as Java and time.time_ns() // 1_000_000 do."""
    base_ms = 10**8
    samples = [
        ClockSample(int(base_ms + sent), int(base_ms + sent + there + back), int(base_ms + sent + there + skew_ms))
        for sent, there, back in trips
    ]
    bounds = compute_skew(samples)
    assert bounds.low_ms <= skew_ms <= bounds.high_ms
    assert bounds.low_ms <= bounds.middle_ms <= bounds.high_ms
    assert bounds.middle_ms + bounds.error_ms == bounds.high_ms


@pytest.mark.parametrize(
    ("low_ms", "high_ms", "exceeds"),
    [
        (-5, 5, False),
        (-1_000, 1_000, False),
        (1_001, 1_010, True),
        (-5_000, -1_001, True),
        (990, 1_010, None),
        (-2_000, 2_000, None),
    ],
)
def test_bounds_tell_whether_a_limit_is_exceeded_or_that_they_can_not(
    low_ms: int, high_ms: int, exceeds: bool | None
) -> None:
    assert SkewBounds(low_ms, high_ms).exceeds(1_000) is exceeds
