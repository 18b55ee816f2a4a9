"""Work that comes again and again."""

from __future__ import annotations

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.sandbox.periodic import Periodic


async def test_calls_come_at_the_pace_until_it_is_stopped() -> None:
    clock, calls = VirtualClock(), []
    periodic = Periodic(clock, 10, lambda: calls.append(clock.monotonic_s()))
    await clock.advance(35)
    periodic.stop()
    await clock.advance(100)
    assert calls == [10, 20, 30]


async def test_a_failure_does_not_end_it() -> None:
    clock, calls = VirtualClock(), []

    def fail() -> None:
        calls.append(clock.monotonic_s())
        raise OSError

    Periodic(clock, 10, fail)
    for _ in range(2):
        with pytest.raises(OSError):  # noqa: PT011
            await clock.advance(10)
    assert calls == [10, 20]


@pytest.mark.parametrize("interval_s", [0, -5])
async def test_no_pace_is_a_quick_one(interval_s: float) -> None:
    clock, calls = VirtualClock(), []
    Periodic(clock, interval_s, lambda: calls.append(0))
    await clock.advance(1)
    assert 90 <= len(calls) <= 100
