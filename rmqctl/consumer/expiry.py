"""Batches that have been in consumption for too long are found when their time is over, with one timer for all.

RocketMQ's client looks every consumeTimeout, so up to twice too late, at 16 messages from the head of each queue
(ProcessQueue.cleanExpiredMsg), and takes the interval at its start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from rmqctl.net.clock import Clock, Timer

_T = TypeVar("_T")

# Each look goes over all that runs. So long may a batch be reported late, when others were just before.
_LEAST_PAUSE_S = 0.2


class Running(NamedTuple, Generic[_T]):
    """A batch that a listener has, and for how long."""

    batch: _T
    age_s: float


class Expiry(Generic[_T]):
    """Calls `on_expired` in the event loop for each batch that runs for timeout_s, once.

    started() and finished() may be called by any thread: each is one operation on a dict. The rest is for the event
    loop's. `on_expired` must not raise.
    """

    def __init__(self, clock: Clock, timeout_s: float, on_expired: Callable[[_T], object]) -> None:
        self.timeout_s = timeout_s
        self._clock = clock
        self._on_expired = on_expired
        # By identity, for batches may be lists. Nearly in the order of their start: threads can overtake each other
        # between looking at the clock and putting their batch here.
        self._running: dict[int, tuple[float, _T]] = {}
        self._timer: Timer | None = None
        self._look()

    def close(self) -> None:
        """Watch no longer; what runs is forgotten."""
        self._running.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def started(self, batch: _T, started_s: float) -> None:
        """Note that a listener began with a batch, at a time of the clock."""
        self._running[id(batch)] = (started_s, batch)

    def finished(self, batch: _T) -> None:
        """Note that a listener is done with a batch."""
        self._running.pop(id(batch), None)

    def set_timeout(self, seconds: float) -> None:
        """Change the time that a batch has, also of those that run."""
        self.timeout_s = seconds
        if self._timer is not None:
            self._timer.cancel()
            self._look()

    def running(self) -> list[Running[_T]]:
        """Return what runs, the oldest first."""
        now_s = self._clock.monotonic_s()
        # list() of a dict's values is one step for other threads; a loop over them is not.
        return sorted(
            (Running(batch, now_s - started_s) for started_s, batch in list(self._running.values())),
            key=lambda each: -each.age_s,
        )

    def _look(self) -> None:
        """Report what is over, and wait for what is over next. What starts meanwhile has at least the whole time."""
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
