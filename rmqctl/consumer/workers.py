"""Those who call a listener: threads for a plain function, tasks of the event loop for a coroutine function.

What is done is collected, and told to the event loop once for as much as there is by then: a wake-up for each batch
would cost more than small batches do.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Protocol

from rmqctl.model.consuming import ConsumeStatus
from rmqctl.net.clock import Clock

from .batch import ALL, Batch, Listener

# Told in the thread or task that consumes, just before and just after.
Watch = Callable[[Batch], None]


class Workers(Protocol):
    """Some that consume, all alike."""

    def submit(self, batches: Iterable[Batch]) -> None:
        """Have batches consumed, in this order, as soon as somebody is free."""

    def close(self) -> None:
        """Consume nothing more, also of what was submitted; who consumes now is not waited for."""


def make_workers(
    listener: Listener, count: int, clock: Clock, *, on_done: Callable[[list[Batch]], None], on_start: Watch,
    on_end: Watch,
) -> Workers:  # fmt: skip
    """Return so many workers for a listener. `on_done` is called in the event loop with what was finished."""
    done = _Done(on_done)
    make = TaskWorkers if is_coroutine_function(listener) else ThreadWorkers
    return make(listener, count, clock, done, on_start, on_end)


def is_coroutine_function(listener: Listener) -> bool:
    """Tell whether a listener is called in the event loop."""
    call = getattr(listener, "__call__", None)  # noqa: B004 (an object that is called can have a coroutine function)
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(call)


class _Done:
    """Collects finished batches from any thread, and hands them over in the event loop."""

    def __init__(self, on_done: Callable[[list[Batch]], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_done = on_done
        self._batches: deque[Batch] = deque()
        self._is_told = False

    def add(self, batch: Batch) -> None:
        self._batches.append(batch)
        if not self._is_told:
            self._is_told = True
            try:
                self._loop.call_soon_threadsafe(self._hand_over)
            except RuntimeError:
                pass  # the loop has ended: nobody waits for it any more

    def _hand_over(self) -> None:
        # Before anything is taken: what comes from now on is told again.
        self._is_told = False
        batches = self._batches
        found = [batches.popleft() for _ in range(len(batches))]
        if found:
            self._on_done(found)


class ThreadWorkers:
    """Threads, for listeners that block. They are daemons: one that never comes back does not hold the program."""

    def __init__(
        self, listener: Listener, count: int, clock: Clock, done: _Done, on_start: Watch, on_end: Watch
    ) -> None:
        self._listener = listener
        self._now_s = clock.monotonic_s
        self._done = done
        self._on_start, self._on_end = on_start, on_end
        self._work: SimpleQueue[Batch | None] = SimpleQueue()
        self._count = count
        self._is_closed = False
        for number in range(count):
            threading.Thread(target=self._run, name=f"ConsumeMessageThread_{number + 1}", daemon=True).start()

    def submit(self, batches: Iterable[Batch]) -> None:
        """See Workers."""
        put = self._work.put
        for batch in batches:
            put(batch)

    def close(self) -> None:
        """See Workers."""
        # What waits stands before what ends the threads.
        self._is_closed = True
        for _ in range(self._count):
            self._work.put(None)

    def _run(self) -> None:
        get, listener, now_s, add = self._work.get, self._listener, self._now_s, self._done.add
        on_start, on_end = self._on_start, self._on_end
        while (batch := get()) is not None and not self._is_closed:
            if not batch.process_queue.dropped:
                batch.started_s = now_s()
                on_start(batch)
                try:
                    _note(batch, listener(batch.messages, batch))
                except BaseException as error:  # noqa: BLE001 - sys.exit() in a listener ends no consumer
                    _note_failure(batch, error)
                batch.finished_s = now_s()
                on_end(batch)
            add(batch)


class TaskWorkers:
    """Tasks of the event loop, for listeners that wait without blocking."""

    def __init__(
        self, listener: Listener, count: int, clock: Clock, done: _Done, on_start: Watch, on_end: Watch
    ) -> None:
        self._listener = listener
        self._now_s = clock.monotonic_s
        self._done = done
        self._on_start, self._on_end = on_start, on_end
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

    async def _run(self) -> None:
        own = asyncio.current_task()
        while True:
            batch = await self._work.get()
            if not batch.process_queue.dropped:
                batch.started_s = self._now_s()
                self._on_start(batch)
                try:
                    answer = self._listener(batch.messages, batch)
                    _note(batch, await answer if inspect.isawaitable(answer) else answer)
                except BaseException as error:
                    # What a listener raises of that kind is its own failure, unless this task is to end.
                    if isinstance(error, asyncio.CancelledError) and own is not None and own.cancelling():
                        raise
                    _note_failure(batch, error)
                batch.finished_s = self._now_s()
                self._on_end(batch)
            self._done.add(batch)


def _note(batch: Batch, answer: object) -> None:
    """Note what a listener said. Raises TypeError for what is neither a status nor None, and for a wrong context."""
    if isinstance(answer, ConsumeStatus):
        status = answer
    elif isinstance(answer, str) and answer in ConsumeStatus.__members__:
        status = ConsumeStatus(answer)
    elif answer is None:
        status = None
    else:
        raise TypeError(f"the listener returned {answer!r}: a ConsumeStatus is wanted")
    for name, number in (("ack_index", batch.ack_index), ("delay_level", batch.delay_level)):
        if not _is_number(number):
            raise TypeError(f"the listener set {name} to {number!r}: a number is wanted")
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
