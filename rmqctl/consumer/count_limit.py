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
        self._count = count
        self._on_reached = on_reached
        self._lock = threading.Lock()
        self._running_count = 0
        self._failed_count = 0
        self._ok_count = 0

    @property
    def has_room(self) -> bool:
        """Whether another batch would start, or be left alone because enough have succeeded."""
        return self.is_reached or self._ok_count + self._running_count < self._count

    @property
    def is_reached(self) -> bool:
        """Whether enough messages have succeeded."""
        return self._ok_count >= self._count

    def admit(self, batch: Batch) -> tuple[Admission, Batch | None]:
        """Decide about a batch; a batch of too many messages is cut, and the rest returned as another one."""
        with self._lock:
            if self.is_reached:
                return Admission.LEAVE, None
            is_retry = batch.attempt > 0 or batch.mq.topic.startswith(RETRY_PREFIX)
            free_count = self._count - self._ok_count - self._running_count
            if not is_retry:
                free_count -= self._failed_count
            if free_count <= 0:
                return Admission.LATER, None
            rest = None
            if len(batch.messages) > free_count:
                rest = Batch(batch.process_queue, batch.messages[free_count:], batch.delay_level)
                batch.messages = batch.messages[:free_count]
            self._running_count += len(batch.messages)
            if is_retry:
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
