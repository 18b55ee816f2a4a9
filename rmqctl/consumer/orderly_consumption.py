"""Orderly consumption: the batches of a queue one after the other, in the order of their offsets.

(ConsumeMessageOrderlyService.) A batch that fails is consumed again after a pause, before anything behind it. A message
that failed too often becomes a dead letter; while no broker accepts it as one, its queue waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Unpack

from rmqctl.errors import RmqctlError
from rmqctl.model.consumption import ConsumeOrderlyStatus, ConsumeResult
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import Clock
from rmqctl.protocol.message import StoredMessage

from .batch import Admission, AnyListener, Batch, OrderlyBatch, result_of
from .consumption import Consumption, ConsumptionNeeds
from .expiry import RunningBatch
from .orderly_line import OrderlyLine, QueueLine
from .process_queue import ProcessQueue
from .settings import ConsumerSettings
from .workers import make_workers, name_of_workers

# Makes a broker store a message as a dead letter at once (AbstractSendMessageProcessor.consumerSendMsgBack).
_DEAD_LETTER_LEVEL = -1

# ConsumeMessageOrderlyService.submitConsumeRequestLater.
_LEAST_SUSPEND_MS, _MOST_SUSPEND_MS = 10, 30_000
# After this time, a worker leaves a queue for the next one (MAX_TIME_CONSUME_CONTINUOUSLY).
TURN_S = 60.0
# A timer may fire this much early.
_CLOCK_STEP_S = 0.001
_FAILED = frozenset({None, ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT})


class OrderlyConsumption(Consumption):
    """Passes the messages of each queue to the listener in order. See Consumption.

    A queue is not consumed while its lock does not count, and no two batches of one queue run at the same time, even if
    the queue was given up and taken again meanwhile.
    """

    def __init__(
        self, settings: ConsumerSettings, listener: AnyListener, clock: Clock, **needs: Unpack[ConsumptionNeeds]
    ) -> None:
        super().__init__(settings, clock, needs)
        self._lines: dict[MessageQueue, OrderlyLine] = {}
        # The line of each queue that a worker has, or that is about to be settled.
        self._busy: dict[MessageQueue, OrderlyLine] = {}
        # Lines that a worker gave up, because something held them back. Workers append.
        self._held_back: deque[OrderlyLine] = deque()
        self._started: dict[MessageQueue, tuple[float, OrderlyBatch]] = {}
        self._workers = make_workers(
            listener, settings.worker_count, clock, name=name_of_workers(settings.group),
            on_done=self._settle_all, admit=self._admit, on_end=self._ended, follow=self._follow,
        )  # fmt: skip

    def submit(self, process_queue: ProcessQueue, messages: Sequence[StoredMessage]) -> None:
        """Have messages of a process queue consumed, after those that it has already."""
        if process_queue.dropped:
            return
        line = self._lines.get(process_queue.mq)
        if line is None or line.process_queue is not process_queue:
            line = self._lines[process_queue.mq] = OrderlyLine(process_queue)
        line.waiting.extend(messages)
        self._start(line)

    @property
    def is_idle(self) -> bool:
        """Whether no batch runs and none would start now. A queue that waits after a failure is idle."""
        if self._busy or self._running:
            return False
        now_s = self._clock.monotonic_s()
        return not any(
            line.unproven or (self._has_work(line) and line.resumes_at_s <= now_s) for line in self._lines.values()
        )

    def _has_work(self, line: OrderlyLine) -> bool:
        queue = line.process_queue
        return bool(line.waiting) and not (queue.dropped or queue.is_leaving)

    def running(self) -> list[RunningBatch[Batch]]:
        """Return the running batches, the oldest first. Any thread may call it."""
        now_s = self._clock.monotonic_s()
        found = dict(self._started)
        # What fails again and again has been in work since its first try.
        found |= {
            line.process_queue.mq: line.failing for line in list(self._lines.values()) if line.failing is not None
        }
        batches = [RunningBatch[Batch](batch, now_s - started_s) for started_s, batch in found.values()]
        return sorted(batches, key=lambda each: -each.age_s)

    def set_timeout(self, seconds: float) -> None:
        """Do nothing: a batch may take any time, as in Java."""

    def line(self, mq: MessageQueue) -> QueueLine:
        """Return how far a queue is."""
        line, started = self._lines.get(mq), self._started.get(mq)
        if line is None:
            return QueueLine([], [], [])
        # A batch from before the queue was taken again is not of this line.
        is_own = started is not None and started[1].process_queue is line.process_queue
        return line.view(started[1] if started is not None and is_own else None)

    def release(self) -> None:
        """Have queues consumed that were held back, where nothing holds them back any more."""
        if self._is_closed:
            return
        for _ in range(len(self._held_back)):
            self._busy.pop(self._held_back.popleft().process_queue.mq, None)
        for line in list(self._lines.values()):
            if line.process_queue.dropped:
                del self._lines[line.process_queue.mq]
                continue
            self._prove(line)
            self._start(line)

    # In the event loop: start a queue's turn

    def _start(self, line: OrderlyLine) -> None:
        """Have a worker consume a queue until nothing is left of it, unless one does."""
        queue, now_s = line.process_queue, self._clock.monotonic_s()
        if queue.mq in self._busy or not self._has_work(line) or self._is_held_back(queue, now_s):
            return
        if line.resumes_at_s > now_s or line.unproven or self._is_closed:
            return
        batch = line.draw(self._settings.batch_size)
        if self._limit is not None and not self._limit.has_room_for(batch):
            line.put_back(batch.stored)
            return
        self._busy[queue.mq] = line
        line.taken_s = now_s
        self._workers.submit([batch])

    def _is_held_back(self, queue: ProcessQueue, now_s: float) -> bool:
        return queue.is_paused or self._is_stalled(now_s) or not _is_ours(queue, now_s)

    # In a worker

    def _admit(self, batch: Batch, now_s: float) -> Admission:
        """Decide whether a worker starts a batch; one that is held back returns to its line."""
        assert isinstance(batch, OrderlyBatch)  # noqa: S101
        queue = batch.process_queue
        line = self._busy[queue.mq]
        # Before the look at the flags: a queue that is given up waits for the batches that it has in work.
        queue.in_work.add(batch)
        admission = self._judge(batch, line, now_s)
        if admission is Admission.START:
            self._started[queue.mq] = (now_s, batch)
            return admission
        queue.in_work.discard(batch)
        batch.is_turn_over = True
        if admission is Admission.LATER:
            line.put_back(batch.stored)
            self._held_back.append(line)
        else:
            batch.is_left_alone = True
        return admission

    def _judge(self, batch: OrderlyBatch, line: OrderlyLine, now_s: float) -> Admission:
        queue = batch.process_queue
        if queue.dropped or queue.is_leaving:
            return Admission.LEAVE
        if self._is_held_back(queue, now_s):
            return Admission.LATER
        if self._limit is None:
            return Admission.START
        admission, rest = self._limit.admit(batch)
        if rest is not None:
            count = len(batch.messages)
            line.put_back(batch.stored[count:])
            batch.stored = batch.stored[:count]
        return admission

    def _ended(self, batch: Batch) -> None:
        self._started.pop(batch.mq, None)

    def _follow(self, batch: Batch) -> Batch | None:
        """Return the next batch of the same queue, None to leave it to the event loop."""
        assert isinstance(batch, OrderlyBatch)  # noqa: S101
        line = self._busy[batch.mq]
        if batch.is_left_alone:
            line.process_queue.is_leaving = True  # nothing behind it may be consumed
        is_good = _is_committed(batch) or batch.status is ConsumeOrderlyStatus.SUCCESS
        if not is_good or not line.waiting or batch.finished_s - line.taken_s >= TURN_S:
            batch.is_turn_over = True
            return None
        return line.draw(self._settings.batch_size)

    # In the event loop: what became of batches

    def _settle(self, batches: Sequence[Batch]) -> None:
        if self._is_closed:
            return
        ended: list[OrderlyLine] = []
        touched: dict[OrderlyLine, None] = {}
        for batch in batches:
            assert isinstance(batch, OrderlyBatch)  # noqa: S101
            queue = batch.process_queue
            line = self._busy[queue.mq]
            if self._limit is not None:
                self._limit.ended(batch)
            if not (queue.dropped or batch.is_left_alone):
                line.unproven.append(batch)
                touched[line] = None
            queue.in_work.discard(batch)
            if batch.is_turn_over:
                del self._busy[queue.mq]
                ended.append(line)
        for line in touched:
            self._prove(line)
        for line in ended:
            following = self._lines.get(line.process_queue.mq)
            if following is not None:
                self._start(following)
        if self._limit is not None:
            self.release()

    def _prove(self, line: OrderlyLine) -> None:
        """Have the results of batches count, if the lock of their queue still counts, or counts again."""
        queue = line.process_queue
        if not line.unproven or not _is_ours(queue, self._clock.monotonic_s()):
            return
        batches, line.unproven = line.unproven, []
        queue.last_consume_at_ms = self._clock.now_ms()
        # Successes that follow one another count as one.
        done: list[StoredMessage] = []
        good_count, spent_s = 0, 0.0
        for batch in batches:
            if _is_committed(batch):
                done += batch.stored
                good_count += 1
                spent_s += batch.finished_s - batch.started_s
            else:
                self._commit(line, done, good_count, spent_s)
                done, good_count, spent_s = [], 0, 0.0
                self._settle_one(batch, line)
        self._commit(line, done, good_count, spent_s)

    def _commit(self, line: OrderlyLine, done: list[StoredMessage], batch_count: int, spent_s: float) -> None:
        """Acknowledge the messages of successful batches, and those that waited for them; nothing for no batch."""
        if not batch_count:
            return
        queue, done = line.process_queue, [*line.uncommitted, *done]
        line.uncommitted = []
        self._watcher.came_back(ConsumeResult.SUCCESS, batch_count)
        self._watcher.consumed(queue.mq.topic, len(done), 0, spent_s * 1000, batch_count)
        line.forget_tries(done)
        self._succeed(queue, done)

    def _settle_one(self, batch: OrderlyBatch, line: OrderlyLine) -> None:
        """Handle a batch that is not acknowledged."""
        is_failed = batch.status in _FAILED
        self._watcher.came_back(result_of(batch), 1)
        spent_ms = (batch.finished_s - batch.started_s) * 1000
        self._watcher.consumed(batch.mq.topic, 0, len(batch.stored) if is_failed else 0, spent_ms, 1)
        if is_failed:
            self._fail(batch, line)
        elif batch.status is ConsumeOrderlyStatus.ROLLBACK:
            back, line.uncommitted = [*line.uncommitted, *batch.stored], []
            self._suspend(line, back, batch.suspend_ms)
        else:
            line.uncommitted += batch.stored

    def _fail(self, batch: OrderlyBatch, line: OrderlyLine) -> None:
        """Have a batch consumed again after a pause, without the messages that become dead letters."""
        limit = self._settings.retry_count_limit
        dead = [
            stored for stored, shown in zip(batch.stored, batch.messages, strict=True) if shown.reconsume_times >= limit
        ]
        if self._limit is not None:
            self._limit.failed(len(batch.stored))
        for message in batch.stored:
            line.tries[message] = line.tries.get(message, 0) + 1
        line.failing = line.failing or (batch.started_s, batch)
        self._watcher.suspended(batch, result_of(batch), dead_count=len(dead), pause_s=self._pause_s(batch.suspend_ms))
        if not dead:
            self._suspend(line, batch.stored, batch.suspend_ms)
            return
        # The queue waits meanwhile: its turn is over, and nothing else starts it.
        line.resumes_at_s = inf
        self._work_on(batch.process_queue, partial(self._bury, batch, line, dead), "making dead letters")

    async def _bury(self, batch: OrderlyBatch, line: OrderlyLine, dead: Sequence[StoredMessage]) -> None:
        """Make dead letters of messages. What no broker accepts is consumed again, with the rest of the batch."""
        queue = line.process_queue
        error: RmqctlError | None = None
        for message in dead:
            if queue.dropped or not queue.has(message):
                continue
            try:
                await self._send_back(message, _DEAD_LETTER_LEVEL, broker_name=queue.mq.broker_name)
            except RmqctlError as failure:
                error = failure
            else:
                self._watcher.sent_back(queue.mq, message, _DEAD_LETTER_LEVEL)
                line.forget_tries([message])
                self._remove(queue, [message])
        if queue.dropped:
            return
        rest = [message for message in batch.stored if queue.has(message)]
        if error is not None:
            if not line.is_blocked:
                queue.block()
            self._watcher.not_buried(queue, error)
        elif line.is_blocked:
            queue.unblock()
            self._watcher.unblocked(queue)
        line.is_blocked = error is not None
        self._suspend(line, rest, batch.suspend_ms if rest else 0)

    def _suspend(self, line: OrderlyLine, back: Sequence[StoredMessage], suspend_ms: int) -> None:
        """Put messages back, and continue with them after a pause; with none, at once."""
        line.put_back(back)
        pause_s = self._pause_s(suspend_ms) if back else 0.0
        line.resumes_at_s = self._clock.monotonic_s() + pause_s
        self._clock.call_later(pause_s, partial(self._resume, line))

    def _resume(self, line: OrderlyLine) -> None:
        # Another pause may have begun meanwhile.
        is_over = line.resumes_at_s - self._clock.monotonic_s() < _CLOCK_STEP_S
        if is_over and self._lines.get(line.process_queue.mq) is line:
            line.resumes_at_s = 0.0
            self._start(line)

    def _pause_s(self, suspend_ms: int) -> float:
        if suspend_ms < 0:
            return self._settings.suspend_s
        return min(max(suspend_ms, _LEAST_SUSPEND_MS), _MOST_SUSPEND_MS) / 1000


def _is_committed(batch: OrderlyBatch) -> bool:
    """Return whether a batch's messages are acknowledged; with auto_commit, ROLLBACK is a success, as in Java."""
    return batch.status not in _FAILED if batch.auto_commit else batch.status is ConsumeOrderlyStatus.COMMIT


def _is_ours(queue: ProcessQueue, now_s: float) -> bool:
    """Return whether no other member can have consumed a queue meanwhile."""
    return queue.is_locked(now_s) and not queue.is_on_hold
