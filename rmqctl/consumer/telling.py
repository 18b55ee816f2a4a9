"""What came of batches: counted, and told to whoever should know."""

from __future__ import annotations

from collections.abc import Callable

from rmqctl.errors import RmqctlError
from rmqctl.model.consuming import ConsumeResult, Trouble
from rmqctl.model.group import BROADCASTING

from .batch import Batch
from .counters import Counters
from .process_queue import ProcessQueue

# Is told what somebody should know of: its kind, and a sentence.
Report = Callable[[Trouble, str], None]


class Telling:
    """Hears of batches from ConcurrentConsumption (concurrent.Watcher). The counts are of messages, since the start."""

    def __init__(self, report: Report, counters: Counters, message_model: str) -> None:
        self.ok_count = self.failed_count = 0
        self._report = report
        self._counters = counters
        self._loss = " Broadcasting, they are lost." if message_model == BROADCASTING else ""

    def consumed(self, topic: str, ok_count: int, failed_count: int, spent_ms: float, batch_count: int) -> None:
        """See concurrent.Watcher."""
        self._counters.consumed(topic, ok_count, failed_count, spent_ms, batch_count)
        self.ok_count += ok_count
        self.failed_count += failed_count

    def failed(self, batch: Batch, result: ConsumeResult) -> None:
        """See concurrent.Watcher."""
        why = f": {type(batch.error).__name__}: {batch.error}" if batch.error is not None else ""
        self._report(Trouble.LISTENER, f"{_place(batch)}: the listener failed ({result}){why}.{self._loss}")

    def not_sent_back(self, batch: Batch, error: RmqctlError) -> None:
        """See concurrent.Watcher."""
        said = f"{len(batch.messages)} messages could not be sent back: {error.sentence}"
        self._report(Trouble.SEND_BACK, f"{batch.mq}: {said}")

    def blocked(self, process_queue: ProcessQueue, error: RmqctlError) -> None:
        """See concurrent.Watcher."""
        said = f"{process_queue.mq} takes no new messages: failed ones can't be sent back. {error.sentence}"
        self._report(Trouble.BLOCKED, said)

    def expired(self, batch: Batch) -> None:
        """See concurrent.Watcher."""
        self._report(Trouble.EXPIRED, f"{_place(batch)}: it took too long, and is sent back.")


def _place(batch: Batch) -> str:
    return f"{batch.mq}:{batch.messages[0].queue_offset}"
