"""The stacks of all threads and tasks of this process, in the format of Java's stack dumps (UtilAll.jstack)."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from itertools import dropwhile, takewhile
from pathlib import PurePath
from traceback import walk_stack
from types import FrameType
from typing import Any

# Java pads names to this width.
_NAME_WIDTH = 40


def stacks() -> str:
    """Return a paragraph for each thread, and for each task of the running event loop; the innermost call first.

    Python does not report whether a thread is waiting. A thread's TID is the system's, as in top.
    """
    return "".join([*_threads(), *_tasks()])


def _threads() -> Iterator[str]:
    threads = {thread.ident: thread for thread in threading.enumerate()}
    # The only way to see the stacks of other threads; Python's documentation offers it for this purpose.
    for ident, frame in sys._current_frames().items():  # noqa: SLF001
        thread = threads.get(ident)
        name, tid = (f"Thread-{ident}", ident) if thread is None else (thread.name, thread.native_id)
        yield _paragraph(name, f"TID: {tid} STATE: UNKNOWN", [each for each, _ in walk_stack(frame)])


def _tasks() -> Iterator[str]:
    current = asyncio.current_task()
    for task in asyncio.all_tasks():
        state = "RUNNING" if task is current else "WAITING"
        yield _paragraph(task.get_name(), f"TASK STATE: {state}", list(_suspended(task.get_coro()))[::-1])


def _suspended(coroutine: Any) -> Iterator[FrameType]:
    """Walk from a task's coroutine to the innermost one that it awaits: Task.get_stack() stops at the first."""
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is None:
            return
        yield frame
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)


def _paragraph(name: str, state: str, frames: list[FrameType]) -> str:
    lines = [state, *(describe_call(frame, frame.f_lineno) for frame in frames)]
    return "".join(f"{name:<{_NAME_WIDTH}}{line}\n" for line in lines) + "\n"


def where(thread: int) -> str:
    """Return the current call of another thread of this process: the outermost one of user code, and the innermost.

    The calls of the event loop around user code are left out.
    """
    frame = sys._current_frames().get(thread)  # noqa: SLF001
    calls = [each for each, _ in walk_stack(frame)]
    if frame is None or not calls:
        return "a thread that has ended"
    innermost = calls[0]
    within = list(takewhile(lambda each: not _module(each).startswith("asyncio."), calls))
    users = list(dropwhile(lambda each: _module(each).startswith("rmqctl."), reversed(within)))
    said = describe_call(innermost, innermost.f_lineno)
    return f"{describe_call(users[0], users[0].f_lineno)}, in {said}" if users[1:] else said


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "?"))


def describe_call(frame: FrameType, line: int | None) -> str:
    """Return a call as `module.function(file.py:12)`."""
    code = frame.f_code
    return f"{_module(frame)}.{code.co_qualname}({PurePath(code.co_filename).name}:{line})"
