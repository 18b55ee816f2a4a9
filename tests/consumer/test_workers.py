"""Those who call listeners: whatever a listener does, its batch comes back, and the others go on."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from rmqctl.consumer.batch import Admission, Batch
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.consumer.workers import Workers, find_fault, is_coroutine_function, make_workers
from rmqctl.model.consumption import ConsumeStatus
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.flags import MessageFlag
from rmqctl.protocol.message import StoredMessage
from tests.consumer.consumer_parts import LATER, MQ, SUCCESS, message
from tests.scripted_peer import run

Plain = Callable[[Sequence[StoredMessage], Batch], Any]
# The same listener is called in a thread, and as a coroutine function.
both = pytest.mark.parametrize("is_async", [False, True], ids=["thread", "task"])


def _as_coroutine(listener: Plain) -> Plain:
    async def call(messages: Sequence[StoredMessage], batch: Batch) -> Any:
        await asyncio.sleep(0)
        return listener(messages, batch)

    return call


class _Crew:
    """Workers, and what they have finished."""

    def __init__(self, listener: Plain, count: int = 1) -> None:
        self.clock = VirtualClock()
        self.queue = ProcessQueue(MQ)
        self.done: list[Batch] = []
        self.bursts: list[int] = []
        self.started: list[Batch] = []
        self.ended: list[Batch] = []
        self._changed = asyncio.Event()
        self.workers: Workers = make_workers(
            listener, count, self.clock, name="ConsumeMessageThread_G", on_done=self._note, admit=self._admit,
            on_end=self.ended.append,
        )  # fmt: skip

    def _admit(self, batch: Batch, _: float) -> Admission:
        if batch.process_queue.dropped:
            return Admission.LEAVE
        self.started.append(batch)
        return Admission.START

    def _note(self, batches: list[Batch]) -> None:
        self.done += batches
        self.bursts.append(len(batches))
        self._changed.set()

    def submit(self, *offsets: int) -> list[Batch]:
        batches = [Batch(self.queue, [message(offset)], 0) for offset in offsets]
        self.workers.submit(batches)
        return batches

    async def finished(self, count: int) -> list[Batch]:
        """Wait until so many batches have come back."""
        async with asyncio.timeout(60):
            while len(self.done) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.done


def _consume(listener: Plain, is_async: bool, *, count: int = 1) -> list[Batch]:
    """Have batches consumed, one after the other."""

    async def go() -> list[Batch]:
        crew = _Crew(_as_coroutine(listener) if is_async else listener)
        crew.submit(*range(count))
        done = await crew.finished(count)
        crew.workers.close()
        assert crew.started == crew.ended == done
        return done

    return run(go())


@both
@pytest.mark.parametrize(
    ("answer", "status"),
    [(SUCCESS, SUCCESS), (LATER, LATER), ("CONSUME_SUCCESS", SUCCESS), ("RECONSUME_LATER", LATER), (None, None)],
)
def test_what_a_listener_says(answer: Any, status: ConsumeStatus | None, is_async: bool) -> None:
    (batch,) = _consume(lambda *_: answer, is_async)
    assert (batch.status, batch.error) == (status, None)


@both
@pytest.mark.parametrize(
    "answer", ["success", 0, True, b"CONSUME_SUCCESS", object()], ids=lambda each: type(each).__name__
)
def test_nonsense_is_a_failure_that_says_what_is_wanted(answer: Any, is_async: bool) -> None:
    (batch,) = _consume(lambda *_: answer, is_async)
    assert batch.status is None
    assert str(batch.error) == f"the listener returned {answer!r} instead of a ConsumeStatus"


@both
@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), StopIteration()], ids=repr
)
def test_whatever_a_listener_raises_is_its_own_failure_and_the_next_batch_is_consumed(
    error: BaseException, is_async: bool
) -> None:
    def listener(messages: Sequence[StoredMessage], batch: Batch) -> ConsumeStatus:
        if messages[0].queue_offset == 0:
            raise error
        return SUCCESS

    first, second = _consume(listener, is_async, count=2)
    # A coroutine makes a RuntimeError of a StopIteration.
    assert type(first.error) in (type(error), RuntimeError)
    assert (first.status, second.status, second.error) == (None, SUCCESS, None)


@both
def test_sys_exit_ends_no_worker(is_async: bool) -> None:
    done = _consume(lambda *_: sys.exit(1), is_async, count=3)
    assert [type(batch.error) for batch in done] == [SystemExit] * 3


@both
@pytest.mark.parametrize(("name", "value"), [("ack_index", "3"), ("ack_index", None), ("delay_level", 1.5)])
def test_a_wrong_context_fails_its_own_batch_only(name: str, value: Any, is_async: bool) -> None:
    def listener(_: Sequence[StoredMessage], batch: Batch) -> ConsumeStatus:
        setattr(batch, name, value)
        return SUCCESS

    (batch,) = _consume(listener, is_async)
    assert str(batch.error) == f"the listener set {name} to {value!r}, which is not an integer"
    assert (batch.status, batch.ack_index, batch.delay_level) == (None, 2**31 - 1, 0)


@both
def test_a_body_that_will_not_decompress_is_the_listeners_failure(is_async: bool) -> None:
    async def go() -> Batch:
        def listener(messages: Sequence[StoredMessage], _: Batch) -> ConsumeStatus:
            assert messages[0].body
            return SUCCESS

        crew = _Crew(_as_coroutine(listener) if is_async else listener)
        crew.workers.submit([Batch(crew.queue, [message(0, b"no zlib", sys_flag=MessageFlag.COMPRESSED)], 0)])
        (batch,) = await crew.finished(1)
        crew.workers.close()
        return batch

    batch = run(go())
    assert type(batch.error).__name__ == "RemoteProtocolError"


def test_an_object_with_a_coroutine_function_is_called_in_the_event_loop() -> None:
    class Listener:
        async def __call__(self, messages: Sequence[StoredMessage], batch: Batch) -> ConsumeStatus:
            return SUCCESS

    assert is_coroutine_function(Listener())
    assert not is_coroutine_function(lambda *_: SUCCESS)


async def test_a_listener_that_blocks_holds_one_thread_and_not_the_others() -> None:
    gate = threading.Event()
    names: set[str] = set()

    def listener(messages: Sequence[StoredMessage], _: Batch) -> ConsumeStatus:
        names.add(threading.current_thread().name)
        if messages[0].queue_offset == 0:
            gate.wait(60)
        return SUCCESS

    crew = _Crew(listener, 2)
    stuck, *others = crew.submit(0, 1, 2, 3)
    try:
        assert await crew.finished(3) == others
    finally:
        gate.set()
    assert (await crew.finished(4))[-1] is stuck
    assert names == {"ConsumeMessageThread_G_1", "ConsumeMessageThread_G_2"}
    crew.workers.close()


async def test_what_threads_finish_while_the_event_loop_is_busy_is_told_at_once() -> None:
    is_last = threading.Event()

    def listener(messages: Sequence[StoredMessage], _: Batch) -> ConsumeStatus:
        if messages[0].queue_offset == 99:
            is_last.set()
        return SUCCESS

    crew = _Crew(listener)
    crew.submit(*range(100))
    assert is_last.wait(60)  # the event loop does not get to run
    await crew.finished(100)
    assert len(crew.bursts) <= 2
    crew.workers.close()


@both
async def test_a_batch_of_a_queue_that_was_dropped_comes_back_unread(is_async: bool) -> None:
    called: list[object] = []
    listener: Plain = lambda *given: called.append(given)  # noqa: E731
    crew = _Crew(_as_coroutine(listener) if is_async else listener)
    crew.queue.drop()
    crew.submit(0)
    (batch,) = await crew.finished(1)
    assert (called, crew.started, batch.started_s) == ([], [], 0.0)
    crew.workers.close()


@both
def test_once_closed_nothing_that_waits_is_consumed(is_async: bool) -> None:
    async def go() -> list[int]:
        seen: list[int] = []
        entered, gate = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def in_thread(messages: Sequence[StoredMessage], _: Batch) -> ConsumeStatus:
            seen.append(messages[0].queue_offset)
            loop.call_soon_threadsafe(entered.set)
            gate.wait(60)
            return SUCCESS

        async def in_task(messages: Sequence[StoredMessage], _: Batch) -> ConsumeStatus:
            seen.append(messages[0].queue_offset)
            entered.set()
            await asyncio.Event().wait()
            return SUCCESS

        before = set(threading.enumerate())
        crew = _Crew(in_task if is_async else in_thread)
        crew.submit(*range(5))
        async with asyncio.timeout(60):
            await entered.wait()
        crew.workers.close()
        gate.set()
        for thread in set(threading.enumerate()) - before:
            thread.join(60)
            assert not thread.is_alive()
        await crew.clock.await_idle()
        return seen

    assert run(go()) == [0]


def test_a_thread_that_comes_back_after_the_loop_has_ended_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    gate, threads = threading.Event(), set(threading.enumerate())

    async def go() -> None:
        entered, loop = asyncio.Event(), asyncio.get_running_loop()

        def listener(*_: object) -> ConsumeStatus:
            loop.call_soon_threadsafe(entered.set)
            gate.wait(60)
            return SUCCESS

        crew = _Crew(listener)
        crew.submit(0)
        async with asyncio.timeout(60):
            await entered.wait()
        crew.workers.close()

    run(go())
    gate.set()
    for thread in set(threading.enumerate()) - threads:
        thread.join(60)
        assert not thread.is_alive()
    assert capsys.readouterr().err == ""


def test_tasks_consume_at_one_time_as_many_as_there_are() -> None:
    async def go() -> tuple[int, int]:
        running = most = 0
        gate = asyncio.Event()

        async def listener(*_: object) -> ConsumeStatus:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await gate.wait()
            running -= 1
            return SUCCESS

        crew = _Crew(listener, 3)
        crew.submit(*range(10))
        await crew.clock.await_idle()
        gate.set()
        await crew.finished(10)
        crew.workers.close()
        return most, running

    assert run(go()) == (3, 0)


@both
async def test_7_8_how_long_a_batch_took_is_measured_on_the_consumers_clock(is_async: bool) -> None:
    crew: _Crew
    loop = asyncio.get_running_loop()

    def in_thread(*_: object) -> ConsumeStatus:
        asyncio.run_coroutine_threadsafe(crew.clock.advance(7), loop).result(10)
        return SUCCESS

    async def in_task(*_: object) -> ConsumeStatus:
        await crew.clock.advance(7)
        return SUCCESS

    crew = _Crew(in_task if is_async else in_thread)
    crew.submit(0)
    (batch,) = await crew.finished(1)
    assert (batch.started_s, batch.finished_s) == (0.0, 7.0)
    crew.workers.close()


def test_a_plain_function_that_returns_a_coroutine_is_told_to_be_one() -> None:
    (batch,) = _consume(lambda *given: _as_coroutine(lambda *_: SUCCESS)(*given), is_async=False)
    said = "the listener is a plain function that returned a coroutine: define it with async def"
    assert (str(batch.error), batch.status) == (said, None)


@both
@pytest.mark.parametrize("kind", ["thread", "process", "task"])
def test_what_a_listener_starts_may_outlive_it_and_holds_no_worker(kind: str, is_async: bool) -> None:
    gate = threading.Event()
    left: list[Any] = []

    async def go() -> list[Batch]:
        loop, never = asyncio.get_running_loop(), asyncio.Event()

        def listener(*_: object) -> ConsumeStatus:
            if kind == "thread":
                left.append(threading.Thread(target=gate.wait, args=(10,)))
                left[-1].start()
            elif kind == "process":
                left.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE))
            else:
                loop.call_soon_threadsafe(lambda: left.append(loop.create_task(never.wait())))  # type: ignore[arg-type]
            return SUCCESS

        crew = _Crew(_as_coroutine(listener) if is_async else listener)
        crew.submit(0, 1)
        done = await crew.finished(2)
        crew.workers.close()
        return done

    try:
        assert [(batch.status, batch.error) for batch in run(go())] == [(SUCCESS, None)] * 2
        assert len(left) == 2
    finally:
        gate.set()
        for each in left:
            if kind == "thread":
                each.join(60)
            elif kind == "process":
                each.communicate(timeout=120)


# What can be no listener


class _Called:
    def __call__(self, messages: object, context: object) -> ConsumeStatus:
        return SUCCESS


async def _coroutine(messages: object, context: object) -> ConsumeStatus:
    return SUCCESS


def _generator(messages: object, context: object) -> Any:
    yield SUCCESS


async def _async_generator(messages: object, context: object) -> Any:
    yield SUCCESS


class _CalledGenerator:
    def __call__(self, messages: object, context: object) -> Any:
        yield SUCCESS


def _one(messages: object) -> None: ...


def _three(a: object, b: object, c: object) -> None: ...


def _named(*, messages: object, context: object) -> None: ...


_WRONG = "must accept (messages, context), but its parameters are "


@pytest.mark.parametrize(
    ("listener", "fault"),
    [
        (_Called, "is a class"), (_generator, "is a generator"), (_async_generator, "is a generator"),
        (_CalledGenerator(), "is a generator"), (partial(_generator, []), "is a generator"),
        (_one, f"{_WRONG}(messages: 'object') -> 'None'"), (_three, f"{_WRONG}(a"),
        (_named, f"{_WRONG}(*"), (partial(_coroutine, 1), f"{_WRONG}(context"), (7, "cannot be called"),
    ],
)  # fmt: skip
def test_what_would_fail_with_every_message_is_found_before(listener: Any, fault: str) -> None:
    assert (find_fault(listener) or "").startswith(fault)


@pytest.mark.parametrize(
    "listener",
    [
        _coroutine,
        _Called(),
        _Called().__call__,
        partial(_three, 1),
        lambda *_: None,
        lambda a, b, c=1: None,
        max,
        print,
    ],
)
def test_what_can_be_a_listener(listener: Any) -> None:
    assert find_fault(listener) is None


def test_a_worker_ends_with_a_listener_that_does_not_end_when_it_is_cancelled() -> None:
    async def go() -> None:
        entered, gate = asyncio.Event(), asyncio.Event()

        async def listener(*_: object) -> ConsumeStatus:
            entered.set()
            while not gate.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await gate.wait()
            return SUCCESS

        before = asyncio.all_tasks()
        crew = _Crew(listener)
        tasks = asyncio.all_tasks() - before
        crew.submit(0, 1)
        await entered.wait()
        crew.workers.close()
        # As asyncio.run() does at the end, which then waits for all tasks.
        for _ in range(2):
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
        await asyncio.sleep(0)
        gate.set()
        assert await asyncio.wait(tasks, timeout=60) == (tasks, set())
        assert len(crew.started) == 1

    run(go())


def test_a_coroutine_that_cancels_its_own_task_fails_alone() -> None:
    async def listener(found: Sequence[StoredMessage], _: Batch) -> ConsumeStatus:
        if found[0].queue_offset == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            task.cancel()
            await asyncio.sleep(0)
        return SUCCESS

    async def go() -> None:
        crew = _Crew(listener)
        crew.submit(0, 1, 2)
        done = await crew.finished(3)
        assert [type(batch.error) for batch in done] == [type(None), asyncio.CancelledError, type(None)]
        crew.workers.close()

    run(go())
