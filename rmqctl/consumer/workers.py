"""Workers that call a listener: threads for a plain function, event loop tasks for a coroutine function."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import NamedTuple, Protocol

from rmqctl.model.consumption import ConsumeOrderlyStatus, ConsumeStatus
from rmqctl.net.clock import Clock

from .batch import ALL, Admission, AnyListener, Batch, OrderlyBatch
from .reports.failures import ListenerError

# Called in the thread or task that consumes: just before, with the time on the consumer's clock, and just after. A
# batch that is kept for later comes back with submit(). A worker continues with the batch that `follow` returns.
Admit = Callable[[Batch, float], Admission]
OnEnd = Callable[[Batch], None]
Follow = Callable[[Batch], Batch | None]
# How long finished batches may wait to be collected, and work for another thread, under load.
_TURN_S = 0.001
# The characters of a group's name in the names of Java's threads (ConsumeMessageConcurrentlyService).
_NAME_LENGTH = 100


class Workers(Protocol):
    """A pool of equal workers that consume batches."""

    def submit(self, batches: Iterable[Batch]) -> None:
        """Have batches consumed, in this order, as soon as workers are free."""

    def close(self) -> None:
        """Consume nothing more, not even submitted batches; do not wait for running ones."""


def make_workers(
    listener: AnyListener, count: int, clock: Clock, *, name: str,
    on_done: Callable[[list[Batch]], None], admit: Admit, on_end: OnEnd, follow: Follow | None = None,
) -> Workers:  # fmt: skip
    """Return `count` workers for a listener. `on_done` is called in the event loop with the finished batches.

    With `follow`, the listener is orderly, and all batches are OrderlyBatch.

    Their names are `name` and a number: a stack dump shows the workers of all consumers of a process.

    A listener that never returns keeps its worker. A thread cannot be stopped, and a task could be stopped in the
    middle of work that must finish. A coroutine may set its own limit (asyncio.timeout).
    """
    make = TaskWorkers if is_coroutine_function(listener) else ThreadWorkers
    kind = ConsumeStatus if follow is None else ConsumeOrderlyStatus
    return make(_Calling(listener, clock.monotonic_s, admit, on_end, follow, kind), count, on_done, name)


def name_of_workers(group: str) -> str:
    """Return the beginning of the names of a group's workers."""
    return f"ConsumeMessageThread_{group[:_NAME_LENGTH]}"


def find_fault(listener: object) -> str | None:
    """Return why an object cannot be a listener, as the end of a sentence that starts with its name; None if it can.

    Without this check each batch would fail, until all messages were dead letters.
    """
    if isinstance(listener, type):
        return "is a class; a function or a callable object is required"
    if not callable(listener):
        return "cannot be called"
    call = getattr(listener, "__call__", None)  # noqa: B004
    if any(
        kind(each) for each in (listener, call) for kind in (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    ):
        return "is a generator function: because of its yield, a call does nothing and returns no status"
    try:
        signature = inspect.signature(listener)
    except (TypeError, ValueError):
        return None  # some builtins have no signature
    try:
        signature.bind([], None)
    except TypeError:
        return f"must accept (messages, context), but its parameters are {signature}"
    return None


def find_fault_of_hook(function: object) -> str | None:
    """Return why an object cannot be called for its result, as find_fault() does: a coroutine is always true."""
    if not callable(function) or isinstance(function, type):
        return "is not a function"
    return "must be a plain function" if is_coroutine_function(function) else None


def is_coroutine_function(listener: AnyListener) -> bool:
    """Return whether a listener runs in the event loop."""
    call = getattr(listener, "__call__", None)  # noqa: B004 (a callable object can have a coroutine function)
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(call)


class _Calling(NamedTuple):
    """The functions that are called for each batch."""

    listener: Callable[..., object]
    now_s: Callable[[], float]
    admit: Admit
    on_end: OnEnd
    follow: Follow | None
    kind: type[ConsumeStatus | ConsumeOrderlyStatus]


class ThreadWorkers:
    """Threads, for listeners that block. They are daemons: one that never returns does not keep the program running.

    To wake a thread, or the event loop, costs more than a fast listener does. So one thread is woken for batches that
    arrive together, and works until none is left; if that is too slow, more are woken. While batches finish, the event
    loop polls for them; after that, threads notify it.
    """

    def __init__(self, calling: _Calling, count: int, on_done: Callable[[list[Batch]], None], name: str) -> None:
        self._calling = calling
        self._count = count
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._work: deque[Batch] = deque()
        self._done: deque[Batch] = deque()
        # Each entry wakes a thread; False ends it.
        self._bell: SimpleQueue[bool] = SimpleQueue()
        self._rung_count = 1
        # The next batch at the last look.
        self._waiting: Batch | None = None
        self._timer: asyncio.TimerHandle | None = None
        # Whether threads notify the event loop of finished batches; then it does not poll.
        self._is_telling = False
        self._is_closed = False
        for number in range(count):
            threading.Thread(target=self._run, name=f"{name}_{number + 1}", daemon=True).start()

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
        """Hand over finished batches, and wake more threads if the same batch is next as at the last look."""
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
            # Then the woken threads have a slow listener.
            self._rung_count = min(2 * self._rung_count, self._count) if waiting is self._waiting else 1
            self._ring(self._rung_count)
            is_moving |= self._rung_count < self._count
        self._waiting = waiting
        if is_moving and not self._is_closed:
            self._timer = self._loop.call_later(_TURN_S, self._look)
        else:
            self._is_telling = True
            # Batches that finished before this line were not notified.
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
        listener, now_s, admit, on_end, follow, kind = self._calling
        wait, take, add = self._bell.get, self._work.popleft, self._done.append
        while wait():
            while True:
                try:
                    batch = take()
                except IndexError:
                    break
                following: Batch | None = batch
                while following is not None:
                    batch, following = following, None
                    started_s = now_s()
                    admission = admit(batch, started_s)
                    if admission is Admission.LATER:
                        break
                    if admission is Admission.START:
                        batch.started_s = started_s
                        try:
                            _note(batch, listener(batch.messages, batch), kind)
                        except BaseException as error:  # noqa: BLE001 - sys.exit() must not end the consumer
                            _note_failure(batch, error)
                        batch.finished_s = now_s()
                        on_end(batch)
                        if follow is not None:
                            following = follow(batch)
                    add(batch)
                    if self._is_telling:
                        self._tell()

    def _tell(self) -> None:
        self._is_telling = False
        try:
            self._loop.call_soon_threadsafe(self._look)
        except RuntimeError:
            pass  # the loop has ended


class _WorkerTask(asyncio.Task[None]):
    """A task that knows how often the code that it runs has cancelled it, such as a listener its own task."""

    own_cancel_count = 0

    def cancel(self, msg: object = None) -> bool:
        """See asyncio.Task."""
        if asyncio.current_task(self.get_loop()) is self:
            self.own_cancel_count += 1
        return super().cancel(msg)


class TaskWorkers:
    """Tasks of the event loop, for listeners that wait without blocking. Finished batches are handed over together."""

    def __init__(self, calling: _Calling, count: int, on_done: Callable[[list[Batch]], None], name: str) -> None:
        self._calling = calling
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._done: list[Batch] = []
        self._work: asyncio.Queue[Batch] = asyncio.Queue()
        self._is_closed = False
        self._tasks = [
            _WorkerTask(self._run(), loop=self._loop, name=f"{name}_{number + 1}") for number in range(count)
        ]

    def submit(self, batches: Iterable[Batch]) -> None:
        """See Workers."""
        for batch in batches:
            self._work.put_nowait(batch)

    def close(self) -> None:
        """See Workers. Listeners that are waiting are cancelled; one that continues anyway is its worker's last."""
        self._is_closed = True
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
        own, (listener, now_s, admit, on_end, follow, kind) = asyncio.current_task(), self._calling
        assert isinstance(own, _WorkerTask)  # noqa: S101
        following: Batch | None = None
        while not self._is_closed:
            batch = following or await self._work.get()
            following = None
            started_s = now_s()
            admission = admit(batch, started_s)
            if admission is Admission.LATER:
                continue
            if admission is Admission.START:
                batch.started_s = started_s
                try:
                    answer = listener(batch.messages, batch)
                    _note(batch, await answer if inspect.isawaitable(answer) else answer, kind)
                except BaseException as error:
                    # A CancelledError is the failure of the listener, unless other code cancelled this task.
                    if isinstance(error, asyncio.CancelledError) and own.cancelling() > own.own_cancel_count:
                        raise
                    while own.own_cancel_count:
                        own.own_cancel_count -= 1
                        own.uncancel()
                    _note_failure(batch, error)
                batch.finished_s = now_s()
                on_end(batch)
                if follow is not None:
                    following = follow(batch)
            self._add(batch)


def _note(batch: Batch, answer: object, kind: type[ConsumeStatus | ConsumeOrderlyStatus]) -> None:
    """Note the result of a listener. Raises ListenerError for an invalid result or context; None is valid."""
    if isinstance(answer, kind):
        status = answer
    elif isinstance(answer, str) and answer in kind.__members__:
        status = kind(answer)
    elif answer is None:
        status = None
    elif inspect.iscoroutine(answer):
        answer.close()
        raise ListenerError("the listener is a plain function that returned a coroutine: define it with async def")
    else:
        raise ListenerError(f"the listener returned {answer!r} instead of a {kind.__name__}")
    # Whatever the types say, listeners may set any value.
    ack_index: object = batch.ack_index
    delay_level: object = batch.delay_level
    if not isinstance(ack_index, int):
        raise ListenerError(f"the listener set ack_index to {ack_index!r}, which is not an integer")
    if not isinstance(delay_level, int):
        raise ListenerError(f"the listener set delay_level to {delay_level!r}, which is not an integer")
    if isinstance(batch, OrderlyBatch):
        _require_valid(batch.suspend_ms, batch.auto_commit)
    batch.status = status


def _require_valid(suspend_ms: object, auto_commit: object) -> None:
    if not isinstance(suspend_ms, int):
        raise ListenerError(f"the listener set suspend_ms to {suspend_ms!r}, which is not an integer")
    if not isinstance(auto_commit, bool):
        raise ListenerError(f"the listener set auto_commit to {auto_commit!r}, which is neither True nor False")


def _note_failure(batch: Batch, error: BaseException) -> None:
    """Note the error of a listener, and reset invalid numbers, because the event loop compares them."""
    batch.error = error
    if not _is_number(batch.ack_index):
        batch.ack_index = ALL
    if not _is_number(batch.delay_level):
        batch.delay_level = 0
    if isinstance(batch, OrderlyBatch) and not _is_number(batch.suspend_ms):
        batch.suspend_ms = -1


def _is_number(value: object) -> bool:
    return isinstance(value, int)
