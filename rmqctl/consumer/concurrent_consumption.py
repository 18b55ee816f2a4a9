"""Concurrent consumption: handle the result of each batch, and the messages that failed.

(ConsumeMessageConcurrentlyService.) Successful messages are acknowledged in bulk, queue by queue. Failed messages are
sent back to their broker. Where that fails, they are retried locally, a limited number of times. After that, their
queue accepts no new messages until a broker accepts the failed ones.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Unpack

from rmqctl.errors import RmqctlError
from rmqctl.model.consumption import ConsumeResult, ConsumeStatus
from rmqctl.model.group import BROADCASTING
from rmqctl.net.clock import Clock, pause
from rmqctl.protocol.message import StoredMessage

from .batch import Admission, AnyListener, Batch, result_of
from .consumption import Consumption, ConsumptionNeeds
from .expiry import Expiry, RunningBatch
from .process_queue import ProcessQueue
from .settings import ConsumerSettings
from .workers import make_workers, name_of_workers

# RocketMQ sends expired messages back with this level (ProcessQueue.cleanExpiredMsg).
EXPIRED_LEVEL = 3
# The number of failed batches that are sent back concurrently; each is sent message by message.
_SENT_BACK_AT_ONCE = 32
_SURE_LOOK_S = 0.1


class _Sum:
    """The successful messages of one queue."""

    __slots__ = ("batch_count", "messages", "spent_s")

    def __init__(self) -> None:
        self.messages: list[StoredMessage] = []
        self.spent_s = 0.0
        self.batch_count = 0


class ConcurrentConsumption(Consumption):
    """Passes messages to the listener as they come, many batches of a queue at a time. See Consumption."""

    def __init__(
        self, settings: ConsumerSettings, listener: AnyListener, clock: Clock, **needs: Unpack[ConsumptionNeeds]
    ) -> None:
        super().__init__(settings, clock, needs)
        # Batches that workers did not start yet, and those that were cut off others. Workers append to them.
        self._kept: deque[Batch] = deque()
        self._cut: deque[Batch] = deque()
        self._open_count = 0
        # Batches that are overdue, each of which has a worker.
        self._overdue_count = 0
        self._gate = asyncio.Semaphore(_SENT_BACK_AT_ONCE)
        self.expiry = Expiry(clock, settings.consume_timeout_s, self._expire)
        self._workers = make_workers(
            listener, settings.worker_count, clock, name=name_of_workers(settings.group),
            on_done=self._settle_all, admit=self._admit, on_end=self.expiry.finished,
        )  # fmt: skip

    def submit(self, process_queue: ProcessQueue, messages: Sequence[StoredMessage]) -> None:
        """Have messages of a process queue consumed, in batches of the configured size."""
        size, level = self._settings.batch_size, self._settings.delay_level
        if size == 1:
            batches = [Batch(process_queue, [message], level) for message in messages]
        else:
            batches = [Batch(process_queue, messages[at : at + size], level) for at in range(0, len(messages), size)]
        self._open_count += len(batches)
        self._workers.submit(batches)

    def running(self) -> list[RunningBatch[Batch]]:
        """Return the running batches, the oldest first. Any thread may call it."""
        return self.expiry.running()

    def set_timeout(self, seconds: float) -> None:
        """Change the time limit of batches, including running ones."""
        self.expiry.set_timeout(seconds)

    @property
    def is_idle(self) -> bool:
        """Whether no message is being consumed, waiting to be, or being sent back."""
        return self._open_count == 0 and not self._running

    async def aclose(self) -> None:
        """See Consumption."""
        self.expiry.close()
        await super().aclose()

    def _admit(self, batch: Batch, now_s: float) -> Admission:
        """Decide whether a worker starts a batch."""
        admission = self._judge(batch, now_s)
        if admission is not Admission.START:
            return admission
        process_queue = batch.process_queue
        process_queue.in_work.add(batch)
        # A queue that was given up since the first look may not have waited for this batch.
        if process_queue.is_leaving:
            process_queue.in_work.discard(batch)
            batch.is_left_alone = True
            return Admission.LEAVE
        self.expiry.started(batch, now_s)
        return admission

    def _judge(self, batch: Batch, now_s: float) -> Admission:
        process_queue = batch.process_queue
        if process_queue.dropped or process_queue.is_leaving:
            batch.is_left_alone = True
            return Admission.LEAVE
        if process_queue.is_on_hold or process_queue.is_paused or self._is_stalled(now_s):
            self._kept.append(batch)
            return Admission.LATER
        if self._limit is not None:
            admission, rest = self._limit.admit(batch)
            if rest is not None:
                self._cut.append(rest)
            if admission is Admission.LATER:
                self._kept.append(batch)
            if admission is not Admission.START:
                batch.is_left_alone = admission is Admission.LEAVE
                return admission
        return Admission.START

    def release(self) -> None:
        """Have batches consumed that were kept, where nothing holds them back any more."""
        if not (self._kept or self._cut) or self._is_closed:
            return
        self._open_count += len(self._cut)
        batches: list[Batch] = []
        for waiting in (self._kept, self._cut):
            batches += [waiting.popleft() for _ in range(len(waiting))]
        free: list[Batch] = []
        for batch in batches:
            (free if self._is_free(batch) else self._kept).append(batch)
        self._workers.submit(free)

    def _is_free(self, batch: Batch) -> bool:
        """Return whether a kept batch would not be kept again."""
        process_queue = batch.process_queue
        if process_queue.dropped or process_queue.is_leaving:
            return True  # it settles, unconsumed
        is_held = process_queue.is_on_hold or process_queue.is_paused
        return not is_held and (self._limit is None or self._limit.has_room_for(batch))

    def _settle(self, batches: list[Batch]) -> None:
        """Acknowledge successful batches in bulk, and handle the others one by one."""
        done: dict[ProcessQueue, _Sum] = {}
        # Expired batches are no longer waited for.
        self._open_count -= len(batches) - sum([batch.is_expired for batch in batches])
        if self._is_closed:
            return
        if self._limit is not None:
            for batch in batches:
                self._limit.ended(batch)
        if self._overdue_count:
            self._count_returned(batches)
        now_ms, timeout_s, success = self._clock.now_ms(), self.expiry.timeout_s, ConsumeStatus.CONSUME_SUCCESS
        for batch in batches:
            process_queue = batch.process_queue
            process_queue.in_work.discard(batch)
            if process_queue.dropped or batch.is_left_alone:
                continue
            if batch.is_expired:
                # Only its label counts: its messages have been sent back.
                self._watcher.came_back(_result(batch, timeout_s), 1)
                self._watcher.came_late(batch)
                continue
            spent_s = batch.finished_s - batch.started_s
            is_whole = batch.status is success and batch.ack_index >= len(batch.messages) - 1
            if is_whole and spent_s < timeout_s:
                found = done.get(process_queue)
                if found is None:
                    found = done[process_queue] = _Sum()
                found.messages += batch.messages
                found.spent_s += spent_s
                found.batch_count += 1
            else:
                self._settle_one(batch, _result(batch, timeout_s))
        for process_queue, found in done.items():
            process_queue.last_consume_at_ms = now_ms
            topic, count = process_queue.mq.topic, len(found.messages)
            self._watcher.consumed(topic, count, 0, found.spent_s * 1000, found.batch_count)
            self._watcher.came_back(ConsumeResult.SUCCESS, found.batch_count)
            self._succeed(process_queue, found.messages)
        if self._limit is not None:
            self.release()

    def _settle_one(self, batch: Batch, result: ConsumeResult) -> None:
        good, bad = split(batch, ack_index_on_failure=self._settings.ack_index_on_failure)
        batch.process_queue.last_consume_at_ms = self._clock.now_ms()
        spent_ms = (batch.finished_s - batch.started_s) * 1000
        self._watcher.consumed(batch.mq.topic, len(good), len(bad), spent_ms, 1)
        self._watcher.came_back(result, 1)
        if bad:
            self._watcher.failed(batch, bad, result)
        elif result is ConsumeResult.TIME_OUT:
            self._watcher.came_late(batch)
        if good:
            self._succeed(batch.process_queue, good)
        if not bad:
            return
        if self._settings.message_model == BROADCASTING:
            # RocketMQ drops them too: no other member would get them.
            self._remove(batch.process_queue, bad)
            return
        if self._limit is not None:
            self._limit.failed(len(bad))
        rest = Batch(batch.process_queue, bad, batch.delay_level)
        rest.attempt = batch.attempt
        self._start(rest, batch.delay_level)

    async def _give_back(self, batch: Batch, level: int) -> None:
        """Send messages back until none is left; those that no broker accepts are retried locally, then kept."""
        error = await self._send_all(batch, level)
        if error is None or batch.process_queue.dropped:
            return
        self._watcher.not_sent_back(batch, error)
        batch.attempt += 1
        if batch.attempt <= self._settings.local_retry_limit and not batch.is_expired:
            await pause(self._clock, self._settings.local_retry_s)
            if not batch.process_queue.dropped:
                again = Batch(batch.process_queue, batch.messages, self._settings.delay_level)
                again.attempt = batch.attempt
                self._open_count += 1
                self._workers.submit([again])
            return
        process_queue = batch.process_queue
        process_queue.block()
        self._watcher.blocked(process_queue, error)
        try:
            while error is not None and not process_queue.dropped:
                await pause(self._clock, self._settings.local_retry_s)
                error = await self._send_all(batch, level)
        finally:
            process_queue.unblock()
        if not (process_queue.dropped or process_queue.is_blocked):
            self._watcher.unblocked(process_queue)

    async def _send_all(self, batch: Batch, level: int) -> RmqctlError | None:
        """Send messages back one by one; accepted ones count as consumed. Return why the others were not accepted."""
        async with self._gate:
            left: list[StoredMessage] = []
            error: RmqctlError | None = None
            for message in batch.messages:
                await self._until_sure(batch.process_queue)
                # A message that is no longer there was already sent back, or belongs to another member by now.
                if batch.process_queue.dropped or not batch.process_queue.has(message):
                    continue
                try:
                    await self._send_back(message, level, broker_name=batch.mq.broker_name)
                except RmqctlError as failure:
                    if _is_readable(message):
                        error = failure
                        left.append(message)
                        continue
                    # No broker can ever accept it: if kept, it would block its queue for ever.
                    self._watcher.given_up(batch, message, failure)
                    self._remove(batch.process_queue, [message])
                else:
                    self._watcher.sent_back(batch.mq, message, level)
                    self._remove(batch.process_queue, [message])
            batch.messages = left
            return error

    async def _until_sure(self, process_queue: ProcessQueue) -> None:
        """Wait while another member may have consumed the messages of a queue."""
        while not process_queue.dropped and (process_queue.is_on_hold or self._is_stalled(self._clock.monotonic_s())):
            await pause(self._clock, _SURE_LOOK_S)

    def _count_returned(self, batches: list[Batch]) -> None:
        """Note listeners that returned after their time."""
        did_all_hang = self._overdue_count == self._settings.worker_count
        self._overdue_count -= sum(batch.is_overdue for batch in batches)
        if did_all_hang and self._overdue_count < self._settings.worker_count:
            self._watcher.one_is_free()

    def _expire(self, batch: Batch) -> None:
        """Note a batch whose time is over. Its listener continues, and keeps its worker."""
        batch.is_overdue = True
        self._overdue_count += 1
        if not batch.process_queue.dropped and self._settings.message_model != BROADCASTING:
            self._send_back_expired(batch)
        if self._overdue_count == self._settings.worker_count:
            self._watcher.all_hang(self._overdue_count)

    def _send_back_expired(self, batch: Batch) -> None:
        """Send back a batch that took too long, and acknowledge it: a late result is ignored."""
        batch.is_expired = True
        batch.process_queue.in_work.discard(batch)
        self._open_count -= 1
        self._watcher.expired(batch)
        rest = Batch(batch.process_queue, list(batch.messages), EXPIRED_LEVEL)
        rest.is_expired = True
        if self._limit is not None:
            self._limit.ended(batch)
            self._limit.failed(len(batch.messages))
        self._start(rest, EXPIRED_LEVEL)

    def _start(self, batch: Batch, level: int) -> None:
        """Send messages back in the background."""
        self._work_on(batch.process_queue, partial(self._give_back, batch, level), "sending failed messages back")


def split(batch: Batch, *, ack_index_on_failure: bool) -> tuple[list[StoredMessage], list[StoredMessage]]:
    """Return the messages of a finished batch that are done, and those to redeliver.

    With CONSUME_SUCCESS, messages up to `ack_index` are done. With RECONSUME_LATER, RocketMQ treats none as done; with
    `ack_index_on_failure`, messages up to an `ack_index` that the listener has set are done.
    """
    messages, count = list(batch.messages), len(batch.messages)
    if batch.status is ConsumeStatus.CONSUME_SUCCESS:
        done = min(max(batch.ack_index, -1) + 1, count)
    elif ack_index_on_failure and 0 <= batch.ack_index < count:
        done = batch.ack_index + 1
    else:
        done = 0
    return messages[:done], messages[done:]


def _is_readable(message: StoredMessage) -> bool:
    """Return whether a record's topic and properties can be read; if not, brokers cannot read them either."""
    try:
        message.properties  # noqa: B018 (the access may fail; the topic is read with them)
    except RmqctlError:
        return False
    return True


def _result(batch: Batch, timeout_s: float) -> ConsumeResult:
    found = result_of(batch)
    # The time limit may have been raised since the batch expired.
    is_late = batch.is_expired or batch.finished_s - batch.started_s >= timeout_s
    return ConsumeResult.TIME_OUT if is_late and batch.status is not None else found
