"""Mission 7.7 to 7.10 and section 4: what becomes of batches that succeed, fail, take too long, or find no broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from rmqctl.consumer.batch import ALL, Batch
from rmqctl.consumer.concurrent_consumption import split
from rmqctl.consumer.count_limit import CountLimit
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.model.consumption import ConsumeResult, ConsumeStatus
from rmqctl.model.group import BROADCASTING, CLUSTERING
from rmqctl.protocol.message import StoredMessage
from tests.consumer.consumer_parts import LATER, MQ, SUCCESS, Broker, Consuming, damaged_message, messages, offsets
from tests.scripted_peer import run


class _Listener:
    """Says of each batch what is planned for its first offset, SUCCESS for others; waits where it is to."""

    def __init__(self, plan: dict[int, Any] | None = None) -> None:
        self.plan = plan or {}
        self.seen: list[list[int]] = []
        # What a batch waits for before it comes back.
        self.gates: dict[int, asyncio.Event] = {}

    def hold(self, *places: int) -> None:
        for each in places:
            self.gates[each] = asyncio.Event()

    async def __call__(self, found: Sequence[StoredMessage], batch: Batch) -> Any:
        first = found[0].queue_offset
        self.seen.append(offsets(found))
        if first in self.gates:
            await self.gates[first].wait()
        answer = self.plan.get(first, SUCCESS)
        if callable(answer):
            answer = answer(batch)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def _good_up_to(index: int, answer: Any) -> Any:
    def set_index(batch: Batch) -> Any:
        batch.ack_index = index
        return answer

    return set_index


# What succeeds


async def test_7_6_the_smallest_offset_in_flight_is_the_progress() -> None:
    listener = _Listener()
    listener.hold(10, 20, 21, 23)
    consuming = Consuming(listener)
    consuming.put(10, 20, 21, 23)
    await consuming.settle()
    for place, progress in ((20, 10), (10, 21), (23, 21), (21, 24)):
        listener.gates[place].set()
        await consuming.settle()
        assert consuming.acknowledged.pop() == progress
    assert consuming.consumption.is_idle


async def test_what_succeeds_at_one_time_is_acknowledged_at_once() -> None:
    consuming = Consuming(_Listener())
    consuming.put(*range(100))
    assert not consuming.consumption.is_idle
    await consuming.settle()
    assert consuming.acknowledged[-1] == 100
    assert len(consuming.acknowledged) < 20
    assert sum(ok for _, ok, _ in consuming.watching.counts) == 100
    assert (consuming.queue.count, consuming.broker.taken) == (0, [])


async def test_how_long_batches_took_is_counted_once_also_beside_failures() -> None:
    listener = _Listener({1: LATER})
    listener.hold(0, 1)
    consuming = Consuming(listener)
    consuming.put(0, 1)
    await consuming.settle(3)
    for gate in listener.gates.values():
        gate.set()
    await consuming.settle()
    # Two batches of 3 s each, told of together.
    assert consuming.watching.spent_ms == pytest.approx(6000)
    assert sorted(consuming.watching.counts) == [("T", 0, 1), ("T", 1, 0)]


# ackIndex


def _split(status: ConsumeStatus | None, ack_index: int, *, count: int = 10, honoured: bool = True) -> tuple[int, int]:
    batch = Batch(ProcessQueue(MQ), messages(*range(count)), 0)
    batch.status, batch.ack_index = status, ack_index
    good, bad = split(batch, ack_index_on_failure=honoured)
    assert offsets([*good, *bad]) == list(range(count))
    return len(good), len(bad)


def test_7_7_the_fifth_of_ten_fails_and_the_fourth_is_the_last_good_one() -> None:
    assert _split(LATER, 3) == (4, 6)


def test_7_7_rocketmq_retries_the_whole_batch_on_failure() -> None:
    assert _split(LATER, 3, honoured=False) == (0, 10)


@pytest.mark.parametrize("honoured", [True, False])
@pytest.mark.parametrize(
    ("ack_index", "good"), [(ALL, 10), (9, 10), (10, 10), (8, 9), (3, 4), (0, 1), (-1, 0), (-7, 0)]
)
def test_7_7_with_success_what_is_after_the_index_fails(ack_index: int, good: int, honoured: bool) -> None:
    assert _split(SUCCESS, ack_index, honoured=honoured) == (good, 10 - good)


@pytest.mark.parametrize("status", [LATER, None])
@pytest.mark.parametrize("ack_index", [ALL, 10, -1])
def test_7_7_without_an_index_of_the_batch_all_of_a_failed_one_fails(
    status: ConsumeStatus | None, ack_index: int
) -> None:
    assert _split(status, ack_index) == (0, 10)


@pytest.mark.parametrize(
    ("answer", "honoured", "back", "result"),
    [
        (LATER, True, range(4, 10), ConsumeResult.FAILED),
        (LATER, False, range(10), ConsumeResult.FAILED),
        (SUCCESS, True, range(4, 10), ConsumeResult.SUCCESS),
        (SUCCESS, False, range(4, 10), ConsumeResult.SUCCESS),
        (ValueError("fifth"), True, range(4, 10), ConsumeResult.EXCEPTION),
        (ValueError("fifth"), False, range(10), ConsumeResult.EXCEPTION),
    ],
)
async def test_7_7_six_go_back_and_four_are_done(
    answer: Any, honoured: bool, back: range, result: ConsumeResult
) -> None:
    consuming = Consuming(
        _Listener({0: _good_up_to(3, answer)}), batch_size=10, ack_index_on_failure=honoured
    )  # fmt: skip
    consuming.put(*range(10))
    await consuming.settle()
    assert consuming.broker.taken == [(place, 0) for place in back]
    assert consuming.watching.counts == [("T", 10 - len(back), len(back))]
    assert consuming.watching.results == [(result, list(range(10)))]
    # Once stored again, a message counts as consumed.
    assert (consuming.acknowledged[-1], consuming.queue.count) == (10, 0)


# Labels, and what is sent back


@pytest.mark.parametrize(
    ("answer", "result"),
    [(LATER, "FAILED"), (None, "RETURNNULL"), (ValueError("x"), "EXCEPTION"), ("nonsense", "EXCEPTION")],
    ids=str,
)
async def test_7_8_what_failed_is_labelled_and_sent_back(answer: Any, result: str) -> None:
    consuming = Consuming(_Listener({1: answer}))
    consuming.put(0, 1, 2)
    await consuming.settle()
    assert consuming.watching.results == [(result, [1])]
    assert consuming.broker.taken == [(1, 0)]
    assert (consuming.acknowledged[-1], consuming.queue.count) == (3, 0)


@pytest.mark.parametrize(
    ("answer", "result"),
    [(LATER, "TIME_OUT"), (None, "RETURNNULL"), (ValueError("x"), "EXCEPTION"), (SUCCESS, None)],
    ids=str,
)
async def test_7_8_time_out_is_a_label_and_the_status_decides(answer: Any, result: str | None) -> None:
    listener = _Listener({0: answer})
    listener.hold(0)
    # Where nothing expires, a listener is waited for.
    consuming = Consuming(listener, consume_timeout_s=10, message_model=BROADCASTING)
    consuming.put(0)
    await consuming.settle(11)
    listener.gates[0].set()
    await consuming.settle()
    assert consuming.watching.results == ([] if result is None else [(result, [0])])
    assert consuming.watching.counts == [("T", 1, 0) if result is None else ("T", 0, 1)]
    assert consuming.acknowledged == [1]


@pytest.mark.parametrize(("own", "level"), [(None, 5), (-1, -1), (7, 7), (0, 0)])
async def test_the_listener_may_say_how_long_a_message_waits(own: int | None, level: int) -> None:
    def answer(batch: Batch) -> ConsumeStatus:
        if own is not None:
            batch.delay_level = own
        return LATER

    consuming = Consuming(_Listener({0: answer}), delay_level=5)
    consuming.put(0)
    await consuming.settle()
    assert consuming.broker.taken == [(0, level)]


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError(), KeyboardInterrupt()], ids=repr)
async def test_what_would_end_the_program_is_a_failure_of_one_batch(error: BaseException) -> None:
    consuming = Consuming(_Listener({0: error}), worker_count=1)
    consuming.put(0, 1)
    await consuming.settle()
    assert consuming.watching.errors == [error]
    assert (consuming.broker.taken, consuming.queue.count) == ([(0, 0)], 0)


async def test_a_nonsense_ack_index_spoils_no_other_batch() -> None:
    consuming = Consuming(_Listener({1: _good_up_to("3", SUCCESS), 2: _good_up_to("3", LATER)}))  # type: ignore[arg-type]
    consuming.put(0, 1, 2, 3)
    await consuming.settle()
    assert sorted(consuming.broker.taken) == [(1, 0), (2, 0)]
    assert (consuming.acknowledged[-1], consuming.queue.count) == (4, 0)


async def test_broadcasting_failures_are_dropped_and_told() -> None:
    consuming = Consuming(_Listener({0: LATER}), message_model=BROADCASTING)
    consuming.put(0, 1)
    await consuming.settle()
    assert (consuming.broker.asked_count, consuming.acknowledged[-1]) == (0, 2)
    assert consuming.watching.results == [(ConsumeResult.FAILED, [0])]


async def test_results_of_a_dropped_queue_are_ignored() -> None:
    listener = _Listener({0: LATER})
    listener.hold(0, 1)
    consuming = Consuming(listener)
    consuming.put(0, 1)
    await consuming.settle()
    consuming.queue.drop()
    for gate in listener.gates.values():
        gate.set()
    await consuming.settle()
    assert (consuming.acknowledged, consuming.broker.asked_count) == ([], 0)
    assert (consuming.watching.counts, consuming.consumption.is_idle) == ([], True)


async def test_a_queue_that_is_dropped_while_its_messages_go_back_commits_nothing() -> None:
    broker = Broker()
    broker.open.clear()
    consuming = Consuming(_Listener({0: LATER}), broker=broker, batch_size=3)
    consuming.put(0, 1, 2)
    await consuming.settle()
    consuming.queue.drop()
    broker.open.set()
    await consuming.settle()
    # The one that was under way, and no other.
    assert broker.taken == [(0, 0)]
    assert (consuming.acknowledged, consuming.consumption.is_idle) == ([], True)


async def test_7_9_the_batch_size_is_kept_also_when_all_workers_are_busy() -> None:
    listener = _Listener()
    listener.hold(0)
    consuming = Consuming(listener, batch_size=3, worker_count=1)
    consuming.put(*range(8))
    consuming.put(8, 9, 10, 11)
    await consuming.settle(30)
    assert listener.seen == [[0, 1, 2]]
    listener.gates[0].set()
    await consuming.settle()
    assert listener.seen == [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9, 10], [11]]


# Expired


async def test_7_10_what_takes_too_long_is_sent_back_with_level_3_and_acknowledged() -> None:
    listener = _Listener()
    listener.hold(0)
    consuming = Consuming(listener, consume_timeout_s=900, batch_size=2)
    consuming.put(0, 1, 2, 3)
    await consuming.settle(899)
    assert (consuming.broker.taken, consuming.left) == ([], [0, 2])
    await consuming.settle(2)
    assert consuming.watching.expired_offsets == [[0, 1]]
    assert consuming.broker.taken == [(0, 3), (1, 3)]
    assert (consuming.acknowledged[-1], consuming.left) == (4, [])


@pytest.mark.parametrize("answer", [LATER, None, ValueError("late"), SUCCESS], ids=str)
@pytest.mark.parametrize("is_refused", [False, True])
async def test_7_10_a_late_result_of_an_expired_message_is_never_sent_back_a_second_time(
    answer: Any, is_refused: bool
) -> None:
    listener = _Listener({0: answer})
    listener.hold(0)
    consuming = Consuming(listener, consume_timeout_s=10, broker=Broker(1 if is_refused else 0))
    consuming.put(0)
    await consuming.settle(11)
    listener.gates[0].set()
    await consuming.settle(60)
    assert consuming.broker.taken == [(0, 3)]
    assert (consuming.watching.counts, consuming.watching.results) == ([], [])
    assert (consuming.left, consuming.consumption.is_idle) == ([], True)


async def test_7_10_a_failure_while_an_expired_message_is_on_its_way_back_sends_no_second() -> None:
    broker = Broker()
    broker.open.clear()
    listener = _Listener({0: LATER})
    listener.hold(0)
    consuming = Consuming(listener, consume_timeout_s=10, broker=broker)
    consuming.put(0)
    await consuming.settle(11)
    listener.gates[0].set()
    await consuming.settle()
    broker.open.set()
    await consuming.settle()
    assert (broker.asked_count, broker.taken) == (1, [(0, 3)])


async def test_7_10_what_has_not_started_does_not_expire() -> None:
    listener = _Listener()
    listener.hold(0, 1)
    consuming = Consuming(listener, consume_timeout_s=10, worker_count=1)
    consuming.put(0, 1)
    await consuming.settle(11)
    assert (consuming.broker.taken, consuming.left) == ([(0, 3)], [1, 1])
    listener.gates[0].set()
    # Its time begins with its start, 11 s later.
    await consuming.settle(9)
    assert consuming.broker.taken == [(0, 3)]
    await consuming.settle(2)
    assert consuming.broker.taken == [(0, 3), (1, 3)]


async def test_7_10_the_time_that_a_message_may_take_can_be_changed_while_it_runs() -> None:
    listener = _Listener()
    listener.hold(0)
    consuming = Consuming(listener)
    consuming.put(0)
    await consuming.settle(60)
    consuming.consumption.expiry.set_timeout(30)
    await consuming.settle(1)
    assert consuming.broker.taken == [(0, 3)]


async def test_7_10_a_stuck_message_that_is_not_first_expires_as_well() -> None:
    listener = _Listener()
    listener.hold(0, 1)
    consuming = Consuming(listener, consume_timeout_s=10)
    consuming.put(0)
    await consuming.settle(5)
    consuming.put(1)
    listener.gates[0].set()
    await consuming.settle(4)
    assert consuming.acknowledged[-1] == 1
    await consuming.settle(7)
    assert (consuming.broker.taken, consuming.acknowledged[-1]) == ([(1, 3)], 2)


# No broker takes it


async def test_7_11_messages_go_back_one_by_one_and_those_that_were_taken_count_as_consumed() -> None:
    consuming = Consuming(_Listener({0: LATER}), broker=Broker(1), batch_size=3)
    consuming.put(0, 1, 2)
    await consuming.settle()
    assert consuming.broker.taken == [(1, 0), (2, 0)]
    assert (consuming.watching.not_taken, consuming.left) == ([[0]], [0, 1])
    # The one that is left alone is consumed again here.
    await consuming.settle(5)
    assert consuming.broker.taken == [(1, 0), (2, 0), (0, 0)]
    assert (consuming.acknowledged[-1], consuming.left) == (3, [])


async def test_7_11_what_is_done_by_the_time_it_would_be_sent_back_is_not() -> None:
    broker = Broker()
    broker.open.clear()
    consuming = Consuming(_Listener({0: LATER}), broker=broker, batch_size=3)
    found = consuming.put(0, 1, 2)
    await consuming.settle()
    consuming.queue.remove(found[1:2])
    broker.open.set()
    await consuming.settle()
    assert (broker.taken, consuming.acknowledged[-1]) == ([(0, 0), (2, 0)], 3)


async def test_a_message_that_no_broker_takes_is_consumed_again_every_5_s_and_may_succeed() -> None:
    attempts: list[int] = []

    def answer(batch: Batch) -> ConsumeStatus:
        attempts.append(batch.attempt)
        return SUCCESS if batch.attempt == 2 else LATER

    consuming = Consuming(_Listener({0: answer}), broker=Broker(None))
    consuming.put(0)
    await consuming.settle(4)
    assert (attempts, consuming.consumption.is_idle) == ([0], False)
    await consuming.settle(5)
    assert attempts == [0, 1]
    await consuming.settle(5)
    assert (attempts, consuming.acknowledged, consuming.consumption.is_idle) == ([0, 1, 2], [1], True)


async def test_the_local_retry_is_bounded_then_its_queue_is_blocked_until_a_broker_takes_it() -> None:
    listener = _Listener({0: LATER})
    consuming = Consuming(listener, broker=Broker(None), local_retry_limit=3)
    consuming.put(0, 1)
    await consuming.settle(14)
    assert (listener.seen.count([0]), consuming.queue.is_blocked) == (3, False)
    await consuming.settle(60)
    assert listener.seen.count([0]) == 4
    assert (consuming.queue.is_blocked, consuming.watching.blocked_queues) == (True, [consuming.queue])
    assert (consuming.acknowledged[-1], consuming.left) == (0, [0, 1])
    # It is tried all the while, without the listener.
    asked_count = consuming.broker.asked_count
    await consuming.settle(50)
    assert consuming.broker.asked_count == asked_count + 10
    consuming.broker.refusals = 0
    await consuming.settle(5)
    assert listener.seen.count([0]) == 4
    assert (consuming.queue.is_blocked, consuming.broker.taken) == (False, [(0, 0)])
    assert (consuming.acknowledged[-1], consuming.consumption.is_idle) == (2, True)


async def test_what_expired_and_finds_no_broker_blocks_its_queue_and_is_not_consumed_here_again() -> None:
    listener = _Listener()
    listener.hold(0)
    consuming = Consuming(listener, broker=Broker(None), consume_timeout_s=10)
    consuming.put(0)
    await consuming.settle(11)
    assert (consuming.queue.is_blocked, listener.seen) == (True, [[0]])
    await consuming.settle(30)
    assert listener.seen == [[0]]
    consuming.broker.refusals = 0
    await consuming.settle(5)
    assert (consuming.queue.is_blocked, consuming.broker.taken) == (False, [(0, 3)])


async def test_a_blocked_queue_that_is_dropped_is_let_go_of() -> None:
    consuming = Consuming(_Listener({0: LATER}), broker=Broker(None), local_retry_limit=0)
    consuming.put(0)
    await consuming.settle(1)
    assert consuming.queue.is_blocked
    consuming.queue.drop()
    asked_count = consuming.broker.asked_count
    await consuming.settle(30)
    assert (consuming.queue.is_blocked, consuming.consumption.is_idle) == (False, True)
    assert consuming.broker.asked_count == asked_count


async def test_the_level_of_the_listener_holds_for_the_first_try_and_for_those_behind_the_block() -> None:
    def dead(batch: Batch) -> ConsumeStatus:
        batch.delay_level = -1
        return LATER

    consuming = Consuming(_Listener({0: dead}), broker=Broker(3), local_retry_limit=1)
    consuming.put(0)
    await consuming.settle(60)
    assert consuming.broker.taken == [(0, -1)]


# Labels, counted


async def test_7_8_each_batch_is_counted_under_its_label() -> None:
    plan = {2: LATER, 4: None, 6: ValueError("x"), 8: _good_up_to(0, SUCCESS)}
    consuming = Consuming(_Listener(plan), batch_size=2)
    consuming.put(*range(12))
    await consuming.settle()
    assert consuming.watching.labels == {"SUCCESS": 3, "FAILED": 1, "RETURNNULL": 1, "EXCEPTION": 1}
    assert consuming.watching.late_offsets == []


@pytest.mark.parametrize("late_s", [0, 3])
@pytest.mark.parametrize(
    ("answer", "label"),
    [(SUCCESS, "TIME_OUT"), (LATER, "TIME_OUT"), (None, "RETURNNULL"), (ValueError("x"), "EXCEPTION")],
    ids=str,
)
async def test_7_8_what_comes_back_after_its_time_is_labelled_though_it_was_sent_back(
    answer: Any, label: str, late_s: float
) -> None:
    listener = _Listener({0: answer})
    listener.hold(0)
    consuming = Consuming(listener, consume_timeout_s=10)
    consuming.put(0)
    await consuming.settle(10 + late_s)
    assert (consuming.broker.taken, consuming.watching.labels) == ([(0, 3)], {})
    # The label is that of the time that it had.
    consuming.consumption.expiry.set_timeout(900)
    listener.gates[0].set()
    await consuming.settle()
    assert (consuming.watching.labels, consuming.watching.late_offsets) == ({label: 1}, [[0]])
    assert (consuming.watching.counts, consuming.broker.taken) == ([], [(0, 3)])


@pytest.mark.parametrize(("spent_s", "label"), [(9, "SUCCESS"), (10, "TIME_OUT"), (11, "TIME_OUT")])
async def test_7_8_a_slow_success_is_a_success_that_is_told_of(spent_s: float, label: str) -> None:
    listener = _Listener()
    listener.hold(0)
    consuming = Consuming(listener, consume_timeout_s=10, message_model=BROADCASTING)
    consuming.put(0)
    await consuming.settle(spent_s)
    listener.gates[0].set()
    await consuming.settle()
    assert consuming.watching.labels == {label: 1}
    assert consuming.watching.late_offsets == ([[0]] if label == "TIME_OUT" else [])
    assert (consuming.watching.counts, consuming.watching.results) == ([("T", 1, 0)], [])
    assert (consuming.acknowledged, consuming.queue.count) == ([1], 0)


# Workers that hang


@pytest.mark.parametrize("model", [CLUSTERING, BROADCASTING])
async def test_that_no_worker_is_left_is_told_once_and_when_it_is_over(model: str) -> None:
    listener = _Listener()
    listener.hold(0, 1, 2)
    consuming = Consuming(listener, consume_timeout_s=10, worker_count=2, message_model=model)
    consuming.put(0)
    await consuming.settle(5)
    consuming.put(1, 2)
    await consuming.settle(6)
    assert consuming.watching.hanging == []
    await consuming.settle(5)
    assert (consuming.watching.hanging, listener.seen) == ([2], [[0], [1]])
    await consuming.settle(3600)
    assert consuming.watching.hanging == [2]
    # A worker that hangs is one that is missing: what comes back goes on with what waits.
    listener.gates[1].set()
    await consuming.settle()
    assert (consuming.watching.hanging, listener.seen) == ([2, 0], [[0], [1], [2]])
    await consuming.settle(11)
    assert consuming.watching.hanging == [2, 0, 2]
    # The second that comes back is no news.
    for place in (2, 0):
        listener.gates[place].set()
        await consuming.settle(60)
        assert consuming.watching.hanging == [2, 0, 2, 0]


async def test_listeners_of_queues_that_went_hold_their_workers_as_well() -> None:
    listener = _Listener()
    listener.hold(0)
    consuming = Consuming(listener, consume_timeout_s=10, worker_count=1)
    consuming.put(0)
    await consuming.settle(5)
    consuming.queue.drop()
    await consuming.settle(6)
    assert (consuming.watching.hanging, consuming.broker.taken) == ([1], [])
    listener.gates[0].set()
    await consuming.settle()
    assert (consuming.watching.hanging, consuming.watching.labels) == ([1, 0], {})


async def test_threads_that_hang_are_told_of() -> None:
    loop, entered, gate = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def listener(*_: object) -> ConsumeStatus:
        loop.call_soon_threadsafe(entered.set)
        gate.wait(60)
        return SUCCESS

    consuming = Consuming(listener, consume_timeout_s=10, worker_count=1)
    consuming.put(0)
    async with asyncio.timeout(60):
        await entered.wait()
        await consuming.settle(11)
        assert consuming.watching.hanging == [1]
        gate.set()
        await consuming.watching.has_room.wait()
    assert consuming.watching.hanging == [1, 0]
    await consuming.consumption.aclose()


# What can't be read


async def test_a_message_that_fails_and_whose_properties_lie_is_given_up_and_told() -> None:
    class Reading(Broker):
        async def __call__(self, message: StoredMessage, level: int, *, broker_name: str | None = None) -> None:
            assert message.message_id  # as who sends it back must
            await super().__call__(message, level, broker_name=broker_name)

    def read(found: Sequence[StoredMessage], _: Batch) -> ConsumeStatus:
        return LATER if found[0].properties is not None else SUCCESS

    async def listener(found: Sequence[StoredMessage], batch: Batch) -> ConsumeStatus:
        return read(found, batch)

    consuming = Consuming(listener, broker=Reading())
    found = [damaged_message(0, cut=3), *messages(1)]
    consuming.queue.put(found)
    consuming.consumption.submit(consuming.queue, found)
    await consuming.settle()
    assert (consuming.watching.given_up_offsets, consuming.broker.taken) == ([0], [(1, 0)])
    assert (consuming.acknowledged[-1], consuming.queue.count, consuming.consumption.is_idle) == (2, 0, True)


# The end


async def test_once_closed_late_results_are_not_heard() -> None:
    loop, entered, gate = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def listener(*_: object) -> ConsumeStatus:
        loop.call_soon_threadsafe(entered.set)
        gate.wait(60)
        return LATER

    before = set(threading.enumerate())
    consuming = Consuming(listener, worker_count=2)
    consuming.put(0)
    async with asyncio.timeout(60):
        await entered.wait()
    await consuming.consumption.aclose()
    gate.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    await consuming.settle(60)
    # It came back, and left the group before.
    assert consuming.consumption.is_idle
    assert (consuming.broker.asked_count, consuming.watching.counts, consuming.left) == (0, [], [0, 1])


# So many and no more


@pytest.mark.parametrize(
    ("batch_size", "failing", "seen", "ok_count"),
    [
        (1, {}, [[0], [1], [2]], 3),
        (2, {}, [[0, 1], [2]], 3),
        # A failed message keeps its place, also one that takes too long.
        (1, {0: LATER, 2: None}, [[0], [1], [2]], 1),
        (2, {2: LATER}, [[0, 1], [2]], 2),
    ],
)
def test_no_more_than_the_limit_is_consumed(
    batch_size: int, failing: dict[int, Any], seen: list[list[int]], ok_count: int
) -> None:
    async def go() -> None:
        reached: list[None] = []
        limit = CountLimit(3, lambda: reached.append(None))
        listener = _Listener(failing)
        consuming = Consuming(listener, limit=limit, batch_size=batch_size, worker_count=4)
        consuming.put(*range(8))
        await consuming.settle(1)
        assert (sorted(listener.seen), len(reached)) == (seen, ok_count == 3)
        assert sum(each for _, each, _ in consuming.watching.counts) == ok_count
        assert len(consuming.broker.taken) == len(failing)
        # What is left over when it is reached is no longer waited for, nor acknowledged.
        assert consuming.consumption.is_idle == limit.is_reached
        # The next try of a failed message takes its place.
        retry = ProcessQueue(MQ._replace(topic="%RETRY%G"))
        again = messages(*range(100, 100 + len(failing)))
        retry.put(again)
        consuming.consumption.submit(retry, again)
        await consuming.settle(1)
        assert (limit.is_reached, len(reached)) == (True, 1)
        assert len(listener.seen) == len(seen) + (len(failing) if batch_size == 1 else bool(failing))
        await consuming.consumption.aclose()

    run(go())


def test_what_is_lost_to_another_member_frees_its_place() -> None:
    async def go() -> None:
        limit = CountLimit(1, lambda: None)
        listener = _Listener()
        listener.hold(0)
        consuming = Consuming(listener, limit=limit)
        consuming.put(0)
        await consuming.settle(1)
        consuming.queue.drop()
        other = ProcessQueue(MQ._replace(queue_id=1))
        found = messages(7)
        other.put(found)
        consuming.consumption.submit(other, found)
        await consuming.settle(1)
        assert listener.seen == [[0]]
        listener.gates[0].set()
        await consuming.settle(1)
        assert (listener.seen, limit.is_reached) == ([[0], [7]], True)
        await consuming.consumption.aclose()

    run(go())
