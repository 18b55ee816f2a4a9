"""The one clock: wall time, a monotonic time for deadlines, timers. Tests put a virtual one in its place."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Timer(Protocol):
    """A pending call that can be called off."""

    def cancel(self) -> None:
        """Call it off; does nothing once it has run."""


class Clock(Protocol):
    """What the rest of the program may know of time."""

    def now_ms(self) -> int:
        """Return wall time, in ms since the epoch."""

    def monotonic_s(self) -> float:
        """Return a time in s that never goes back; only differences mean something."""

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        """Run callback in the event loop after delay_s seconds."""


class SystemClock:
    """The machine's clock and asyncio's timers."""

    def now_ms(self) -> int:
        """See Clock."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """See Clock."""
        return time.monotonic()

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        """See Clock."""
        return asyncio.get_running_loop().call_later(delay_s, callback)


class _VirtualTimer:
    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualClock:
    """A clock that moves only when told to, so that waiting costs no time."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._start_ms = now_ms
        self._elapsed_s = 0.0
        self._timers: list[tuple[float, int, _VirtualTimer]] = []
        self._order = itertools.count()

    def now_ms(self) -> int:
        """See Clock."""
        return self._start_ms + round(self._elapsed_s * 1000)

    def monotonic_s(self) -> float:
        """See Clock."""
        return self._elapsed_s

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        """See Clock."""
        timer = _VirtualTimer(callback)
        heapq.heappush(self._timers, (self._elapsed_s + max(0.0, delay_s), next(self._order), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        """Move on, running every timer that falls due at its own time; tasks get to run in between."""
        target_s = self._elapsed_s + seconds
        await self.await_idle()
        while self._timers and self._timers[0][0] <= target_s:
            due_s, _, timer = heapq.heappop(self._timers)
            self._elapsed_s = max(self._elapsed_s, due_s)
            if not timer.cancelled:
                timer.callback()
                await self.await_idle()
        self._elapsed_s = target_s

    async def await_idle(self) -> None:
        """Let tasks that can run do so. Memory streams hand data over in a few turns of the loop."""
        for _ in range(50):
            await asyncio.sleep(0)


class Deadline:
    """The time by which a whole command must be done. One attempt of several gets a slice of it.

    An open-ended one never comes: it only bounds each attempt.
    """

    # Three stages can each meet one silent peer before the command's time is up.
    _ATTEMPTS = 3

    def __init__(self, clock: Clock, seconds: float, *, open_ended: bool = False) -> None:
        self.clock = clock
        self.seconds = seconds
        self._at_s = math.inf if open_ended else clock.monotonic_s() + seconds

    def remaining_s(self) -> float:
        """Return what is left, 0 when it is over."""
        return max(0.0, self._at_s - self.clock.monotonic_s())

    def attempt_s(self) -> float:
        """Return how long one attempt may take, so that a silent peer leaves time to ask the others."""
        return min(self.remaining_s(), self.seconds / self._ATTEMPTS)


async def pause(clock: Clock, seconds: float) -> None:
    """Let time pass on the given clock."""
    over = asyncio.Event()
    timer = clock.call_later(seconds, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


async def wait_for(clock: Clock, awaitable: Awaitable[_T], timeout_s: float) -> _T:
    """Await with a time limit on the given clock. Raises TimeoutError, after the awaitable was cancelled."""
    task = asyncio.ensure_future(awaitable)
    waiter = asyncio.current_task()
    cancels_before = waiter.cancelling() if waiter is not None else 0
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = task.cancel()

    timer = clock.call_later(timeout_s, expire)
    try:
        return await task
    except asyncio.CancelledError:
        # Both can happen at one moment; whoever cancelled the waiter must not be told of a time-out instead.
        if expired and (waiter is None or waiter.cancelling() == cancels_before):
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
