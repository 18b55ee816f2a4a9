"""What a member's answers prove of its clock: the truth is always within the bounds."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.model.group import ProcessQueueInfo, RunningInfo, Subscription
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.clock_skew import ClockBounds, SkewBounds
from rmqctl.rules.member_clock import ConsumedMessage, member_clock

_MQ = MessageQueue("T", "broker-a", 0)
_BASE_MS = 10**12


def _idle(version: int, **properties: str) -> RunningInfo:
    subscriptions = (Subscription("T", "*", "TAG", version),)
    return RunningInfo(properties, {}, {}, subscriptions=subscriptions, asked_at_ms=1, answered_at_ms=2)


def _told(asked_ms: int, answered_ms: int, pulled_ms: int, **more: object) -> RunningInfo:
    held = ProcessQueueInfo(0, 0, 0, 1, dropped=False, last_pull_at_ms=pulled_ms)
    return RunningInfo({}, {_MQ: held}, {}, asked_at_ms=asked_ms, answered_at_ms=answered_ms, **more)  # type: ignore[arg-type]


@given(
    skew_ms=st.integers(-4_000_000, 4_000_000),
    pulls=st.lists(st.floats(1, 25_000), min_size=1, max_size=40),
    asks=st.lists(st.tuples(st.floats(1, 30_000), st.floats(0, 400), st.floats(0, 400)), min_size=1, max_size=10),
    latency_ms=st.floats(0, 5_000),
    broker_ms=st.integers(-90_000, 90_000),
)
def test_the_truth_is_within_the_bounds(
    skew_ms: int, pulls: list[float], asks: list[tuple[float, float, float]], latency_ms: float, broker_ms: int
) -> None:
    """Times are read as whole ms, rounded down; the member pulls now and then, and is asked now and then."""
    times = list(accumulate(pulls, initial=float(_BASE_MS)))
    looks, now = [], float(_BASE_MS)
    for gap, there, back in asks:
        sent = now + gap
        pulled = max(at for at in times if at <= sent + there)
        looks.append(_told(int(sent), int(sent + there + back), int(pulled + skew_ms)))
        now = sent + there + back
    stored = ConsumedMessage(
        int(_BASE_MS + skew_ms), int(_BASE_MS - latency_ms + broker_ms), SkewBounds(broker_ms - 1, broker_ms + 1)
    )
    for consumed in ([], [stored]):
        bounds = member_clock(looks, consumed)
        assert bounds.low_ms is not None
        assert bounds.low_ms <= skew_ms
        assert bounds.high_ms is None or skew_ms <= bounds.high_ms
    assert bounds.high_ms is not None


@pytest.mark.parametrize(
    ("looks", "consumed", "bounds"),
    [
        # One answer: it was written before.
        ([_told(1_000, 1_004, 1_900)], [], ClockBounds(895)),
        # What changed was written between the question before and this answer.
        ([_told(1_000, 1_004, 1_900), _told(1_010, 1_014, 2_009)], [], ClockBounds(994, 1_010)),
        ([_told(1_000, 1_004, 1_900), _told(1_010, 1_014, 1_900)], [], ClockBounds(895)),
        # Consumed 7 ms after it was stored, by a broker whose clock is 50 ms ahead.
        ([_told(10_000, 10_004, 9_000)], [ConsumedMessage(5_007, 5_050, SkewBounds(49, 51))], ClockBounds(-1_005, 9)),
        # The clock was set forward since then: what is nearer to now counts.
        ([_told(10_000, 10_004, 19_000)], [ConsumedMessage(5_007, 5_050, SkewBounds(49, 51))], ClockBounds(8_995)),
        # It was set back after the subscription.
        (
            [
                _told(1_000, 1_004, 900, subscriptions=(Subscription("T", "*", "TAG", 9_000),)),
                _told(1_010, 1_014, 1_009, subscriptions=(Subscription("T", "*", "TAG", 9_000),)),
            ],
            [],
            ClockBounds(-6, 10),
        ),
        # A member that holds nothing has a version, which Go's client writes in ns; ours goes by the brokers' clocks.
        (
            [_idle(2 * 10**18)],
            [],
            ClockBounds(2 * 10**12 - 3),
        ),
        (
            [_idle(9, language="PYTHON")],
            [],
            ClockBounds(),
        ),
        ([RunningInfo({}, {}, {})], [], ClockBounds()),
    ],
)  # fmt: skip
def test_what_each_source_proves(
    looks: list[RunningInfo], consumed: list[ConsumedMessage], bounds: ClockBounds
) -> None:
    assert member_clock(looks, consumed) == bounds


@pytest.mark.parametrize(
    ("bounds", "off_ms", "is_between"),
    [
        (ClockBounds(), 0, False),
        (ClockBounds(2_000), 2_000, False),
        (ClockBounds(None, -2_000), -2_000, False),
        (ClockBounds(-500, 700), 0, True),
        (ClockBounds(2_000, 2_004), 2_000, False),
        (ClockBounds(-5_000, 1), 0, False),
    ],
)
def test_how_far_a_clock_is_off(bounds: ClockBounds, off_ms: int, is_between: bool) -> None:
    assert (bounds.off_ms(), bounds.is_between(SkewBounds(-1_000, 1_000))) == (off_ms, is_between)
    assert bounds.minus(SkewBounds(-1, 1)).width_ms == (None if bounds.width_ms is None else bounds.width_ms + 2)
