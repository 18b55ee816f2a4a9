"""Detect from another thread that the event loop is blocked: heartbeats and pulls then stop without a report.

A coroutine listener that blocks causes that. After 120 s brokers drop the member, and others also get its messages.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from rmqctl.model.consumption import ConsumerWarning

from .reports.problems import Report
from .stacks import where

# The number of checks within the time after which a loop counts as blocked.
_LOOKS = 5
# How long to wait for the last report, which may block, for example on a full pipe.
_LAST_LOOK_S = 0.5
_MEANWHILE = "no heartbeats and no pulls meanwhile"
# Real time: a loop hangs whatever clock its consumer has. Linux's CLOCK_MONOTONIC omits the time of a suspend.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class LoopWatch:
    """Checks repeatedly, from its own thread, that the running event loop answers, until it is closed.

    That thread calls `report`, which must not raise; see LoopChecks for the reports.
    """

    def __init__(self, limit_s: float, report: Report) -> None:
        loop_thread = threading.get_ident()
        self._step_s = limit_s / _LOOKS
        self._looks = LoopChecks(limit_s, report, lambda: where(loop_thread), _now())
        self._loop = asyncio.get_running_loop()
        self._closed = threading.Event()
        self._answered_s: float | None = None
        self.thread = threading.Thread(target=self._run, name="LoopWatch", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Stop, after a last check: after a report of a blocked loop, it reports that the loop runs again."""
        self._closed.set()
        self.thread.join(_LAST_LOOK_S)

    def _run(self) -> None:
        self._ask()
        while not self._closed.wait(self._step_s):
            answered_s = self._answered_s
            self._looks.look(_now(), answered_s)
            if answered_s is not None:
                self._ask()
        if self._answered_s is not None:
            self._looks.look(_now(), self._answered_s)

    def _ask(self) -> None:
        self._answered_s = None
        try:
            self._loop.call_soon_threadsafe(self._answer)
        except RuntimeError:
            self._closed.set()  # the loop has ended

    def _answer(self) -> None:
        self._answered_s = _now().real_s


class Moment(NamedTuple):
    """A time, and the CPU time of the process until then."""

    real_s: float
    busy_s: float


def _now() -> Moment:
    return Moment(time.clock_gettime(_CLOCK), time.process_time())


class LoopChecks:
    """Evaluates the checks of a loop, _LOOKS of which are planned in limit_s.

    A loop that does not answer for limit_s is reported once while it is blocked, with the place, and once when it runs
    again. Only checks count: without any, the whole process is stopped, and no listener is to blame.
    """

    def __init__(self, limit_s: float, report: Report, find_place: Callable[[], str], now: Moment) -> None:
        self._limit_s = limit_s
        self._report = report
        self._find_place = find_place
        self._last = now
        self._asked_s = now.real_s
        # Checks without an answer so far, and how much of that time had no checks.
        self._open_count = 0
        self._missed_s = 0.0

    def look(self, now: Moment, answered_s: float | None) -> None:
        """Check, normally at most a moment later than planned; `answered_s` is None while the loop is blocked."""
        missed_s = now.real_s - self._last.real_s - self._limit_s / _LOOKS
        if missed_s >= self._limit_s:
            self._missed_s += missed_s
            self._tell_missed(missed_s, now.busy_s - self._last.busy_s)
        self._last = now
        if answered_s is None:
            self._open_count += 1
            if self._open_count == _LOOKS:
                self._tell(
                    f"The event loop has been held up for {self._limit_s:g} s by {self._find_place()}: {_MEANWHILE}. "
                    "Make a listener that blocks a plain function, not a coroutine."
                )
            return
        if self._open_count >= _LOOKS:
            held_s = answered_s - self._asked_s - self._missed_s
            self._tell(f"The event loop runs again; it was held up for {held_s:.1f} s.")
        self._open_count = 0
        self._missed_s = 0.0
        self._asked_s = now.real_s

    def _tell(self, sentence: str) -> None:
        self._report(ConsumerWarning.LOOP_BLOCKED, sentence)

    def _tell_missed(self, missed_s: float, busy_s: float) -> None:
        if busy_s >= missed_s / 2:
            # It ran, but not this thread: a call in C that does not release the interpreter lock.
            self._tell(f"One call held the interpreter lock for {missed_s:.1f} s: {_MEANWHILE}.")
        else:
            sentence = f"The process was stopped or suspended for {missed_s:.1f} s: {_MEANWHILE}."
            self._report(ConsumerWarning.STOOD_STILL, sentence)
