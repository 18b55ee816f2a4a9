"""Those who call a listener: threads for a plain function, tasks of the event loop for a coroutine function."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import NamedTuple, Protocol

from rmqctl.model.consuming import ConsumeStatus
from rmqctl.net.clock import Clock

from .batch import ALL, Batch, Listener

# Told in the thread or task that consumes: just before, with the time on the consumer's clock, and just after.
OnStart = Callable[[Batch, float], None]
OnEnd = Callable[[Batch], None]
# How long what is done may wait to be looked for, and work for another thread, while there is much of both.
_TURN_S = 0.001


class Workers(Protocol):
    """Some that consume, all alike."""

    def submit(self, batches: Iterable[Batch]) -> None:
        """Have batches consumed, in this order, as soon as somebody is free."""

    def close(self) -> None:
        """Consume nothing more, also of what was submitted; who consumes now is not waited for."""


def make_workers(
    listener: Listener, count: int, clock: Clock, *, on_done: Callable[[list[Batch]], None], on_start: OnStart,
    on_end: OnEnd,
) -> Workers:  # fmt: skip
    """Return so many workers for a listener. `on_done` is called in the event loop with what was finished.

    A listener that never comes back keeps its worker, in a thread as in a task: a thread can't be stopped, and a task
    that is could be in the middle of what must not end there. A coroutine may give itself a limit (asyncio.timeout).
    """
    make = TaskWorkers if is_coroutine_function(listener) else ThreadWorkers
    return make(_Calling(listener, clock.monotonic_s, on_start, on_end), count, on_done)


def find_fault(listener: object) -> str | None:
    """Return why something can be no listener, as the end of a sentence that begins with its name; None if it can.

    Each batch would fail otherwise, until all messages were dead letters.
    """
    if isinstance(listener, type):
        return "is a class: an object of it, or a function, is wanted"
    if not callable(listener):
        return "can't be called"
    call = getattr(listener, "__call__", None)  # noqa: B004
    if any(
        kind(each) for each in (listener, call) for kind in (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    ):
        return "is a generator: with a yield in it, it returns no status and does nothing when it is called"
    try:
        signature = inspect.signature(listener)
    except (TypeError, ValueError):
        return None  # some builtins do not tell
    try:
        signature.bind([], None)
    except TypeError:
        return f"takes {signature}, and is called with (messages, context)"
    return None


def is_coroutine_function(listener: Listener) -> bool:
    """Tell whether a listener is called in the event loop."""
    call = getattr(listener, "__call__", None)  # noqa: B004 (an object that is called can have a coroutine function)
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(call)


class _Calling(NamedTuple):
    """What is called for each batch."""

    listener: Listener
    now_s: Callable[[], float]
    on_start: OnStart
    on_end: OnEnd


class ThreadWorkers:
    """Threads, for listeners that block. They are daemons: one that never comes back does not hold the program.

    To wake a thread, or the event loop, costs more than a fast listener does. So one thread is woken for what comes
    together, and goes on for as long as there is work; where that is not fast enough, more are. What is done is looked
    for while there is any, and told only after that.
    """

    def __init__(self, calling: _Calling, count: int, on_done: Callable[[list[Batch]], None]) -> None:
        self._calling = calling
        self._count = count
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._work: deque[Batch] = deque()
        self._done: deque[Batch] = deque()
        # Each entry wakes a thread; False ends it.
        self._bell: SimpleQueue[bool] = SimpleQueue()
        self._rung_count = 1
        # What was next with the last look.
        self._waiting: Batch | None = None
        self._timer: asyncio.TimerHandle | None = None
        # Whether threads are to tell of what is done; then nobody looks.
        self._is_telling = False
        self._is_closed = False
        for number in range(count):
            threading.Thread(target=self._run, name=f"ConsumeMessageThread_{number + 1}", daemon=True).start()

    def submit(self, batches: Iterable[Batch]) -> None:
        """See Workers."""
        self._work.extend(batches)
        if self._timer is None and self._work:
            self._is_telling = False
            self._ring(1)
            self._timer = self._loop.call_later(_TURN_S, self._look)

    def close(self) -> None:
        """See Workers."""
        self._is_closed = self._is_telling = True
        self._work.clear()
        for _ in range(self._count):
            self._bell.put(False)

    def _look(self) -> None:
        """Hand over what is done, and wake more threads where the same work is next as with the last look."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_telling = self._is_closed
        is_moving = self._hand_over()
        try:
            waiting = self._work[0]
        except IndexError:
            waiting = None
        if waiting is not None:
            # Then those who were woken have a slow listener.
            self._rung_count = min(2 * self._rung_count, self._count) if waiting is self._waiting else 1
            self._ring(self._rung_count)
            is_moving |= self._rung_count < self._count
        self._waiting = waiting
        if is_moving and not self._is_closed:
            self._timer = self._loop.call_later(_TURN_S, self._look)
        else:
            self._is_telling = True
            # What was done before that is not told.
            self._hand_over()

    def _ring(self, count: int) -> None:
        for _ in range(count - self._bell.qsize()):
            self._bell.put(True)

    def _hand_over(self) -> bool:
        done = self._done
        found = [done.popleft() for _ in range(len(done))]
        if found:
            self._on_done(found)
        return bool(found)

    def _run(self) -> None:
        listener, now_s, on_start, on_end = self._calling
        wait, take, add = self._bell.get, self._work.popleft, self._done.append
        while wait():
            while True:
                try:
                    batch = take()
                except IndexError:
                    break
                if not batch.process_queue.dropped:
                    batch.started_s = started_s = now_s()
                    on_start(batch, started_s)
                    try:
                        _note(batch, listener(batch.messages, batch))
                    except BaseException as error:  # noqa: BLE001 - sys.exit() in a listener ends no consumer
                        _note_failure(batch, error)
                    batch.finished_s = now_s()
                    on_end(batch)
                add(batch)
                if self._is_telling:
                    self._tell()

    def _tell(self) -> None:
        self._is_telling = False
        try:
            self._loop.call_soon_threadsafe(self._look)
        except RuntimeError:
            pass  # the loop has ended: nobody waits for it any more


class TaskWorkers:
    """Tasks of the event loop, for listeners that wait without blocking. What is done together is handed over so."""

    def __init__(self, calling: _Calling, count: int, on_done: Callable[[list[Batch]], None]) -> None:
        self._calling = calling
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._done: list[Batch] = []
        self._work: asyncio.Queue[Batch] = asyncio.Queue()
        self._tasks = [asyncio.ensure_future(self._run()) for _ in range(count)]

    def submit(self, batches: Iterable[Batch]) -> None:
        """See Workers."""
        for batch in batches:
            self._work.put_nowait(batch)

    def close(self) -> None:
        """See Workers. What waits within a listener is cancelled."""
        for task in self._tasks:
            task.cancel()

    def _add(self, batch: Batch) -> None:
        if not self._done:
            self._loop.call_soon(self._hand_over)
        self._done.append(batch)

    def _hand_over(self) -> None:
        found, self._done = self._done, []
        self._on_done(found)

    async def _run(self) -> None:
        own, (listener, now_s, on_start, on_end) = asyncio.current_task(), self._calling
        while True:
            batch = await self._work.get()
            if not batch.process_queue.dropped:
                batch.started_s = started_s = now_s()
                on_start(batch, started_s)
                try:
                    answer = listener(batch.messages, batch)
                    _note(batch, await answer if inspect.isawaitable(answer) else answer)
                except BaseException as error:
                    # What a listener raises of that kind is its own failure, unless this task is to end.
                    if isinstance(error, asyncio.CancelledError) and own is not None and own.cancelling():
                        raise
                    _note_failure(batch, error)
                batch.finished_s = now_s()
                on_end(batch)
            self._add(batch)


def _note(batch: Batch, answer: object) -> None:
    """Note what a listener said. Raises TypeError for what is neither a status nor None, and for a wrong context."""
    if isinstance(answer, ConsumeStatus):
        status = answer
    elif isinstance(answer, str) and answer in ConsumeStatus.__members__:
        status = ConsumeStatus(answer)
    elif answer is None:
        status = None
    elif inspect.iscoroutine(answer):
        answer.close()
        raise TypeError("the listener is a plain function that returned a coroutine: define it with async def")
    else:
        raise TypeError(f"the listener returned {answer!r}: a ConsumeStatus is wanted")
    # Whatever the types say, listeners set what they like.
    ack_index: object = batch.ack_index
    delay_level: object = batch.delay_level
    if not isinstance(ack_index, int):
        raise TypeError(f"the listener set ack_index to {ack_index!r}: a number is wanted")
    if not isinstance(delay_level, int):
        raise TypeError(f"the listener set delay_level to {delay_level!r}: a number is wanted")
    batch.status = status


def _note_failure(batch: Batch, error: BaseException) -> None:
    """Note what a listener raised, or what is wrong with what it said; the event loop compares these numbers."""
    batch.error = error
    if not _is_number(batch.ack_index):
        batch.ack_index = ALL
    if not _is_number(batch.delay_level):
        batch.delay_level = 0


def _is_number(value: object) -> bool:
    return isinstance(value, int)
