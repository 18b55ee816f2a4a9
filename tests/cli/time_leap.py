"""Time that passes at once for the command, as soon as a fault has struck what it asked: no deadline strikes before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rmqctl.net.clock import JumpClock
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.repetition import repeating

_POLL_S = 0.02


class _Leaper:
    """Lets time pass in an event loop, one jump after the other."""

    def __init__(self, clock: JumpClock) -> None:
        self.clock = clock
        self.loop = asyncio.get_running_loop()
        self.left_s = 0.0
        self.jump: asyncio.Task[None] | None = None

    def leap(self, seconds: float) -> None:
        self.left_s += seconds
        if self.jump is None or self.jump.done():
            self.jump = asyncio.ensure_future(self._leap())

    async def _leap(self) -> None:
        while self.left_s:
            seconds, self.left_s = self.left_s, 0.0
            await self.clock.advance(seconds)


@contextmanager
def leaping(
    sandbox: ThreadedSandbox, monkeypatch: pytest.MonkeyPatch, *, strike_s: float, later_s: float = 0.0
) -> Iterator[None]:
    """Let strike_s pass each time that a planned fault strikes, and later_s again and again after the first time."""
    leapers: list[_Leaper] = []
    leapt_count = 0

    def clock() -> JumpClock:
        made = JumpClock()
        leapers.append(_Leaper(made))
        return made

    def watch() -> None:
        nonlocal leapt_count
        if not leapers:
            return  # faults may have struck before the command has begun
        struck_count = sandbox.call(lambda inner: sum(fault.struck_count for fault in inner.faults.planned))
        seconds = (struck_count - leapt_count) * strike_s + (later_s if struck_count else 0.0)
        leapt_count = struck_count
        if seconds:
            try:
                leapers[-1].loop.call_soon_threadsafe(leapers[-1].leap, seconds)
            except RuntimeError:
                pass  # the command has ended

    with monkeypatch.context() as patched:
        patched.setattr("rmqctl.client.access.SystemClock", clock)
        with repeating(watch, _POLL_S):
            yield
