"""The only clock: wall time, monotonic time for deadlines, and timers. Tests replace it with a virtual one."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from rmqctl.errors import CutShortError, DeadlineError

_T = TypeVar("_T")


class Timer(Protocol):
    """A pending call that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the call; does nothing once it has run."""


class Clock(Protocol):
    """The interface through which the rest of the program reads time."""

    def now_ms(self) -> int:
        """Return wall time, in ms since the epoch."""

    def monotonic_s(self) -> float:
        """Return a time in s that never decreases; only differences are meaningful."""

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
        return _SystemTimer(delay_s, callback)


# A timer that fires this late means that the process was suspended: answers that arrived in time may be unread.
_STOPPED_S = 1.0
_READING_S = 0.5


class _SystemTimer:
    """A timer of the event loop; after a suspended process resumes, data that has arrived is read first."""

    __slots__ = ("_callback", "_due_s", "_handle")

    def __init__(self, delay_s: float, callback: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()
        self._callback = callback
        self._due_s = loop.time() + max(0.0, delay_s)
        self._handle = loop.call_at(self._due_s, self._run)

    def _run(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._due_s > _STOPPED_S:
            self._handle = loop.call_later(_READING_S, self._callback)
        else:
            self._callback()

    def cancel(self) -> None:
        self._handle.cancel()


class _VirtualTimer:
    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualClock:
    """A clock that moves only in `advance()`, so that waiting costs no time."""

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
        """Advance the clock and run every due timer at its own time; tasks run in between."""
        target_s = self._elapsed_s + seconds
        await self.await_idle()
        while self._timers and self._timers[0][0] <= target_s:
            due_s, _, timer = heapq.heappop(self._timers)
            self._elapsed_s = max(self._elapsed_s, due_s)
            if not timer.cancelled:
                timer.callback()
                if _has_work():
                    await self.await_idle()
        self._elapsed_s = target_s

    async def await_idle(self) -> None:
        """Run the tasks that are ready. Memory streams need a few turns of the loop to pass data on."""
        for _ in range(50):
            await asyncio.sleep(0)


class _JumpTimer:
    __slots__ = ("callback", "due_s", "handle", "pending")

    def __init__(self, due_s: float, callback: Callable[[], object], pending: dict[_JumpTimer, None]) -> None:
        self.due_s = due_s
        self.callback = callback
        self.pending = pending
        self.handle: asyncio.TimerHandle | None = None

    def run(self) -> None:
        if self.pending.pop(self, _GONE) is not _GONE:
            self.callback()

    def cancel(self) -> None:
        self.pending.pop(self, _GONE)
        if self.handle is not None:
            self.handle.cancel()


_GONE = object()


def ahead_ms(clock: Clock) -> int:
    """Return how far a clock has jumped ahead of the machine's."""
    return clock.ahead_ms if isinstance(clock, JumpClock) else 0


class JumpClock:
    """The machine's clock with jumps: time passes by itself, and `advance()` skips a part of it.

    A jump is made in ticks. Timers that are due within a tick run in order, each at its own time; timers that these set
    for the same tick run in the next one. So a jump over days takes a second or two, even with frequent timers.
    """

    _TICK_S = 0.1
    _MAX_TICK_COUNT = 10_000
    # Turns of the event loop after each tick, so that tasks can continue.
    _TURN_COUNT = 3

    def __init__(self) -> None:
        self._ahead_s = 0.0
        # The time that is reported during a jump.
        self._frozen_s: float | None = None
        # Wall time minus monotonic time, when the last jump began: within one, no time passes between two looks.
        self._wall_s = 0.0
        self._pending: dict[_JumpTimer, None] = {}

    @property
    def ahead_ms(self) -> int:
        """How far this clock is ahead of the machine's clock."""
        return round((self._ahead_s if self._frozen_s is None else self._frozen_s - time.monotonic()) * 1000)

    def now_ms(self) -> int:
        """See Clock."""
        if self._frozen_s is not None:
            return int((self._frozen_s + self._wall_s) * 1000)
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def monotonic_s(self) -> float:
        """See Clock."""
        return time.monotonic() + self._ahead_s if self._frozen_s is None else self._frozen_s

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        """See Clock."""
        timer = _JumpTimer(self.monotonic_s() + max(0.0, delay_s), callback, self._pending)
        self._pending[timer] = None
        if self._frozen_s is None:
            timer.handle = asyncio.get_running_loop().call_later(delay_s, timer.run)
        return timer

    async def advance(self, seconds: float, on_tick: Callable[[float], object] = lambda _: None) -> None:
        """Jump forward. `on_tick` gets the seconds of each tick before the timers of that tick run.

        Raises RuntimeError during another jump.
        """
        if self._frozen_s is not None:
            raise RuntimeError("the clock is jumping already")
        loop = asyncio.get_running_loop()
        self._wall_s = time.time_ns() / 1e9 - time.monotonic()
        self._frozen_s = now_s = start_s = self.monotonic_s()
        target_s = now_s + max(0.0, seconds)
        tick_s = max(self._TICK_S, seconds / self._MAX_TICK_COUNT)
        for timer in self._pending:
            if timer.handle is not None:
                timer.handle.cancel()
                timer.handle = None
        try:
            while now_s < target_s:
                next_s = min((timer.due_s for timer in self._pending), default=target_s)
                end_s = min(target_s, max(now_s, next_s) + tick_s)
                on_tick(end_s - now_s)
                due = sorted((timer for timer in self._pending if timer.due_s <= end_s), key=lambda each: each.due_s)
                for timer in due:
                    self._frozen_s = max(now_s, timer.due_s)
                    try:
                        timer.run()
                    except Exception as error:  # noqa: BLE001 - as asyncio does with what a timer raises
                        loop.call_exception_handler({"message": "a timer failed", "exception": error})
                for _ in range(self._TURN_COUNT):
                    await asyncio.sleep(0)
                self._frozen_s = now_s = end_s
        finally:
            # The time that the jump itself took is added, as time of the machine.
            self._ahead_s += now_s - start_s
            self._frozen_s = None
            now_s = self.monotonic_s()
            for timer in self._pending:
                timer.handle = loop.call_later(max(0.0, timer.due_s - now_s), timer.run)


def _has_work() -> bool:
    """Return whether the event loop has anything to run; True when the loop does not report it.

    Most timers of a long advance start nothing, and turns of the loop after each of them would take minutes.
    """
    ready = getattr(asyncio.get_running_loop(), "_ready", None)
    return ready is None or len(ready) > 0


class Deadline:
    """The time by which a whole command must end. Each attempt gets a slice of it.

    An open-ended deadline never expires: it only bounds each attempt.
    """

    # Three stages can each hit one silent peer before the command's time is up.
    _ATTEMPTS = 3

    def __init__(self, clock: Clock, seconds: float, *, open_ended: bool = False) -> None:
        self.clock = clock
        self.seconds = seconds
        self.is_open_ended = open_ended
        self._at_s = math.inf if open_ended else clock.monotonic_s() + seconds

    def extend(self, seconds: float) -> None:
        """Leave out a wait on purpose, for example between two readings: the deadline is for the work."""
        self._at_s += seconds

    def remaining_s(self) -> float:
        """Return the time left, 0 after the deadline."""
        return max(0.0, self._at_s - self.clock.monotonic_s())

    def attempt_s(self) -> float:
        """Return how long one attempt may take, so that a silent peer leaves time to ask the others."""
        return min(self.remaining_s(), self.seconds / self._ATTEMPTS)

    def judged(self, error: DeadlineError, timeout_s: float | None) -> DeadlineError:
        """Return an attempt's error, as another one if this deadline had left less than half of its time."""
        usual_s = min(self.seconds / self._ATTEMPTS, math.inf if timeout_s is None else timeout_s)
        return error if error.waited_s >= usual_s / 2 else CutShortError(error.address, error.waited_s, self.seconds)


async def pause(clock: Clock, seconds: float) -> None:
    """Sleep on the given clock."""
    over = asyncio.Event()
    timer = clock.call_later(seconds, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


async def wait_for(clock: Clock, awaitable: Awaitable[_T], timeout_s: float) -> _T:
    """Await with a time limit on the given clock. Raises TimeoutError after cancelling the awaitable."""
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
        # Both can happen at the same moment; a cancelled waiter must see the cancellation, not a time-out.
        if expired and (waiter is None or waiter.cancelling() == cancels_before):
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
