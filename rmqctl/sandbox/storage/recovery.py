"""Rebuilds queues and index from the log at the start; saves a damaged end and cuts it off."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from rmqctl.errors import RmqctlError
from rmqctl.protocol.properties import TAGS
from rmqctl.rules.message_filters.tags import tag_code

from .commit_log import CommitLog, Segment
from .consume_queue import ConsumeQueue
from .message_index import MessageIndex
from .record_scan import DamagedError, ScannedRecord, iter_records
from .segment_entries import QueueEntries, SegmentEntries, read_entries, save_entries
from .state import StateStore

logger = logging.getLogger("rmqctl.sandbox")

# The smallest offsets of queues that lost their oldest messages, by "topic@queue id".
MIN_OFFSETS = "min_offsets"
# Where the log ended when a topic was deleted: its records before that no longer count as messages.
DELETED_TOPICS = "deleted_topics"
# Where the log began and ended when it was flushed last.
LOG_BOUNDS = "log_bounds"

_REPORT_S = 2.0
_REPORT_COUNT = 4096
_MIB = 1 << 20

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
        self._report_at_s = time.monotonic() + _REPORT_S
        self._warn_of_missing()
        *full, newest = log.segments
        for segment in full:
            self._read_full(segment)
            self._report(segment, segment.size_bytes)
        self._scan(newest, newest.read(0, newest.size_bytes))
        self._report(newest, newest.size_bytes)
        self._finish()

    def _warn_of_missing(self) -> None:
        """Warn of messages that are gone without a trace in the files that are left."""
        bounds, log = self._state.load(LOG_BOUNDS), self._log
        start, end = bounds.get("start", log.start), bounds.get("end", log.end)
        if start < log.start:
            logger.warning(
                "%s: the %d bytes of messages before it are missing", log.segments[0].name, log.start - start
            )
        if end > log.end:
            logger.warning("%s: the last %d bytes of messages are missing", log.segments[-1].name, end - log.end)

    def _read_full(self, segment: Segment) -> None:
        data, saved = segment.read(0, segment.size_bytes), read_entries(segment)
        is_changed = saved is not None and not saved.is_of(data)
        if saved is not None and not is_changed and self._take(saved):
            return
        self._scan(segment, data)
        if is_changed:
            logger.warning("%s: its bytes changed since it was full, and are not what was stored", segment.name)
        save_entries(segment, self.queues, self.index)

    def _scan(self, segment: Segment, data: bytes) -> None:
        try:
            for number, found in enumerate(iter_records(data, segment.base)):
                self._enter(found)
                if not number % _REPORT_COUNT:
                    self._report(segment, found.at)
        except DamagedError as damage:
            self._cut(segment, damage)

    def _report(self, segment: Segment, at: int) -> None:
        """Report a long start now and then; `rmqctl sandbox up --detach` waits as long as it hears of one."""
        if time.monotonic() >= self._report_at_s:
            self._report_at_s = time.monotonic() + _REPORT_S
            done_bytes, all_bytes = segment.base + at - self._log.start, self._log.end - self._log.start
            logger.info("read %d of %d MiB of messages, up to %s", done_bytes // _MIB, all_bytes // _MIB, segment.name)

    def _take(self, saved: SegmentEntries) -> bool:
        """Add all records of a full segment by its entries, or none when those of a queue cannot be next."""
        taken = []
        for entries in saved.queues:
            skipped_count = self._count_outdated(entries)
            if skipped_count < entries.count:
                queue_offset = entries.first_offset + skipped_count
                if queue_offset != self._expected(entries.topic, entries.queue_id, queue_offset):
                    return False
                taken.append((entries, skipped_count))
        for entries, skipped_count in taken:
            queues = self.queues.setdefault(entries.topic, {})
            if entries.queue_id not in queues:
                queues[entries.queue_id] = ConsumeQueue()
                queues[entries.queue_id].start_at(entries.first_offset + skipped_count)
            queues[entries.queue_id].extend(entries.columns, skipped_count)
        self.index.extend(saved.key_hashes, saved.key_offsets, saved.begins_at_ms)
        return True

    def _count_outdated(self, entries: QueueEntries) -> int:
        """Return how many of a queue's entries no longer count: dropped ones, and those of a deleted topic."""
        min_offset = self._minima.get((entries.topic, entries.queue_id), 0)
        return max(min_offset - entries.first_offset, entries.count_before(self._deleted.get(entries.topic, 0)), 0)

    def _cut(self, segment: Segment, damage: DamagedError) -> None:
        if segment is not self._log.segments[-1]:
            raise RmqctlError(
                f"{segment.name} is damaged at byte {damage.at}: {damage}.",
                hint="Only the newest segment can be repaired: restore the folder from a copy, or use a new folder.",
            ) from None
        end = segment.base + damage.at
        kept = segment.keep_end(damage.at)
        logger.warning(
            "%s: damaged at byte %d (%s): the last %d bytes are cut off, and kept in %s", segment.name, damage.at,
            damage, self._log.end - end, kept,
        )  # fmt: skip
        self._log.truncate(end)

    def _enter(self, found: ScannedRecord) -> None:
        """Add a record. Raises DamagedError when it cannot be the next one of its queue."""
        topic, queue_id, queue_offset = found.topic, found.queue_id, found.queue_offset
        min_offset = self._minima.get((topic, queue_id), 0)
        if found.commit_log_offset < self._deleted.get(topic, 0) or queue_offset < min_offset:
            # The index still finds it, as before the restart.
            self.index.add(topic, found.properties, found.commit_log_offset, found.stored_at_ms)
            return
        queues = self.queues.setdefault(topic, {})
        queue = queues.get(queue_id)
        expected = self._expected(topic, queue_id, queue_offset)
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

    def _expected(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return the offset that must be next in a queue, where this one was found."""
        queue = self.queues.get(topic, {}).get(queue_id)
        if queue is not None:
            return queue.max_offset
        # A power cut can lose a queue's stored minimum, but cannot restore segments that were removed.
        return queue_offset if self._log.start else self._minima.get((topic, queue_id), 0)

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
