"""What a queue has in flight, and up to where it is done."""

from __future__ import annotations

import asyncio
import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rmqctl.consumer.process_queue import DuplicateRisk, ProcessQueue
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.flow_control import FlowControl, FlowLimits, decide
from tests.consumer.stored_messages import stored, stored_at

_MQ = MessageQueue("T", "broker-a", 0)


def _queue(*offsets: int) -> tuple[ProcessQueue, dict[int, StoredMessage]]:
    queue, messages = ProcessQueue(_MQ), stored_at(offsets)
    queue.put(messages)
    return queue, dict(zip(offsets, messages, strict=True))


def _hold(queue: ProcessQueue) -> FlowControl | None:
    return decide(
        FlowLimits(), held_queue_count=1, count=queue.count, size_bytes=queue.size_bytes, span=queue.span,
        is_blocked=queue.is_blocked,
    )  # fmt: skip


def test_7_6_progress_is_the_smallest_offset_in_flight() -> None:
    queue, at = _queue(10, 20, 21, 23)
    assert queue.remove([at[20]]) == 10
    assert queue.duplicate_risk() == (20, 21, 1)
    assert queue.remove([at[10]]) == 21
    assert queue.duplicate_risk() == (21, 21, 0)
    assert queue.remove([at[23], at[21]]) == 24


def test_7_6_one_stuck_message_holds_the_queue_and_a_crash_repeats_what_is_behind_it() -> None:
    queue, at = _queue(*range(2101, 2201))
    behind = [at[offset] for offset in range(2102, 2201)]
    random.Random(1).shuffle(behind)
    for message in behind:
        assert queue.remove([message]) == 2101
    assert queue.duplicate_risk() == DuplicateRisk(first_offset=2102, end_offset=2201, done_count=99)
    assert queue.remove([at[2101]]) == 2201
    assert queue.duplicate_risk() == (2201, 2201, 0)


def test_7_6_the_span_stops_pulling_and_does_not_free_a_stuck_head() -> None:
    queue, at = _queue(*range(2002))
    assert _hold(queue) is FlowControl.QUEUE_COUNT
    queue.remove([at[offset] for offset in range(1, 2002)])
    # What is done is not in the span: a pull is let through, and then no other until that is done, too.
    assert (queue.span, _hold(queue)) == (0, None)
    later = stored_at([2002])
    queue.put(later)
    assert (queue.span, _hold(queue), queue.remove([])) == (2002, FlowControl.SPAN, 0)
    assert queue.remove(later) == 0
    assert (queue.span, queue.duplicate_risk()) == (0, (1, 2003, 2002))


def test_7_10_an_expired_message_is_acknowledged_wherever_it_stands_and_its_late_failure_is_not_listened_to() -> None:
    queue, at = _queue(5, 6, 7)
    # RocketMQ would have to wait until 6 is the head.
    assert queue.remove([at[6]]) == 5
    assert not queue.has(at[6])
    assert queue.remove([at[5]]) == 7
    # The listener comes back late: nothing is there to be sent back or removed a second time.
    assert queue.remove([at[6]]) == 7
    assert (queue.count, queue.size_bytes) == (1, 1)


def test_nothing_is_committed_before_anything_was_put() -> None:
    queue = ProcessQueue(_MQ, now_ms=7)
    assert queue.remove([]) is None
    assert queue.remove(stored_at([1])) is None
    assert (queue.count, queue.size_bytes, queue.span) == (0, 0, 0)
    assert (queue.first_offset, queue.last_offset, queue.max_offset_put) == (None, None, None)
    assert (queue.last_pull_at_ms, queue.last_consume_at_ms) == (7, 7)
    assert queue.duplicate_risk() == (0, 0, 0)
    queue.put([])
    assert queue.remove([]) is None


def test_the_size_is_that_of_stored_bodies() -> None:
    queue = ProcessQueue(_MQ)
    small, large, empty = stored(1, b"abc"), stored(2, b"x" * 1000), stored(3, b"")
    queue.put([small, large, empty])
    assert queue.size_bytes == 1003
    queue.remove([large, empty])
    assert (queue.size_bytes, queue.count) == (3, 1)


def test_a_queue_that_was_dropped_has_nothing_and_commits_nothing() -> None:
    queue, at = _queue(1, 2, 3)
    queue.remove([at[1]])
    queue.drop()
    assert queue.dropped
    assert not queue.has(at[2])
    assert queue.remove([at[2]]) is None
    queue.put(stored_at([9]))
    assert (queue.count, queue.size_bytes, queue.first_offset, queue.last_offset) == (0, 0, None, None)


def test_an_offset_that_comes_again_is_waited_for_though_the_first_one_is_done() -> None:
    queue, at = _queue(5, 6)
    again = stored_at([6, 7])
    queue.put(again)
    assert (queue.count, queue.first_offset, queue.last_offset) == (4, 5, 7)
    assert queue.remove([at[5], at[6]]) == 6
    assert queue.remove([again[0]]) == 7
    assert queue.remove([again[1]]) == 8


def test_after_going_back_the_smaller_offset_is_the_progress() -> None:
    queue, at = _queue(100, 101)
    assert queue.remove([at[100], at[101]]) == 102
    back = stored_at([50, 51])
    queue.put(back)
    assert (queue.first_offset, queue.max_offset_put) == (50, 101)
    assert queue.remove([back[0]]) == 51


def test_what_comes_out_of_order_is_put_in_order() -> None:
    queue = ProcessQueue(_MQ)
    messages = stored_at([7, 3, 5])
    queue.put(messages)
    assert (queue.first_offset, queue.last_offset, queue.span, queue.max_offset_put) == (3, 7, 4, 7)
    assert queue.remove([messages[1]]) == 5


def test_what_is_done_behind_a_stuck_message_is_let_go() -> None:
    queue, at = _queue(0)
    for offset in range(1, 5000):
        messages = stored_at([offset])
        queue.put(messages)
        assert queue.remove(messages) == 0
    assert len(queue._lists) < 200
    assert queue.duplicate_risk() == (1, 5000, 4999)
    later = stored_at(range(5000, 5010))
    queue.put(later)
    assert queue.remove([at[0]]) == 5000
    assert queue.duplicate_risk() == (5000, 5000, 0)
    assert queue.remove(later) == 5010


def test_who_waits_for_room_is_woken_by_what_is_taken_out_and_not_by_what_was_before() -> None:
    async def scenario() -> list[str]:
        queue, at = _queue(1, 2, 3)
        woken: list[str] = []

        async def wait(name: str) -> None:
            await queue.room.wait()
            woken.append(name)

        queue.remove([at[1]])
        first = asyncio.ensure_future(wait("removed"))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not woken
        queue.remove([at[2]])
        await first
        for name, change in (("unblocked", queue.unblock), ("dropped", queue.drop)):
            queue.block()
            task = asyncio.ensure_future(wait(name))
            await asyncio.sleep(0)
            change()
            await task
        return woken

    assert asyncio.run(scenario()) == ["removed", "unblocked", "dropped"]


def test_a_queue_is_blocked_until_all_that_blocked_it_are_gone() -> None:
    queue, _ = _queue(1)
    assert not queue.is_blocked
    queue.block()
    queue.block()
    queue.unblock()
    assert (queue.is_blocked, _hold(queue)) == (True, FlowControl.BLOCKED)
    queue.unblock()
    assert not queue.is_blocked


class _Machine(RuleBasedStateMachine):
    """Against a list of all that was put since offsets last came again, each with whether it is done."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = ProcessQueue(_MQ)
        self.known: list[tuple[StoredMessage, bool]] = []
        self.largest: int | None = None

    @property
    def live(self) -> list[StoredMessage]:
        return [message for message, is_done in self.known if not is_done]

    def _put(self, offsets: list[int], body: bytes) -> None:
        messages = [stored(offset, body) for offset in offsets]
        self.queue.put(messages)
        if offsets != sorted(offsets) or (self.largest is not None and offsets[0] <= self.largest):
            ordered = sorted([*self.live, *messages], key=lambda message: message.queue_offset)
            self.known = [(message, False) for message in ordered]
        else:
            self.known += [(message, False) for message in messages]
        self.largest = max(offsets if self.largest is None else [self.largest, *offsets])
        assert len(self.queue._lists) <= 2 * len(self.live) + 64

    def _finish(self, messages: list[StoredMessage]) -> None:
        offset = self.queue.remove(messages)
        done = {id(message) for message in messages}
        self.known = [(message, is_done or id(message) in done) for message, is_done in self.known]
        live = self.live
        expected = None if self.largest is None else self.largest + 1
        assert offset == (live[0].queue_offset if live else expected)

    @rule(gaps=st.lists(st.integers(1, 3), min_size=1, max_size=8), body=st.binary(max_size=3))
    def pull(self, gaps: list[int], body: bytes) -> None:
        at = -1 if self.largest is None else self.largest
        self._put([at + sum(gaps[: number + 1]) for number in range(len(gaps))], body)

    @rule(count=st.integers(1, 120))
    def pull_and_finish_one_by_one(self, count: int) -> None:
        for _ in range(count):
            self._put([0 if self.largest is None else self.largest + 1], b"x")
            self._finish([self.known[-1][0]])

    @precondition(lambda self: self.largest is not None)
    @rule(back=st.integers(0, 20), count=st.integers(1, 5))
    def go_back(self, back: int, count: int) -> None:
        assert self.largest is not None
        first = max(0, self.largest - back)
        self._put(list(range(first, first + count)), b"again")

    @rule(offsets=st.lists(st.integers(0, 50), min_size=1, max_size=4))
    def put_anything(self, offsets: list[int]) -> None:
        self._put(offsets, b"?")

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def finish_some(self, data: st.DataObject) -> None:
        known = [message for message, _ in self.known]
        self._finish(data.draw(st.lists(st.sampled_from(known), max_size=10)))

    @rule()
    def finish_the_first(self) -> None:
        self._finish(self.live[:1])

    @rule()
    def finish_all_but_the_first(self) -> None:
        self._finish(self.live[1:])

    @rule()
    def finish_all(self) -> None:
        self._finish(self.live)

    @rule()
    def drop(self) -> None:
        self.queue.drop()
        assert self.queue.remove(self.live) is None
        assert (self.queue.count, self.queue.size_bytes) == (0, 0)
        self.__init__()  # type: ignore[misc]

    @invariant()
    def equals_the_model(self) -> None:
        live = self.live
        offsets = [message.queue_offset for message in live]
        queue = self.queue
        assert queue.count == len(live)
        assert queue.size_bytes == sum(len(message.body) for message in live)
        assert (queue.first_offset, queue.last_offset) == ((offsets[0], offsets[-1]) if offsets else (None, None))
        assert queue.span == (offsets[-1] - offsets[0] if offsets else 0)
        assert queue.max_offset_put == self.largest
        assert all(queue.has(message) is not is_done for message, is_done in self.known[-50:])
        self.risk_equals_the_model(live)

    def risk_equals_the_model(self, live: list[StoredMessage]) -> None:
        if not live:
            expected = 0 if self.largest is None else self.largest + 1
            assert self.queue.duplicate_risk() == (expected, expected, 0)
            return
        at = next(number for number, (_, is_done) in enumerate(self.known) if not is_done)
        done = [message.queue_offset for message, is_done in self.known[at:] if is_done]
        first = live[0].queue_offset
        assert self.queue.duplicate_risk() == ((done[0], done[-1] + 1, len(done)) if done else (first, first, 0))


TestAgainstTheModel = _Machine.TestCase
TestAgainstTheModel.settings = settings(max_examples=40, stateful_step_count=25)
