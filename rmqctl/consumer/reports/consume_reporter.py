"""The results of batches: counted, and reported to the user."""

from __future__ import annotations

from collections.abc import Sequence

from rmqctl.consumer.batch import Batch
from rmqctl.consumer.counters import Counters
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.errors import RmqctlError, UnreachableError
from rmqctl.model.consumption import ConsumeResult, ConsumerWarning
from rmqctl.model.group import BROADCASTING
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.message import StoredMessage
from rmqctl.text.words import counted

from .failures import (
    cause_of,
    describe_cause,
    describe_error,
    describe_failure,
    describe_messages,
    describe_suspension,
    id_of,
)
from .problems import Problems

_MOST_WAITING = 100_000


class ConsumeReporter:
    """Counts and reports the results of batches for ConcurrentConsumption (ConsumeObserver), since the start.

    `ok_count`, `failed_count`, and `expired_count`, a part of it, count messages; so do `sent_back_count` and
    `dead_count` of messages that a broker accepted for a retry, or as a dead letter. `results` counts batches by label.
    `waiting_ids` are ids of messages that were sent back and not consumed here since, at most _MOST_WAITING.
    """

    def __init__(self, problems: Problems, counters: Counters, settings: ConsumerSettings) -> None:
        self.ok_count = self.failed_count = self.expired_count = self.sent_back_count = self.dead_count = 0
        self.results = dict.fromkeys(ConsumeResult, 0)
        self.waiting_ids: set[str] = set()
        self._problems = problems
        self._counters = counters
        self._settings = settings

    def consumed(self, topic: str, ok_count: int, failed_count: int, spent_ms: float, batch_count: int) -> None:
        """See ConsumeObserver."""
        self._counters.consumed(topic, ok_count, failed_count, spent_ms, batch_count)
        self.ok_count += ok_count
        self.failed_count += failed_count

    def succeeded(self, messages: Sequence[StoredMessage]) -> None:
        """Note messages that were consumed."""
        if self.waiting_ids:
            self.waiting_ids.difference_update([id_of(each) for each in messages if each.reconsume_times])

    def came_back(self, result: ConsumeResult, batch_count: int) -> None:
        """See ConsumeObserver."""
        self.results[result] += batch_count

    def came_late(self, batch: Batch) -> None:
        """See ConsumeObserver."""
        late = f"the listener returned after {batch.finished_s - batch.started_s:.1f} s, "
        late += "too late for its result to count" if batch.is_expired else "late, but its result counts"
        which = describe_messages(batch.mq, batch.messages)
        self._problems(ConsumerWarning.TIME_OUT, f"{which}: {late} ({ConsumeResult.TIME_OUT}).")

    def all_hang(self, worker_count: int) -> None:
        """See ConsumeObserver."""
        who = f"All {worker_count} workers hang" if worker_count > 1 else "The only worker hangs"
        self._problems(ConsumerWarning.WORKERS, f"{who} in the listener, beyond its time limit: consuming has stopped.")

    def one_is_free(self) -> None:
        """See ConsumeObserver."""
        self._problems.works(ConsumerWarning.WORKERS, "", "A worker returned from the listener: consuming continues")

    def failed(self, batch: Batch, failed: Sequence[StoredMessage], result: ConsumeResult) -> None:
        """See ConsumeObserver."""
        if self._settings.message_model == BROADCASTING:
            lost = counted(len(failed), "message", "is")
            sentence = f"{describe_cause(batch, failed, result)} The group is broadcasting: {lost} lost."
        else:
            dead_count = sum([self._is_dead(message, batch.delay_level) for message in failed])
            sentence = describe_failure(batch, failed, result, dead_count=dead_count, group=self._settings.group)
        self._problems(ConsumerWarning.LISTENER, sentence, cause_of(batch), error=batch.error, count=len(failed))

    def suspended(self, batch: Batch, result: ConsumeResult, *, dead_count: int, pause_s: float) -> None:
        """See ConsumeObserver."""
        sentence = describe_suspension(
            batch, result, dead_count=dead_count, pause_s=pause_s, group=self._settings.group
        )
        self._problems(
            ConsumerWarning.LISTENER, sentence, cause_of(batch), error=batch.error, count=len(batch.messages)
        )

    def not_buried(self, process_queue: ProcessQueue, error: RmqctlError) -> None:
        """See ConsumeObserver."""
        mq = process_queue.mq
        sentence = f"{mq} waits, because no broker accepts a message as a dead letter: {error.sentence}"
        self._problems(ConsumerWarning.BLOCKED, sentence, str(mq))

    def expired(self, batch: Batch) -> None:
        """See ConsumeObserver. Java's clients do not count it as failed."""
        self.failed_count += len(batch.messages)
        self.expired_count += len(batch.messages)
        which = describe_messages(batch.mq, batch.messages)
        sentence = f"{which}: the listener took too long; the batch is sent back."
        self._problems(ConsumerWarning.EXPIRED, sentence, count=len(batch.messages))

    def _is_dead(self, message: StoredMessage, level: int) -> bool:
        """Return whether a broker makes a message a dead letter (AbstractSendMessageProcessor.consumerSendMsgBack)."""
        return level < 0 or message.reconsume_times >= self._settings.retry_count_limit

    def sent_back(self, mq: MessageQueue, message: StoredMessage, level: int) -> None:
        """See ConsumeObserver."""
        if self._is_dead(message, level):
            self.dead_count += 1
            self.waiting_ids.discard(id_of(message))
        else:
            self.sent_back_count += 1
            if len(self.waiting_ids) < _MOST_WAITING:
                self.waiting_ids.add(id_of(message))
        if self._problems.has_open:
            broker_name = mq.broker_name
            words = f"Failed messages of {broker_name} can be sent back again"
            self._problems.works(ConsumerWarning.SEND_BACK, broker_name, words)

    def given_up(self, batch: Batch, message: StoredMessage, error: RmqctlError) -> None:
        """See ConsumeObserver."""
        which = describe_messages(batch.mq, [message])
        sentence = f"{which} failed and is given up, because it cannot be sent back: {error.sentence}"
        self._problems(ConsumerWarning.UNREADABLE, sentence)

    def not_sent_back(self, batch: Batch, error: RmqctlError) -> None:
        """See ConsumeObserver."""
        what = batch.mq.broker_name if isinstance(error, UnreachableError) else str(batch.mq)
        messages = counted(len(batch.messages), "message")
        self._problems(
            ConsumerWarning.SEND_BACK,
            f"{what}: {messages} could not be sent back: {error.sentence}",
            batch.mq.broker_name,
            count=len(batch.messages),
        )

    def blocked(self, process_queue: ProcessQueue, error: RmqctlError) -> None:
        """See ConsumeObserver."""
        mq = process_queue.mq
        self._problems(
            ConsumerWarning.BLOCKED,
            f"{mq} pulls no new messages, because failed ones cannot be sent back: {error.sentence}",
            str(mq),
        )

    def unblocked(self, process_queue: ProcessQueue) -> None:
        """See ConsumeObserver."""
        self._problems.works(ConsumerWarning.BLOCKED, str(process_queue.mq), f"{process_queue.mq} continues")

    def broke(self, what: str, error: BaseException) -> None:
        """See ConsumeObserver."""
        sentence = f"{what}: rmqctl failed ({describe_error(error)}) and tries again."
        self._problems(ConsumerWarning.BUG, sentence, what, error=error)
