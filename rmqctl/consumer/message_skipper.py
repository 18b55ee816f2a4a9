"""Messages that a consumer acknowledges unread: too old, too far behind, or seen before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rmqctl.model.consumption import ConsumerWarning
from rmqctl.protocol.message import StoredMessage

from .consume_reporter import Report
from .settings import ConsumerSettings


class MessageSkipper:
    """Finds unwanted messages. `now_ms` is the brokers' time, because ages are by their clocks.

    `seen` is the user's function, for example whether a unique key was consumed before: the unique key of a message
    stays the same over its retries. A message for which `seen` fails counts as wanted.
    """

    def __init__(
        self, settings: ConsumerSettings, seen: Callable[[StoredMessage], bool] | None, now_ms: Callable[[], int],
        report: Report,
    ) -> None:  # fmt: skip
        self._older_s, self._behind_count = settings.skip_older_s, settings.skip_behind_count
        self._seen = seen
        self._now_ms = now_ms
        self._report = report
        self.is_needed = seen is not None or self._older_s is not None or self._behind_count is not None

    def find_unwanted(self, messages: Sequence[StoredMessage], max_offset: int | None) -> list[StoredMessage]:
        """Return the unwanted messages of one queue; `max_offset` is its end, None if unknown."""
        since_ms = 0.0 if self._older_s is None else self._now_ms() - self._older_s * 1000
        first = 0 if self._behind_count is None or max_offset is None else max_offset - self._behind_count
        return [
            message
            for message in messages
            if message.stored_at_ms < since_ms or message.queue_offset < first or self._was_seen(message)
        ]

    def _was_seen(self, message: StoredMessage) -> bool:
        if self._seen is None:
            return False
        try:
            return self._seen(message)
        except Exception as error:  # noqa: BLE001 - a user's function must not stop the pulling of a queue
            self._report(ConsumerWarning.SKIP, f"Unknown whether to skip {message.offset_id}: {error!r}")
            return False
