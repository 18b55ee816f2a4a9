"""One queue of a topic: commit log offsets, tags and times of its messages (ConsumeQueue)."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from msgspec import Struct


class Entry(Struct, frozen=True):
    """What a queue knows about one message without reading it."""

    queue_offset: int
    commit_log_offset: int
    size_bytes: int
    tags_code: int
    stored_at_ms: int


class ConsumeQueue:
    """Messages by queue offset, from `min_offset` to `max_offset` (the next one to be written)."""

    def __init__(self) -> None:
        self.min_offset = 0
        self.max_offset = 0
        # The commit log offset of the newest message, also after it was dropped; -1 when it is unknown.
        self.last_commit_log_offset = -1
        self.commit_log_offsets = array("q")
        self.sizes = array("i")
        self.tags_codes = array("q")
        self.stored_at_ms = array("q")

    def append(self, commit_log_offset: int, size_bytes: int, tags_code: int, stored_at_ms: int) -> None:
        """Add the next message."""
        self.commit_log_offsets.append(commit_log_offset)
        self.last_commit_log_offset = commit_log_offset
        self.sizes.append(size_bytes)
        self.tags_codes.append(tags_code)
        self.stored_at_ms.append(stored_at_ms)
        self.max_offset += 1

    def entry(self, queue_offset: int) -> Entry | None:
        """Return the entry of one message, None outside the queue."""
        if not self.min_offset <= queue_offset < self.max_offset:
            return None
        at = queue_offset - self.min_offset
        return Entry(
            queue_offset, self.commit_log_offsets[at], self.sizes[at], self.tags_codes[at], self.stored_at_ms[at]
        )

    def stored_between(self, start: int, end: int) -> tuple[int, list[array[int]]]:
        """Return the queue offset of the first message in a part of the log, and the columns of all in it."""
        part = slice(bisect_left(self.commit_log_offsets, start), bisect_left(self.commit_log_offsets, end))
        return self.min_offset + part.start, [column[part] for column in self._columns()]

    def extend(self, columns: Sequence[bytes], skipped_count: int) -> None:
        """Add the next messages, as `stored_between` returned them, without the first ones."""
        for column, data in zip(self._columns(), columns, strict=True):
            column.frombytes(data[skipped_count * column.itemsize :])
        self.max_offset = self.min_offset + len(self.commit_log_offsets)
        self.last_commit_log_offset = self.commit_log_offsets[-1]

    def start_at(self, queue_offset: int) -> None:
        """Start an empty queue at an offset, as after a restart when its oldest messages were dropped before."""
        self.min_offset = self.max_offset = queue_offset

    def drop_before(self, commit_log_offset: int) -> None:
        """Drop the messages before a commit log offset."""
        self._drop_first(bisect_left(self.commit_log_offsets, commit_log_offset))

    def drop_stored_before(self, time_ms: int) -> None:
        """Drop the oldest messages, those stored before a time."""
        self._drop_first(bisect_left(self.stored_at_ms, time_ms))

    def _drop_first(self, count: int) -> None:
        for column in self._columns():
            del column[:count]
        self.min_offset += count

    def _columns(self) -> tuple[array[int], ...]:
        return self.commit_log_offsets, self.sizes, self.tags_codes, self.stored_at_ms

    def first_stored_from(self, time_ms: int) -> int:
        """Return the offset of the first message stored at or after a time, `max_offset` when there is none."""
        return self.min_offset + bisect_left(self.stored_at_ms, time_ms)

    def first_stored_after(self, time_ms: int) -> int:
        """Return the offset of the first message stored after a time, `max_offset` when there is none."""
        return self.min_offset + bisect_right(self.stored_at_ms, time_ms)
