"""Rebuilds queues and index from the log at the start, and cuts off a damaged end."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rmqctl.errors import RmqctlError
from rmqctl.protocol.properties import TAGS
from rmqctl.rules.message_filters.tags import tag_code

from .commit_log import CommitLog, Segment
from .consume_queue import ConsumeQueue
from .message_index import MessageIndex
from .record_scan import DamagedError, ScannedRecord, iter_records
from .state import StateStore

logger = logging.getLogger("rmqctl.sandbox")

# The smallest offsets of queues that lost their oldest messages, by "topic@queue id".
MIN_OFFSETS = "min_offsets"
# Where the log ended when a topic was deleted: its records before that no longer count as messages.
DELETED_TOPICS = "deleted_topics"

# What a queue's entry has instead of a message's tag code, or None for the tag code.
CodeOf = Callable[[ScannedRecord], int | None]


class Recovery:
    """Builds `queues` and `index` from a log. Raises RmqctlError for damage before the newest segment, OSError."""

    def __init__(self, log: CommitLog, state: StateStore, code_of: CodeOf) -> None:
        self.queues: dict[str, dict[int, ConsumeQueue]] = {}
        self.index = MessageIndex()
        self._log = log
        self._state = state
        self._code_of = code_of
        self._deleted: dict[str, int] = state.load(DELETED_TOPICS)
        split = [(key.rpartition("@"), offset) for key, offset in state.load(MIN_OFFSETS).items()]
        self._minima: dict[tuple[str, int], int] = {
            (topic, int(queue_id)): offset for (topic, _, queue_id), offset in split
        }
        for segment in list(log.segments):
            try:
                for found in iter_records(segment.read(0, segment.size_bytes), segment.base):
                    self._enter(found)
            except DamagedError as damage:
                self._cut(segment, damage)
        self._finish()

    def _cut(self, segment: Segment, damage: DamagedError) -> None:
        if segment is not self._log.segments[-1]:
            raise RmqctlError(
                f"{segment.name} is damaged at byte {damage.at}: {damage}.",
                hint="Only the newest segment can be repaired: restore the folder from a copy, or use a new folder.",
            ) from None
        end = segment.base + damage.at
        logger.warning(
            "%s: damaged at byte %d (%s): the last %d bytes are cut off", segment.name, damage.at, damage,
            self._log.end - end,
        )  # fmt: skip
        self._log.truncate(end)

    def _enter(self, found: ScannedRecord) -> None:
        """Add a record. Raises DamagedError when it cannot be the next one of its queue."""
        topic, queue_id, queue_offset = found.topic, found.queue_id, found.queue_offset
        min_offset = self._minima.get((topic, queue_id), 0)
        if found.commit_log_offset < self._deleted.get(topic, 0) or queue_offset < min_offset:
            return
        queues = self.queues.setdefault(topic, {})
        queue = queues.get(queue_id)
        if queue is not None:
            expected = queue.max_offset
        else:
            # A power cut can lose a queue's stored minimum, but cannot restore segments that were removed.
            expected = queue_offset if self._log.start else min_offset
        if queue_offset != expected:
            if not queues:
                del self.queues[topic]
            raise DamagedError(found.at, f"message {queue_offset} of a queue where {expected} is next")
        if queue is None:
            queue = queues[queue_id] = ConsumeQueue()
            queue.start_at(expected)
        code = self._code_of(found)
        if code is None:
            code = tag_code(found.properties.get(TAGS))
        queue.append(found.commit_log_offset, found.size_bytes, code, found.stored_at_ms)
        self.index.add(topic, found.properties, found.commit_log_offset, found.stored_at_ms)

    def _finish(self) -> None:
        for (topic, queue_id), min_offset in self._minima.items():
            queue = self.queues.setdefault(topic, {}).setdefault(queue_id, ConsumeQueue())
            if queue.max_offset < min_offset:
                queue.start_at(min_offset)
        for topic, end in self._deleted.items():
            if end <= self._log.start:
                self._state.delete(DELETED_TOPICS, topic)
            elif end > self._log.end:  # new records in the cut-off part must not count as deleted
                self._state.put(DELETED_TOPICS, topic, self._log.end)
        self._log.flush()
