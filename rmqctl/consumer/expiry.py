"""Find batches that are consumed for too long, as soon as their time is over, with one timer for all.

RocketMQ's client checks only every consumeTimeout, so a message can take twice that time. It checks 16 messages from
the head of each queue (ProcessQueue.cleanExpiredMsg), and reads the interval only at its start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from rmqctl.net.clock import Clock, Timer

_T = TypeVar("_T")

# Each check visits all running batches. A batch may be reported this much later if others expired just before.
_LEAST_PAUSE_S = 0.2


class RunningBatch(NamedTuple, Generic[_T]):
    """A batch that a listener is processing, and its age."""

    batch: _T
    age_s: float


class Expiry(Generic[_T]):
    """Calls `on_expired` in the event loop for each batch that runs for timeout_s, once.

    Any thread may call started() and finished(): each is one operation on a dict. Call the rest in the event loop.
    `on_expired` must not raise.
    """

    def __init__(self, clock: Clock, timeout_s: float, on_expired: Callable[[_T], object]) -> None:
        self.timeout_s = timeout_s
        self._clock = clock
        self._on_expired = on_expired
        # By identity, because batches may be lists. Nearly in the order of their start: threads can overtake each other
        # between reading the clock and adding their batch here.
        self._running: dict[int, tuple[float, _T]] = {}
        self._timer: Timer | None = None
        self._look()

    def close(self) -> None:
        """Stop watching, and forget running batches."""
        self._running.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def started(self, batch: _T, started_s: float) -> None:
        """Note that a listener started a batch, at a monotonic time."""
        self._running[id(batch)] = (started_s, batch)

    def finished(self, batch: _T) -> None:
        """Note that a listener finished a batch."""
        self._running.pop(id(batch), None)

    def set_timeout(self, seconds: float) -> None:
        """Change the time limit of batches, including running ones."""
        self.timeout_s = seconds
        if self._timer is not None:
            self._timer.cancel()
            self._look()

    def running(self) -> list[RunningBatch[_T]]:
        """Return the running batches, the oldest first."""
        now_s = self._clock.monotonic_s()
        # list() of a dict's values is atomic for other threads; a loop over them is not.
        return sorted(
            (RunningBatch(batch, now_s - started_s) for started_s, batch in list(self._running.values())),
            key=lambda each: -each.age_s,
        )

    def _look(self) -> None:
        """Report expired batches, and schedule the next check. Batches that start meanwhile expire later than that."""
        now_s = self._clock.monotonic_s()
        next_s = now_s + self.timeout_s
        expired = []
        for started_s, batch in list(self._running.values()):
            if started_s + self.timeout_s <= now_s:
                expired.append(batch)
            else:
                next_s = min(next_s, started_s + self.timeout_s)
        self._timer = self._clock.call_later(max(_LEAST_PAUSE_S, next_s - now_s), self._look)
        for batch in expired:
            if self._running.pop(id(batch), None) is not None:
                self._on_expired(batch)
