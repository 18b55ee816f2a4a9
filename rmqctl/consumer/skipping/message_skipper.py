"""Messages that a consumer acknowledges unread: too old, too far behind, or seen before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.consumer.reports.problems import Problems
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.model.consumption import ConsumerWarning
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.message import StoredMessage
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted

from .duplicate_filter import DuplicateFilter


class MessageSkipper:
    """Finds unwanted messages. `now_ms` is the brokers' time, because ages are by their clocks.

    `seen` is the user's function, for example whether a unique key was consumed before: the unique key of a message
    stays the same over its retries. A message for which `seen` fails counts as wanted. `skipped_count` counts unwanted
    ones.
    """

    def __init__(
        self, settings: ConsumerSettings, seen: Callable[[StoredMessage], bool] | None, now_ms: Callable[[], int],
        problems: Problems,
    ) -> None:  # fmt: skip
        self._older_s, self._behind_count = settings.skip_older_s, settings.skip_behind_count
        self._seen = seen
        self._now_ms = now_ms
        self._problems = problems
        self.skipped_count = 0
        self._duplicates = None if settings.dedup_count is None else DuplicateFilter(settings.dedup_count)
        self.is_needed = any(each is not None for each in (seen, self._older_s, self._behind_count, self._duplicates))

    def find_unwanted(
        self, process_queue: ProcessQueue, messages: Sequence[StoredMessage], max_offset: int | None
    ) -> tuple[Sequence[StoredMessage], list[StoredMessage]]:
        """Return the messages of a queue to consume now, and the unwanted ones, which are reported.

        `max_offset` is the queue's end, None if unknown. Possible duplicates are in neither, see DuplicateFilter.
        """
        unwanted: list[StoredMessage] = []
        topic = process_queue.mq.topic
        if self._older_s is not None:
            since_ms = self._now_ms() - self._older_s * 1000
            age = short_duration(round(self._older_s * 1000))
            old = [message for message in messages if message.stored_at_ms < since_ms]
            messages = self._without(messages, old, unwanted, topic, f"older than {age}")
        if self._behind_count is not None and max_offset is not None:
            first, end = max_offset - self._behind_count, counted(self._behind_count, "message")
            behind = [message for message in messages if message.queue_offset < first]
            messages = self._without(messages, behind, unwanted, topic, f"further than {end} from the end of the queue")
        if self._seen is not None:
            messages = self._without(
                messages,
                [message for message in messages if self._was_seen(message)],
                unwanted,
                topic,
                "skip() returned True",
            )
        if self._duplicates is not None:
            messages, copies = self._duplicates.sort(process_queue, messages)
            self._note(copies, unwanted, topic, "duplicates by their unique key")
        self.skipped_count += len(unwanted)
        return messages, unwanted

    @property
    def has_waiting(self) -> bool:
        """Whether messages wait for the result of their duplicates."""
        return self._duplicates is not None and self._duplicates.has_waiting

    def release(self) -> list[tuple[ProcessQueue, StoredMessage]]:
        """Return the messages that need not wait any more, to have them looked at again."""
        return [] if self._duplicates is None else self._duplicates.release()

    def succeeded(self, mq: MessageQueue, messages: Sequence[StoredMessage]) -> None:
        """Note consumed messages, to recognise duplicates."""
        if self._duplicates is not None:
            self._duplicates.succeeded(mq, messages)

    def forget(self, mq: MessageQueue) -> None:
        """Have messages of a queue consumed again, because its offset was moved back."""
        if self._duplicates is not None:
            self._duplicates.forget(mq)

    def _without(
        self, messages: Sequence[StoredMessage], skipped: Sequence[StoredMessage], unwanted: list[StoredMessage],
        topic: str, reason: str,
    ) -> Sequence[StoredMessage]:  # fmt: skip
        if not skipped:
            return messages
        self._note(skipped, unwanted, topic, reason)
        gone = set(skipped)
        return [message for message in messages if message not in gone]

    def _note(self, skipped: Sequence[StoredMessage], unwanted: list[StoredMessage], topic: str, reason: str) -> None:
        unwanted += skipped
        if skipped:
            sentence = f"Messages of {topic} are acknowledged unread: {reason}."
            self._problems(ConsumerWarning.SKIP, sentence, f"{topic} {reason}", count=len(skipped))

    def _was_seen(self, message: StoredMessage) -> bool:
        if self._seen is None:
            return False
        try:
            answer: object = self._seen(message)
        except Exception as error:  # noqa: BLE001 - a user's function must not stop the pulling of a queue
            self._problems(ConsumerWarning.SKIP, f"Unknown whether to skip {message.offset_id}: {error!r}")
            return False
        if isinstance(answer, bool):
            return answer
        # Anything could be true by mistake, and the message would be lost.
        sentence = f"Unknown whether to skip {message.offset_id}: skip() returned {answer!r}, not True or False."
        self._problems(ConsumerWarning.SKIP, sentence)
        return False
