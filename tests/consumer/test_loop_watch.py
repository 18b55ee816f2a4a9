"""An event loop that hangs is noticed from outside, while it hangs; a process that stood still blames no listener."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

import pytest

from rmqctl.consumer.batch import Batch
from rmqctl.consumer.loop_watch import LoopChecks, LoopWatch, Moment
from rmqctl.model.consumption import ConsumerWarning, ConsumeStatus
from rmqctl.protocol.message import StoredMessage
from tests.consumer.consumer_cluster import Cluster, scenario
from tests.scripted_peer import run

_BLOCKED, _STILL = ConsumerWarning.LOOP_BLOCKED, ConsumerWarning.STOOD_STILL


class _Looking:
    """Looks at a loop that hangs from a time on; a look a second."""

    def __init__(self) -> None:
        self.said: list[tuple[ConsumerWarning, str]] = []
        self.now = Moment(1000.0, 3.0)
        self.looks = LoopChecks(5, lambda *said: self.said.append(said), lambda: "f(file.py:7)", self.now)

    def pass_by(self, seconds: float = 1.0, *, answered_s: float | None = None, busy_s: float = 0.0) -> None:
        self.now = Moment(self.now.real_s + seconds, self.now.busy_s + busy_s)
        self.looks.look(self.now, answered_s)

    def runs(self, count: int = 1) -> None:
        for _ in range(count):
            self.pass_by(answered_s=self.now.real_s)

    def hangs(self, count: int) -> None:
        for _ in range(count):
            self.pass_by()


def test_a_loop_that_runs_is_not_told_of() -> None:
    looking = _Looking()
    looking.runs(100)
    for _ in range(100):
        looking.hangs(4)
        looking.runs()
    assert looking.said == []


def test_a_loop_that_hangs_is_told_of_once_while_it_does_and_when_it_is_over() -> None:
    looking = _Looking()
    looking.runs(3)
    began_s = looking.now.real_s
    looking.hangs(4)
    assert looking.said == []
    looking.hangs(1)
    (said,) = looking.said
    assert said[0] is _BLOCKED
    assert said[1].startswith("The event loop has been held up for 5 s by f(file.py:7): no heartbeats and no pulls")
    looking.hangs(100)
    assert looking.said == [said]
    looking.pass_by(answered_s=began_s + 105.5)
    assert looking.said[1:] == [(_BLOCKED, "The event loop runs again; it was held up for 105.5 s.")]
    looking.runs(10)
    assert len(looking.said) == 2
    looking.hangs(5)
    assert looking.said[2:] == [said]


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_process_that_was_stopped_blames_no_listener(is_asked: bool) -> None:
    looking = _Looking()
    looking.runs(3)
    if is_asked:
        looking.hangs(1)
    looking.pass_by(61, busy_s=0.1)
    looking.hangs(2)
    looking.runs(10)
    ((kind, sentence),) = looking.said
    assert (kind, "stopped or suspended for 60.0 s" in sentence) == (_STILL, True)


def test_a_stop_within_a_hang_is_not_part_of_it() -> None:
    looking = _Looking()
    looking.runs()
    looking.hangs(3)
    looking.pass_by(61)
    looking.hangs(1)
    assert [kind for kind, _ in looking.said] == [_STILL, _BLOCKED]
    looking.pass_by(answered_s=looking.now.real_s + 0.5)
    assert looking.said[2][1] == "The event loop runs again; it was held up for 5.5 s."


def test_a_call_that_keeps_the_interpreter_is_no_standstill() -> None:
    looking = _Looking()
    looking.runs()
    looking.pass_by(8, busy_s=7.5)
    ((kind, sentence),) = looking.said
    assert (kind, "interpreter lock for 7.0 s" in sentence) == (_BLOCKED, True)


def test_a_late_look_is_nothing() -> None:
    looking = _Looking()
    looking.pass_by(5.9, answered_s=looking.now.real_s)
    looking.runs(3)
    assert looking.said == []


class _Told:
    """Hears from the thread; each kind by itself, for a busy machine can make threads late.

    It can hold up the loop before `place` does: what is told before that place is, is nothing.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self.blocked: list[str] = []
        self.threads: set[str] = set()
        self.is_told, self.is_over = threading.Event(), asyncio.Event()
        self.loop = asyncio.get_running_loop()

    def __call__(self, trouble: ConsumerWarning, sentence: str) -> None:
        self.threads.add(threading.current_thread().name)
        if trouble is _BLOCKED and "interpreter lock" not in sentence:
            if self.place in sentence:
                self.is_told.set()
            if self.is_told.is_set():
                self.blocked.append(sentence)
            if self.is_told.is_set() and "runs again" in sentence:
                self.loop.call_soon_threadsafe(self.is_over.set)


def test_a_coroutine_that_blocks_is_found_while_it_blocks() -> None:
    async def go() -> _Told:
        told = _Told("<locals>.block(test_loop_watch.py:")
        watch = LoopWatch(0.1, told)

        async def block() -> None:
            while not told.is_told.wait(1):  # noqa: ASYNC110 - held up until it was told of
                await asyncio.sleep(0)  # for the next question, where one was open before

        async with asyncio.timeout(60):
            await asyncio.create_task(block())
            await told.is_over.wait()
        watch.close()
        watch.thread.join(60)
        assert not watch.thread.is_alive()
        return told

    told = run(go())
    first, second, *_ = told.blocked
    assert told.place in first
    assert second.startswith("The event loop runs again; it was held up for ")
    assert told.threads == {"LoopWatch"}


def test_it_ends_with_a_loop_that_was_not_told_to_end() -> None:
    async def go() -> LoopWatch:
        return LoopWatch(0.05, lambda *_: None)

    watch = run(go())
    watch.thread.join(60)
    assert not watch.thread.is_alive()


def test_a_consumer_tells_of_a_listener_that_blocks_and_its_watch_ends_with_it() -> None:
    async def work(cluster: Cluster) -> None:
        is_told = threading.Event()

        def note(report: str) -> bool:
            return "held up for 0.1 s by" in report and "listener(test_loop_watch.py:" in report

        async def listener(found: Sequence[StoredMessage], _: Batch) -> ConsumeStatus:
            until_s = time.monotonic() + 60
            while not any(map(note, cluster.reports)) and time.monotonic() < until_s:
                for _ in range(100):
                    if not any(map(note, cluster.reports)):
                        is_told.wait(0.01)
                await asyncio.sleep(0)  # for the next question, where one was open before it blocked
            return ConsumeStatus.CONSUME_SUCCESS

        await cluster.send("a")
        consumer = await cluster.started(listener, loop_watch_s=0.1)
        await cluster.until(lambda: consumer.counts.ok == 1)
        assert any(map(note, cluster.reports))
        await cluster.during(consumer.drain(10))
        assert consumer._loop_watch is not None
        consumer._loop_watch.thread.join(60)
        assert not consumer._loop_watch.thread.is_alive()

    scenario(work)


_STOPPED = """
import asyncio
from rmqctl.consumer.loop_watch import LoopWatch

async def go():
    over = asyncio.Event()
    loop = asyncio.get_running_loop()

    def report(trouble, sentence):
        print(trouble, sentence, flush=True)
        loop.call_soon_threadsafe(loop.call_later, 0.3, over.set)

    LoopWatch(0.1, report)
    print("ready", flush=True)
    await over.wait()

asyncio.run(go())
"""


@pytest.mark.by_the_clock
def test_a_process_that_is_really_stopped() -> None:
    """By the clock: a busy machine can hold up the loop, and not the watch, for 0.1 s; LoopChecks is tested above."""
    process = subprocess.Popen([sys.executable, "-c", _STOPPED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.4)
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert out.startswith("STOOD_STILL The process was stopped or suspended for 0.")
    assert "LOOP_BLOCKED" not in out
