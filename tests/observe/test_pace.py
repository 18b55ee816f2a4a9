from __future__ import annotations

import asyncio

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.observe.pace import Pace


@pytest.mark.parametrize(("per_s", "expected"), [(2.0, [0, 0.5, 1.0, 1.5]), (0.5, [0, 2, 4, 6]), (None, [0] * 4)])
def test_requests_to_one_broker_are_spaced_evenly(per_s: float | None, expected: list[float]) -> None:
    async def main() -> dict[str, list[float]]:
        clock = VirtualClock()
        pace = Pace(clock, per_s)
        sent: dict[str, list[float]] = {"a": [], "b": []}

        async def send(name: str) -> None:
            await pace.turn(name)
            sent[name].append(clock.monotonic_s())

        tasks = [asyncio.ensure_future(send(name)) for name in "abababab"]
        await clock.advance(10)
        await asyncio.gather(*tasks)
        assert pace.counts == {"a": 4, "b": 4}
        return sent

    assert asyncio.run(main()) == {"a": expected, "b": expected}
