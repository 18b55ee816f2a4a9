"""Batches that take too long: found at their time, with one timer, by a limit that can be changed while they run."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rmqctl.consumer.expiry import Expiry
from rmqctl.net.clock import SystemClock, VirtualClock

Batch = list[str]


class _Watched:
    """An expiry on a virtual clock, and what it reported: (batch, when)."""

    def __init__(self, timeout_s: float = 900) -> None:
        self.clock = VirtualClock()
        self.expired: list[tuple[Batch, float]] = []
        self.expiry: Expiry[Batch] = Expiry(self.clock, timeout_s, self._note)

    def _note(self, batch: Batch) -> None:
        self.expired.append((batch, self.clock.monotonic_s()))

    def start(self, batch: Batch) -> None:
        self.expiry.started(batch, self.clock.monotonic_s())

    def advance(self, seconds: float) -> None:
        asyncio.run(self.clock.advance(seconds))

    @property
    def timer_count(self) -> int:
        return sum(not timer.cancelled for _, _, timer in self.clock._timers)


def test_a_batch_is_reported_once_when_its_time_is_over() -> None:
    watched = _Watched(900)
    watched.advance(123)
    watched.start(["a"])
    watched.advance(899.9)
    assert watched.expired == []
    watched.advance(0.2)
    assert watched.expired == [(["a"], 1023)]
    watched.advance(5000)
    assert len(watched.expired) == 1


def test_a_batch_that_ends_in_time_is_not_reported() -> None:
    watched = _Watched(10)
    batch = ["a"]
    watched.start(batch)
    watched.advance(9)
    watched.expiry.finished(batch)
    watched.advance(100)
    assert watched.expired == []


def test_7_10_any_number_of_batches_is_reported_wherever_they_stand_in_their_queue() -> None:
    # RocketMQ looks at 16 messages from each queue's head, every 15 minutes.
    watched = _Watched(900)
    batches = [[str(number)] for number in range(5000)]
    for batch in batches:
        watched.start(batch)
        watched.clock._elapsed_s += 0.001
    for batch in batches[:100]:
        watched.expiry.finished(batch)
    assert watched.timer_count == 1
    watched.advance(1000)
    assert [batch for batch, _ in watched.expired] == batches[100:]
    assert all(0 <= at_s - 900 - int(batch[0]) * 0.001 <= 0.21 for batch, at_s in watched.expired)


def test_7_10_a_late_end_of_an_expired_batch_changes_nothing() -> None:
    watched = _Watched(10)
    late, other = ["a"], ["b"]
    watched.start(late)
    watched.advance(5)
    watched.start(other)
    watched.advance(6)
    watched.expiry.finished(late)
    watched.advance(100)
    assert watched.expired == [(["a"], 10), (["b"], 15)]


def test_equal_batches_are_told_apart() -> None:
    watched = _Watched(10)
    one, two = ["same"], ["same"]
    watched.start(one)
    watched.start(two)
    watched.expiry.finished(two)
    watched.advance(11)
    assert [batch is one for batch, _ in watched.expired] == [True]


def test_a_shorter_time_counts_at_once_for_what_runs() -> None:
    watched = _Watched(900)
    watched.start(["old"])
    watched.advance(100)
    watched.start(["new"])
    watched.expiry.set_timeout(60)
    assert watched.expired == [(["old"], 100)]
    watched.advance(100)
    assert watched.expired[1:] == [(["new"], 160)]
    assert watched.timer_count == 1


def test_a_longer_time_counts_for_what_runs() -> None:
    watched = _Watched(10)
    watched.start(["a"])
    watched.advance(9)
    watched.expiry.set_timeout(100)
    watched.advance(90)
    assert watched.expired == []
    watched.advance(1)
    assert watched.expired == [(["a"], 100)]


def test_who_reports_may_change_the_time_and_close() -> None:
    watched = _Watched(10)
    changes = [lambda: watched.expiry.set_timeout(5), lambda: watched.expiry.close()]
    seen: list[Batch] = []

    def note(batch: Batch) -> None:
        seen.append(batch)
        changes[len(seen) - 1]()

    watched.expiry.close()
    watched.expiry = Expiry(watched.clock, 10, note)
    watched.start(["a"])
    watched.advance(1)
    for name in ("b", "c"):
        watched.start([name])
    watched.advance(100)
    assert seen == [["a"], ["b"]]
    assert watched.timer_count == 0


def test_what_runs_is_told_with_its_age_the_oldest_first() -> None:
    watched = _Watched(100)
    watched.start(["old"])
    watched.advance(30)
    watched.start(["new"])
    watched.advance(2)
    assert watched.expiry.running() == [(["old"], 32), (["new"], 2)]
    watched.expiry.close()
    assert watched.expiry.running() == []
    watched.advance(1000)
    assert watched.expired == []


def test_threads_may_start_and_finish_while_the_event_loop_looks() -> None:
    async def scenario() -> list[Batch]:
        expired: list[Batch] = []
        expiry: Expiry[Batch] = Expiry(SystemClock(), 3600, expired.append)
        stuck = [[f"stuck {number:04}"] for number in range(1000)]
        for batch in stuck:
            expiry.started(batch, time.monotonic())

        def work() -> None:
            for number in range(10_000):
                batch = [str(number)]
                expiry.started(batch, time.monotonic())
                expiry.finished(batch)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        look_count = 0
        while any(thread.is_alive() for thread in threads) or look_count == 0:
            expiry.set_timeout(3600)
            expiry.running()
            look_count += 1
            await asyncio.sleep(0)
        assert expired == []
        assert sorted(batch for batch, _ in expiry.running()) == stuck
        expiry.set_timeout(0)
        expiry.close()
        return expired

    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        assert sorted(asyncio.run(scenario())) == [[f"stuck {number:04}"] for number in range(1000)]
    finally:
        sys.setswitchinterval(switch_s)


class _Machine(RuleBasedStateMachine):
    """Against a list of what runs: each is reported at the first moment at which it has run for long enough."""

    def __init__(self) -> None:
        super().__init__()
        self.watched = _Watched(4)
        self.timeout_s = 4.0
        self.now_s = 0.0
        self.running: list[tuple[float, Batch]] = []
        self.expected: list[tuple[Batch, float]] = []
        self.count = 0

    def _expire(self) -> None:
        for started_s, batch in list(self.running):
            if started_s + self.timeout_s <= self.now_s:
                self.running.remove((started_s, batch))
                self.expected.append((batch, self.now_s))

    @rule()
    def start(self) -> None:
        self.count += 1
        batch = [str(self.count)]
        self.watched.start(batch)
        self.running.append((self.now_s, batch))

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        if self.running:
            row = data.draw(st.sampled_from(self.running))
            self.running.remove(row)
            self.watched.expiry.finished(row[1])

    @rule(quarters=st.integers(1, 20))
    def wait(self, quarters: int) -> None:
        for _ in range(quarters):
            self.watched.advance(0.25)
            self.now_s += 0.25
            self._expire()

    @rule(quarters=st.integers(1, 30))
    def change(self, quarters: int) -> None:
        self.timeout_s = quarters / 4
        self.watched.expiry.set_timeout(self.timeout_s)
        self._expire()

    @invariant()
    def equals_the_model(self) -> None:
        assert self.watched.expired == self.expected
        assert self.watched.timer_count == 1
        assert [batch for batch, _ in self.watched.expiry.running()] == [batch for _, batch in self.running]


TestAgainstTheModel = _Machine.TestCase
TestAgainstTheModel.settings = settings(max_examples=30, stateful_step_count=20)
