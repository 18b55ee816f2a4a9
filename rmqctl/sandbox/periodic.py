"""Periodic work on the sandbox's clock."""

from __future__ import annotations

from collections.abc import Callable

from rmqctl.net.clock import Clock, Timer

# Settings may ask for a shorter interval, or for 0.
_SHORTEST_S = 0.01


class Periodic:
    """Calls one function at a fixed pace. The pace counts from the start, so delays do not add up.

    A function as `interval_s` is asked before each call for the interval after it.
    """

    def __init__(self, clock: Clock, interval_s: float | Callable[[], float], work: Callable[[], object]) -> None:
        self._clock = clock
        self._read_interval_s = interval_s if callable(interval_s) else lambda: interval_s
        self._work = work
        self._due_s = clock.monotonic_s() + self._interval_s
        self._timer: Timer = clock.call_later(self._interval_s, self._run)

    @property
    def _interval_s(self) -> float:
        return max(_SHORTEST_S, self._read_interval_s())

    def _run(self) -> None:
        now_s = self._clock.monotonic_s()
        # After a pause of the whole process, missed calls are skipped.
        while self._due_s <= now_s:
            self._due_s += self._interval_s
        self._timer = self._clock.call_later(self._due_s - now_s, self._run)
        self._work()

    def stop(self) -> None:
        """Make no further call."""
        self._timer.cancel()
