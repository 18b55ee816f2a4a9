"""The events of consumption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rmqctl.consumer.batch import Batch
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.errors import RmqctlError
from rmqctl.model.consumption import ConsumeResult
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.message import StoredMessage


class ConsumeObserver(Protocol):
    """Receives the events of consumption, to count and report them."""

    def consumed(self, topic: str, ok_count: int, failed_count: int, spent_ms: float, batch_count: int) -> None:
        """Count consumed messages of one topic, and the total time (ms) of their `batch_count` batches."""

    def came_back(self, result: ConsumeResult, batch_count: int) -> None:
        """Count batches under the label that they got when the listener returned."""

    def came_late(self, batch: Batch) -> None:
        """Report a late batch: one that succeeded, or that was already sent back."""

    def all_hang(self, worker_count: int) -> None:
        """Report that no worker is left: all have overdue batches."""

    def one_is_free(self) -> None:
        """Report that a worker is free again."""

    def given_up(self, batch: Batch, message: StoredMessage, error: RmqctlError) -> None:
        """Report a failed message that cannot be sent back, because it cannot be read."""

    def failed(self, batch: Batch, failed: Sequence[StoredMessage], result: ConsumeResult) -> None:
        """Report the messages of a batch that failed."""

    def sent_back(self, mq: MessageQueue, message: StoredMessage, level: int) -> None:
        """Count a failed message that a broker accepted with this delay level."""

    def not_sent_back(self, batch: Batch, error: RmqctlError) -> None:
        """Report that messages could not be sent back and are kept."""

    def blocked(self, process_queue: ProcessQueue, error: RmqctlError) -> None:
        """Report that a queue pulls no new messages, because failed ones cannot be sent back."""

    def unblocked(self, process_queue: ProcessQueue) -> None:
        """Report that a blocked queue pulls again."""

    def suspended(self, batch: Batch, result: ConsumeResult, *, dead_count: int, pause_s: float) -> None:
        """Report a batch of an orderly consumer that failed; `dead_count` of its messages become dead letters."""

    def not_buried(self, process_queue: ProcessQueue, error: RmqctlError) -> None:
        """Report that a queue waits, because no broker accepts a message of it as a dead letter."""

    def expired(self, batch: Batch) -> None:
        """Count and report a batch that took too long and is sent back."""

    def broke(self, what: str, error: BaseException) -> None:
        """Report a part of the consumer that failed by a bug."""
