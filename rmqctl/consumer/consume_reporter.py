"""The results of batches: counted, and reported to the user."""

from __future__ import annotations

from collections.abc import Callable

from rmqctl.errors import RmqctlError
from rmqctl.model.consumption import ConsumeResult, ConsumerWarning
from rmqctl.model.group import BROADCASTING
from rmqctl.protocol.message import StoredMessage
from rmqctl.text.words import counted

from .batch import Batch
from .counters import Counters
from .process_queue import ProcessQueue

# Receives a kind and a sentence for the user. Reports of a loop that hangs are made in another thread.
Report = Callable[[ConsumerWarning, str], None]

# The first late batches are reported one by one, then one each time that their number has grown tenfold.
_LATE_ONE_BY_ONE = 10
# The text of a listener's error can contain a whole message.
_MOST_CHARACTERS = 500


class ConsumeReporter:
    """Counts and reports the results of batches for ConcurrentConsumption (concurrent.Watcher), since the start.

    `ok_count`, `failed_count`, and `expired_count`, a part of it, count messages; `results` counts batches by label.
    """

    def __init__(self, report: Report, counters: Counters, message_model: str) -> None:
        self.ok_count = self.failed_count = self.expired_count = 0
        self.results = dict.fromkeys(ConsumeResult, 0)
        self._late_count = 0
        self._report = report
        self._counters = counters
        self._loss = " The group is broadcasting: the messages are lost." if message_model == BROADCASTING else ""

    def consumed(self, topic: str, ok_count: int, failed_count: int, spent_ms: float, batch_count: int) -> None:
        """See concurrent.Watcher."""
        self._counters.consumed(topic, ok_count, failed_count, spent_ms, batch_count)
        self.ok_count += ok_count
        self.failed_count += failed_count

    def came_back(self, result: ConsumeResult, batch_count: int) -> None:
        """See concurrent.Watcher."""
        self.results[result] += batch_count

    def came_late(self, batch: Batch) -> None:
        """See concurrent.Watcher."""
        self._late_count += 1
        if self._late_count > _LATE_ONE_BY_ONE and str(self._late_count).strip("0") != "1":
            return
        late = f"{_place(batch)}: the listener returned after {batch.finished_s - batch.started_s:.1f} s, "
        late += "too late for its result to count" if batch.is_expired else "late, but its result counts"
        number = "" if self._late_count <= _LATE_ONE_BY_ONE else f" {self._late_count} batches have been late so far."
        self._report(ConsumerWarning.TIME_OUT, f"{late} ({ConsumeResult.TIME_OUT}).{number}")

    def all_hang(self, worker_count: int) -> None:
        """See concurrent.Watcher."""
        who = f"All {worker_count} workers hang" if worker_count > 1 else "The only worker hangs"
        self._report(ConsumerWarning.WORKERS, f"{who} in the listener, beyond its time limit: consuming has stopped.")

    def one_is_free(self) -> None:
        """See concurrent.Watcher."""
        self._report(ConsumerWarning.WORKERS, "A worker returned from the listener: consuming continues.")

    def given_up(self, batch: Batch, message: StoredMessage, error: RmqctlError) -> None:
        """See concurrent.Watcher."""
        place = f"{batch.mq}:{message.queue_offset}"
        self._report(
            ConsumerWarning.UNREADABLE,
            f"{place} failed and is given up, because it cannot be sent back: {error.sentence}",
        )

    def failed(self, batch: Batch, result: ConsumeResult) -> None:
        """See concurrent.Watcher."""
        why = f": {describe_error(batch.error)}" if batch.error is not None else ""
        self._report(ConsumerWarning.LISTENER, f"{_place(batch)}: the listener failed ({result}){why}.{self._loss}")

    def not_sent_back(self, batch: Batch, error: RmqctlError) -> None:
        """See concurrent.Watcher."""
        messages = counted(len(batch.messages), "message")
        self._report(ConsumerWarning.SEND_BACK, f"{batch.mq}: {messages} could not be sent back: {error.sentence}")

    def blocked(self, process_queue: ProcessQueue, error: RmqctlError) -> None:
        """See concurrent.Watcher."""
        mq = process_queue.mq
        self._report(
            ConsumerWarning.BLOCKED,
            f"{mq} pulls no new messages, because failed ones cannot be sent back: {error.sentence}",
        )

    def expired(self, batch: Batch) -> None:
        """See concurrent.Watcher. Java's clients do not count it as failed."""
        self.failed_count += len(batch.messages)
        self.expired_count += len(batch.messages)
        self._report(ConsumerWarning.EXPIRED, f"{_place(batch)}: the listener took too long; the batch is sent back.")

    def broke(self, what: str, error: BaseException) -> None:
        """See concurrent.Watcher."""
        self._report(ConsumerWarning.BUG, f"{what}: rmqctl failed ({describe_error(error)}) and tries again.")


def describe_error(error: BaseException) -> str:
    """Return an error's class and text, shortened if long. The __str__ of a listener's error may fail."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001
        text = "(text not available)"
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[:_MOST_CHARACTERS]}..."
    return f"{type(error).__name__}: {text}"


def _place(batch: Batch) -> str:
    return f"{batch.mq}:{batch.messages[0].queue_offset}"
