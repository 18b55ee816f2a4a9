"""Limits how often each broker is asked, for readers that run for hours."""

from __future__ import annotations

from collections import Counter

from rmqctl.net.clock import Clock, pause


class Pace:
    """Spaces the requests to each broker evenly: at most `per_s` in any second, without a limit for None.

    `counts` are the requests so far, by broker name.
    """

    def __init__(self, clock: Clock, per_s: float | None) -> None:
        self._clock = clock
        self._gap_s = 0.0 if per_s is None else 1 / per_s
        self._next_s: dict[str, float] = {}
        self.counts: Counter[str] = Counter()

    async def turn(self, broker_name: str) -> None:
        """Wait until the next request to a broker may be sent. Callers are served in the order of their calls."""
        now_s = self._clock.monotonic_s()
        at_s = max(now_s, self._next_s.get(broker_name, now_s))
        self._next_s[broker_name] = at_s + self._gap_s
        if at_s > now_s:
            await pause(self._clock, at_s - now_s)
        self.counts[broker_name] += 1
