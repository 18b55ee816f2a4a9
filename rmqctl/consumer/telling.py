"""What came of batches: counted, and told to whoever should know."""

from __future__ import annotations

from collections.abc import Callable

from rmqctl.errors import RmqctlError
from rmqctl.model.consuming import ConsumeResult, Trouble
from rmqctl.model.group import BROADCASTING
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.words import counted

from .batch import Batch
from .counters import Counters
from .process_queue import ProcessQueue

# Is told what somebody should know of: its kind, and a sentence. Of a loop that hangs, a thread of its own tells.
Report = Callable[[Trouble, str], None]

# So many batches that come late are told of one by one; then one each time that their number has grown tenfold.
_LATE_ONE_BY_ONE = 10
# What a listener raises can hold all of a message.
_MOST_CHARACTERS = 500


class Telling:
    """Hears of batches from ConcurrentConsumption (concurrent.Watcher). Counts are since the start.

    `ok_count` and `failed_count` are of messages, `results` of batches, by the label that each got.
    """

    def __init__(self, report: Report, counters: Counters, message_model: str) -> None:
        self.ok_count = self.failed_count = 0
        self.results = dict.fromkeys(ConsumeResult, 0)
        self._late_count = 0
        self._report = report
        self._counters = counters
        self._loss = " Broadcasting, they are lost." if message_model == BROADCASTING else ""

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
        said = f"{_place(batch)}: the listener came back after {batch.finished_s - batch.started_s:.1f} s, "
        said += "too late for its answer to count" if batch.is_expired else "late, but its answer counts"
        number = "" if self._late_count <= _LATE_ONE_BY_ONE else f" {self._late_count} batches did so by now."
        self._report(Trouble.TIME_OUT, f"{said} ({ConsumeResult.TIME_OUT}).{number}")

    def all_hang(self, worker_count: int) -> None:
        """See concurrent.Watcher."""
        who = f"All {worker_count} workers hang" if worker_count > 1 else "The only worker hangs"
        self._report(Trouble.WORKERS, f"{who} in the listener, beyond its time: nothing is consumed any more.")

    def one_is_free(self) -> None:
        """See concurrent.Watcher."""
        self._report(Trouble.WORKERS, "A worker came back from the listener: consuming goes on.")

    def given_up(self, batch: Batch, message: StoredMessage, error: RmqctlError) -> None:
        """See concurrent.Watcher."""
        said = f"{batch.mq}:{message.queue_offset} failed and is given up, for it can't be sent back: {error.sentence}"
        self._report(Trouble.UNREADABLE, said)

    def failed(self, batch: Batch, result: ConsumeResult) -> None:
        """See concurrent.Watcher."""
        why = f": {describe_error(batch.error)}" if batch.error is not None else ""
        self._report(Trouble.LISTENER, f"{_place(batch)}: the listener failed ({result}){why}.{self._loss}")

    def not_sent_back(self, batch: Batch, error: RmqctlError) -> None:
        """See concurrent.Watcher."""
        said = f"{counted(len(batch.messages), 'message')} could not be sent back: {error.sentence}"
        self._report(Trouble.SEND_BACK, f"{batch.mq}: {said}")

    def blocked(self, process_queue: ProcessQueue, error: RmqctlError) -> None:
        """See concurrent.Watcher."""
        said = f"{process_queue.mq} takes no new messages: failed ones can't be sent back. {error.sentence}"
        self._report(Trouble.BLOCKED, said)

    def expired(self, batch: Batch) -> None:
        """See concurrent.Watcher."""
        self._report(Trouble.EXPIRED, f"{_place(batch)}: it took too long, and is sent back.")


def describe_error(error: BaseException) -> str:
    """Return an error's class and text, cut where that is long. Its own __str__ may fail: it is a listener's."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001
        text = "(its text can't be had)"
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[:_MOST_CHARACTERS]}..."
    return f"{type(error).__name__}: {text}"


def _place(batch: Batch) -> str:
    return f"{batch.mq}:{batch.messages[0].queue_offset}"
