"""Recognise messages that this member has consumed before, by the unique key that their producer gave them.

It cannot recognise what another member consumed, or this one before its start, nor keys that it had to forget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.errors import RmqctlError
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.properties import UNIQ_KEY

# Messages that are no longer in flight are forgotten when their number has doubled.
_LEAST_OPEN = 10_000


class _Copy(NamedTuple):
    """A message in flight."""

    key: str
    process_queue: ProcessQueue
    message: StoredMessage

    @property
    def is_open(self) -> bool:
        return self.process_queue.has(self.message)


class DuplicateFilter:
    """Remembers the unique keys of the last `most_count` messages that succeeded, and of all that are in flight.

    A copy that arrives while another one is in flight waits for its result.
    """

    def __init__(self, most_count: int) -> None:
        self._most_count = most_count
        # In the order in which they succeeded, each with its queue.
        self._done: dict[str, MessageQueue] = {}
        self._open: dict[str, _Copy] = {}
        self._open_limit = _LEAST_OPEN
        self._waiting: list[_Copy] = []

    @property
    def has_waiting(self) -> bool:
        """Whether a copy waits for another one."""
        return any(copy.is_open for copy in self._waiting)

    def sort(
        self, process_queue: ProcessQueue, messages: Sequence[StoredMessage]
    ) -> tuple[list[StoredMessage], list[StoredMessage]]:
        """Return the messages of a queue to consume now, and those that have succeeded before; others wait."""
        wanted, duplicates = [], []
        for message in messages:
            key = _key(message)
            other = self._open.get(key)
            if key in self._done:
                duplicates.append(message)
            elif other is not None and other.message is not message and other.is_open:
                self._waiting.append(_Copy(key, process_queue, message))
            else:
                if key:
                    self._open[key] = _Copy(key, process_queue, message)
                wanted.append(message)
        if len(self._open) > self._open_limit:
            self._open = {key: copy for key, copy in self._open.items() if copy.is_open}
            self._open_limit = max(_LEAST_OPEN, 2 * len(self._open))
        return wanted, duplicates

    def succeeded(self, mq: MessageQueue, messages: Sequence[StoredMessage]) -> None:
        """Note messages of a queue that were consumed."""
        for message in messages:
            key = _key(message)
            if key:
                self._open.pop(key, None)
                self._done[key] = mq
        while len(self._done) > self._most_count:
            del self._done[next(iter(self._done))]

    def release(self) -> list[tuple[ProcessQueue, StoredMessage]]:
        """Return the copies that need not wait any more, to sort() them again."""
        if not self._waiting:
            return []
        free: list[_Copy] = []
        waiting: list[_Copy] = []
        for copy in self._waiting:
            other = self._open.get(copy.key)
            if not copy.is_open:
                continue  # its queue was given up
            is_held = copy.process_queue.is_on_hold or (other is not None and other.is_open)
            (waiting if is_held else free).append(copy)
        self._waiting = waiting
        return [(copy.process_queue, copy.message) for copy in free]

    def forget(self, mq: MessageQueue) -> None:
        """Forget what succeeded in a queue whose offset was moved back: its messages are to be consumed again.

        A retry may have been a message of this queue.
        """
        kept = {key: of for key, of in self._done.items() if of != mq and not of.topic.startswith(RETRY_PREFIX)}
        self._done = kept


def _key(message: StoredMessage) -> str:
    """Return a message's unique key; empty without one."""
    try:
        return message.properties.get(UNIQ_KEY, "")
    except RmqctlError:
        return ""  # its record is damaged
