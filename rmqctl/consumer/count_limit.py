"""Consume until a number of messages have succeeded, and no more than these."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rmqctl.model.names import RETRY_PREFIX

from .batch import Admission, Batch


class CountLimit:
    """Admits batches as long as all running ones could succeed; `on_reached` is called once enough have.

    A message that failed keeps its place for its next try: a listener that always fails gets no further message. Any
    thread may call admit(); the rest runs in the event loop.
    """

    def __init__(self, count: int, on_reached: Callable[[], object]) -> None:
        self.count = count
        self._on_reached = on_reached
        self._lock = threading.Lock()
        self._running_count = 0
        self._failed_count = 0
        self._ok_count = 0

    @property
    def is_reached(self) -> bool:
        """Whether enough messages have succeeded."""
        return self.missing_count <= 0

    @property
    def missing_count(self) -> int:
        """Number of messages that have not succeeded yet."""
        return self.count - self._ok_count

    def has_room_for(self, batch: Batch) -> bool:
        """Return whether a batch would be admitted, or left alone because enough have succeeded."""
        return self.is_reached or self._free_count(batch) > 0

    def _free_count(self, batch: Batch) -> int:
        kept_count = 0 if _is_retry(batch) else self._failed_count
        return self.missing_count - self._running_count - kept_count

    def admit(self, batch: Batch) -> tuple[Admission, Batch | None]:
        """Decide about a batch; a batch of too many messages is cut, and the rest returned as another one."""
        with self._lock:
            if self.is_reached:
                return Admission.LEAVE, None
            free_count = self._free_count(batch)
            if free_count <= 0:
                return Admission.LATER, None
            rest = None
            if len(batch.messages) > free_count:
                rest = Batch(batch.process_queue, batch.messages[free_count:], batch.delay_level)
                batch.messages = batch.messages[:free_count]
            self._running_count += len(batch.messages)
            if _is_retry(batch):
                self._failed_count = max(0, self._failed_count - len(batch.messages))
            batch.is_limited = True
            return Admission.START, rest

    def ended(self, batch: Batch) -> None:
        """Note that a batch no longer runs, or that its result no longer counts."""
        with self._lock:
            if batch.is_limited:
                self._running_count -= len(batch.messages)
                batch.is_limited = False

    def failed(self, count: int) -> None:
        """Note messages that will be tried again."""
        with self._lock:
            self._failed_count += count

    def succeeded(self, count: int) -> None:
        """Note acknowledged messages."""
        with self._lock:
            was_reached = self.is_reached
            self._ok_count += count
        if self.is_reached and not was_reached:
            self._on_reached()


def _is_retry(batch: Batch) -> bool:
    return batch.attempt > 0 or batch.mq.topic.startswith(RETRY_PREFIX)
