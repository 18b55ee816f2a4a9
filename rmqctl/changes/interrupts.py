"""Ctrl-C while a change is applied."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    """Makes Ctrl-C cancel a task instead of the code that runs at that moment, so that the result can be reported.

    Python raises KeyboardInterrupt at every Ctrl-C, even within the code that handles the one before. Here the first
    cancels the task, or is raised if no task runs; later ones can only cancel the task again. After an interrupt the
    handler stays installed: the process is about to end.
    """

    def __init__(self) -> None:
        self._count = 0
        self._task: asyncio.Task[Any] | None = None
        self._before: Callable[[int, FrameType | None], Any] | int | None = None
        self._is_set = False

    def __enter__(self) -> Self:
        # A shell has background processes ignore SIGINT; only the main thread may set a handler.
        is_ours = threading.current_thread() is threading.main_thread()
        if is_ours and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            self._before = signal.signal(signal.SIGINT, self._on_interrupt)
            self._is_set = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_set and self._count == 0:
            signal.signal(signal.SIGINT, self._before)

    def watch(self) -> None:
        """Cancel the calling task at Ctrl-C: it ends with CancelledError."""
        self._task = asyncio.current_task()

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 (Python gives them)
        self._count += 1
        if self._task is not None and not self._task.done():
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)
        elif self._count == 1:
            raise KeyboardInterrupt
