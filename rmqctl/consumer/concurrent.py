"""Concurrent consumption: what comes of each batch, and what becomes of messages that failed.

(ConsumeMessageConcurrentlyService.) What succeeded is acknowledged in bulk, queue by queue. What failed is sent back to
its broker, and where that fails, tried again here, a bounded number of times; after that its queue takes no new
messages until a broker takes the failed ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from rmqctl.errors import RmqctlError
from rmqctl.model.consuming import ConsumeResult, ConsumeStatus
from rmqctl.model.group import BROADCASTING
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import Clock, pause
from rmqctl.net.tasks import stop_tasks
from rmqctl.protocol.message import StoredMessage

from .batch import Batch, Listener
from .expiry import Expiry
from .process_queue import ProcessQueue
from .settings import ConsumerSettings
from .workers import make_workers

# RocketMQ sends what expired back with this level (ProcessQueue.cleanExpiredMsg).
EXPIRED_LEVEL = 3
# Failed batches that are sent back at one time; each is sent message by message.
_SENT_BACK_AT_ONCE = 32


class SendBack(Protocol):
    """Gives a message back to its broker, to be tried again later."""

    async def __call__(self, message: StoredMessage, level: int, *, broker_name: str | None = None) -> None:
        """Send it with a delay level, to the broker where it was read. Raises RmqctlError when no broker took it."""


class Watcher(Protocol):
    """Hears what happens: counts it, logs it."""

    def consumed(self, topic: str, ok_count: int, failed_count: int, spent_ms: float, batch_count: int) -> None:
        """Count messages of one topic that were consumed, and how long so many batches took together."""

    def came_back(self, result: ConsumeResult, batch_count: int) -> None:
        """Count so many batches under the label that they got when the listener came back."""

    def came_late(self, batch: Batch) -> None:
        """Tell of a batch that did not fail, or was sent back before, and came back after its time."""

    def all_hang(self, worker_count: int) -> None:
        """Tell that no worker is left: all have batches whose time is over."""

    def one_is_free(self) -> None:
        """Tell that this is over."""

    def given_up(self, batch: Batch, message: StoredMessage, error: RmqctlError) -> None:
        """Tell of a message that failed, and that nobody can send back, for it can't be read."""

    def failed(self, batch: Batch, result: ConsumeResult) -> None:
        """Tell of a batch that did not succeed."""

    def not_sent_back(self, batch: Batch, error: RmqctlError) -> None:
        """Tell that messages could not be sent back, and are kept."""

    def blocked(self, process_queue: ProcessQueue, error: RmqctlError) -> None:
        """Tell that a queue takes no new messages, since failed ones can't be sent back."""

    def expired(self, batch: Batch) -> None:
        """Tell of a batch that took too long, and is sent back."""


class _Sum:
    """What succeeded of one queue."""

    __slots__ = ("batch_count", "messages", "spent_s")

    def __init__(self) -> None:
        self.messages: list[StoredMessage] = []
        self.spent_s = 0.0
        self.batch_count = 0


class ConcurrentConsumption:
    """Hands messages to the listener, and acknowledges them.

    `acknowledge` is told up to which offset a queue is done. Everything but the listener runs in the event loop.
    """

    def __init__(
        self, settings: ConsumerSettings, listener: Listener, clock: Clock, *, send_back: SendBack,
        acknowledge: Callable[[MessageQueue, int], None], watcher: Watcher,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._clock = clock
        self._send_back = send_back
        self._acknowledge = acknowledge
        self._watcher = watcher
        self._running: set[asyncio.Task[None]] = set()
        self._open_count = 0
        # Batches that are overdue, each of which has a worker.
        self._overdue_count = 0
        self._is_closed = False
        self._gate = asyncio.Semaphore(_SENT_BACK_AT_ONCE)
        self.expiry = Expiry(clock, settings.consume_timeout_s, self._expire)
        self._workers = make_workers(
            listener, settings.worker_count, clock, on_done=self._settle, on_start=self.expiry.started,
            on_end=self.expiry.finished,
        )  # fmt: skip

    def submit(self, process_queue: ProcessQueue, messages: Sequence[StoredMessage]) -> None:
        """Have messages consumed that are in their process queue already, in batches of the size that is set."""
        size, level = self._settings.batch_size, self._settings.delay_level
        if size == 1:
            batches = [Batch(process_queue, [message], level) for message in messages]
        else:
            batches = [Batch(process_queue, messages[at : at + size], level) for at in range(0, len(messages), size)]
        self._open_count += len(batches)
        self._workers.submit(batches)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being consumed, waits for it, or is being sent back."""
        return self._open_count == 0 and not self._running

    async def aclose(self) -> None:
        """Let go of the workers and of what is being sent back; what listeners say from now on is not heard."""
        self._is_closed = True
        self._workers.close()
        self.expiry.close()
        await stop_tasks(self._running)

    def _settle(self, batches: list[Batch]) -> None:
        """Acknowledge what succeeded in bulk, and look at the rest one by one."""
        done: dict[ProcessQueue, _Sum] = {}
        # What has expired is waited for no longer.
        self._open_count -= len(batches) - sum([batch.is_expired for batch in batches])
        if self._is_closed:
            return
        if self._overdue_count:
            self._count_returned(batches)
        now_ms, timeout_s, success = self._clock.now_ms(), self.expiry.timeout_s, ConsumeStatus.CONSUME_SUCCESS
        for batch in batches:
            process_queue = batch.process_queue
            if process_queue.dropped or batch.is_left_alone:
                continue
            if batch.is_expired:
                # A label, and no more: its messages have been sent back.
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
            self._remove(process_queue, found.messages)

    def _settle_one(self, batch: Batch, result: ConsumeResult) -> None:
        good, bad = split(batch, ack_index_on_failure=self._settings.ack_index_on_failure)
        batch.process_queue.last_consume_at_ms = self._clock.now_ms()
        spent_ms = (batch.finished_s - batch.started_s) * 1000
        self._watcher.consumed(batch.mq.topic, len(good), len(bad), spent_ms, 1)
        self._watcher.came_back(result, 1)
        if bad:
            self._watcher.failed(batch, result)
        elif result is ConsumeResult.TIME_OUT:
            self._watcher.came_late(batch)
        if good:
            self._remove(batch.process_queue, good)
        if not bad:
            return
        if self._settings.message_model == BROADCASTING:
            # RocketMQ drops them as well: nobody else would get them.
            self._remove(batch.process_queue, bad)
            return
        rest = Batch(batch.process_queue, bad, batch.delay_level)
        rest.attempt = batch.attempt
        self._start(self._give_back(rest, batch.delay_level))

    def _remove(self, process_queue: ProcessQueue, messages: Sequence[StoredMessage]) -> None:
        offset = process_queue.remove(messages)
        if offset is not None and not process_queue.dropped:
            self._acknowledge(process_queue.mq, offset)

    async def _give_back(self, batch: Batch, level: int) -> None:
        """Send messages back until none is left; those that no broker takes are consumed again here, then kept."""
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

    async def _send_all(self, batch: Batch, level: int) -> RmqctlError | None:
        """Send messages back one by one; those that were taken count as consumed. Returns why the rest was not."""
        async with self._gate:
            left: list[StoredMessage] = []
            error: RmqctlError | None = None
            for message in batch.messages:
                # What is no longer there was sent back already, or belongs to somebody else by now.
                if batch.process_queue.dropped or not batch.process_queue.has(message):
                    continue
                try:
                    await self._send_back(message, level, broker_name=batch.mq.broker_name)
                except RmqctlError as failure:
                    if _is_readable(message):
                        error = failure
                        left.append(message)
                        continue
                    # No broker could take it, now or later: kept, it would hold its queue for ever.
                    self._watcher.given_up(batch, message, failure)
                    self._remove(batch.process_queue, [message])
                else:
                    self._remove(batch.process_queue, [message])
            batch.messages = left
            return error

    def _count_returned(self, batches: list[Batch]) -> None:
        """Take note of listeners that came back after their time."""
        did_all_hang = self._overdue_count == self._settings.worker_count
        self._overdue_count -= sum(batch.is_overdue for batch in batches)
        if did_all_hang and self._overdue_count < self._settings.worker_count:
            self._watcher.one_is_free()

    def _expire(self, batch: Batch) -> None:
        """Take note of a batch whose time is over. Its listener goes on, and keeps its worker."""
        batch.is_overdue = True
        self._overdue_count += 1
        if not batch.process_queue.dropped and self._settings.message_model != BROADCASTING:
            self._send_back_expired(batch)
        if self._overdue_count == self._settings.worker_count:
            self._watcher.all_hang(self._overdue_count)

    def _send_back_expired(self, batch: Batch) -> None:
        """Send a batch back that took too long, and acknowledge it: a late result is not listened to."""
        batch.is_expired = True
        self._open_count -= 1
        self._watcher.expired(batch)
        rest = Batch(batch.process_queue, list(batch.messages), EXPIRED_LEVEL)
        rest.is_expired = True
        self._start(self._give_back(rest, EXPIRED_LEVEL))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)


def split(batch: Batch, *, ack_index_on_failure: bool) -> tuple[list[StoredMessage], list[StoredMessage]]:
    """Return the messages of a finished batch that are done, and those to be consumed again.

    With CONSUME_SUCCESS those up to `ack_index` are done. With RECONSUME_LATER none is, in RocketMQ; with
    `ack_index_on_failure` those up to an `ack_index` that the listener has set.
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
    """Tell whether a record says whose message it is; where it does not, brokers can't read it either."""
    try:
        message.properties  # noqa: B018 (reading them is what may fail; the topic stands beside them)
    except RmqctlError:
        return False
    return True


def _result(batch: Batch, timeout_s: float) -> ConsumeResult:
    if batch.error is not None:
        return ConsumeResult.EXCEPTION
    if batch.status is None:
        return ConsumeResult.RETURNNULL
    # The time that a batch has may have been raised since it expired.
    if batch.is_expired or batch.finished_s - batch.started_s >= timeout_s:
        return ConsumeResult.TIME_OUT
    return ConsumeResult.FAILED if batch.status is ConsumeStatus.RECONSUME_LATER else ConsumeResult.SUCCESS
