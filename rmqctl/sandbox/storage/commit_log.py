"""The commit log: records of all queues one after the other, found by their byte offset."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Protocol

SEGMENT_BYTES = 16 * 1024 * 1024


class Segment(Protocol):
    """A part of the log. `base` is the log offset of its first byte, `name` its name in messages to the user.

    `keeps_entries` is whether `save_entries` has any effect.
    """

    base: int
    keeps_entries: bool

    @property
    def name(self) -> str:
        """The name in messages to the user."""

    @property
    def size_bytes(self) -> int:
        """The size of its data."""

    def append(self, data: bytes) -> None:
        """Add bytes, all of them or none. Raises OSError."""

    def read(self, at: int, size_bytes: int) -> bytes:
        """Return bytes from a position; fewer when the segment ends before. Raises OSError."""

    def truncate(self, size_bytes: int) -> None:
        """Discard everything from a position to the end. Raises OSError."""

    def flush(self) -> None:
        """Flush everything written so far, so that it survives a power cut. Raises OSError."""

    def remove(self) -> None:
        """Close the segment and delete it. Raises OSError."""

    def close(self) -> None:
        """Close open files."""

    def save_entries(self, content: bytes) -> None:
        """Save what the queues know about its messages, where that is possible."""

    def read_entries(self) -> bytes:
        """Return what was saved, b"" if nothing was."""

    def keep_end(self, at: int) -> str:
        """Save the bytes from a position on before they are cut off; return where. Raises OSError."""


class MemorySegment:
    """A segment in memory; it ends with the process."""

    name = "memory"
    keeps_entries = False

    def __init__(self, base: int) -> None:
        self.base = base
        self._data = bytearray()

    @property
    def size_bytes(self) -> int:
        """See Segment."""
        return len(self._data)

    def append(self, data: bytes) -> None:
        """See Segment."""
        self._data += data

    def read(self, at: int, size_bytes: int) -> bytes:
        """See Segment."""
        with memoryview(self._data) as view:
            return bytes(view[at : at + size_bytes])

    def truncate(self, size_bytes: int) -> None:
        """See Segment."""
        del self._data[size_bytes:]

    def flush(self) -> None:
        """See Segment. A simulated power cut is applied by the log."""

    def remove(self) -> None:
        """See Segment."""

    def close(self) -> None:
        """See Segment."""

    def save_entries(self, content: bytes) -> None:
        """See Segment."""

    def read_entries(self) -> bytes:
        """See Segment."""
        return b""

    def keep_end(self, at: int) -> str:
        """See Segment. Memory is not damaged."""
        raise NotImplementedError


class CommitLog:
    """Records back to back in segments. Old segments are dropped from the front, unflushed records from the end.

    `start` is the offset of the oldest remaining byte, `end` the offset of the next record, `flushed` the end that
    would survive a power cut. A record is never split across two segments. `make` creates a segment that begins at an
    offset; `found` are the existing segments. `on_full` is called with each segment that gets no further record.
    """

    def __init__(
        self, segment_bytes: int = SEGMENT_BYTES, make: Callable[[int], Segment] = MemorySegment,
        found: Sequence[Segment] = (),
    ) -> None:  # fmt: skip
        self._segment_bytes = segment_bytes
        self._make = make
        self.segments: list[Segment] = list(found) or [make(0)]
        self._bases = [segment.base for segment in self.segments]
        self.end = self.flushed = self._bases[-1] + self.segments[-1].size_bytes
        self.on_full: Callable[[Segment], None] = lambda _: None

    @property
    def start(self) -> int:
        """The offset of the oldest remaining byte."""
        return self._bases[0]

    def append(self, records: bytes) -> None:
        """Add one or more whole records at `end`, all or none. Raises OSError."""
        segment = self.segments[-1]
        if segment.size_bytes and segment.size_bytes + len(records) > self._segment_bytes:
            segment = self._roll(segment)
        segment.append(records)
        self.end += len(records)

    def _roll(self, full: Segment) -> Segment:
        # All segments but the last are complete after a power cut: the next one starts only when this one is flushed.
        full.flush()
        self._note_flushed(self.end)
        self.on_full(full)
        segment = self._make(self.end)
        self._bases.append(self.end)
        self.segments.append(segment)
        return segment

    def read(self, commit_log_offset: int, size_bytes: int) -> bytes:
        """Return bytes from an offset; fewer than requested at the end of the log, none outside it."""
        if not self._bases[0] <= commit_log_offset < self.end or size_bytes <= 0:
            return b""
        number = bisect_right(self._bases, commit_log_offset) - 1
        data = self.segments[number].read(commit_log_offset - self._bases[number], size_bytes)
        if len(data) < size_bytes and number + 1 < len(self._bases):
            # Consecutive records, the first of them at the end of one segment.
            data += self.read(self._bases[number + 1], size_bytes - len(data))
        return data

    def flush(self) -> None:
        """Flush everything written so far, so that it survives a power cut. Raises OSError."""
        if self.flushed < self.end:
            self.segments[-1].flush()
            self._note_flushed(self.end)

    def _note_flushed(self, end: int) -> None:
        self.flushed = max(self.flushed, end)

    def make_flush(self) -> Callable[[], None]:
        """Return a function that flushes everything written so far. Call it once, in any thread; it raises OSError."""
        return self.flush

    def flush_behind(self) -> None:
        """Flush outside the event loop where a flush takes time; `flushed` is updated when it is done."""
        self.flush()

    def truncate(self, end: int) -> None:
        """Discard everything from the offset of a record to the end. Raises OSError."""
        while self._bases[-1] >= end and len(self._bases) > 1:
            self._bases.pop()
            self.segments.pop().remove()
        self.segments[-1].truncate(end - self._bases[-1])
        self.end = end
        self.flushed = min(self.flushed, end)

    def has_segment_before(self, commit_log_offset: int) -> bool:
        """Return whether `drop_before()` would delete a segment."""
        return len(self._bases) > 1 and self._bases[1] <= commit_log_offset

    def drop_before(self, commit_log_offset: int) -> None:
        """Delete the segments that end at or before an offset, except the newest. Raises OSError."""
        while self.has_segment_before(commit_log_offset):
            del self._bases[0]
            self.segments.pop(0).remove()

    def second_segment_start(self) -> int | None:
        """Return where the log would start without its oldest segment, None when it has only one."""
        return self._bases[1] if len(self._bases) > 1 else None

    def close(self) -> None:
        """Flush, and close all segments. Raises OSError."""
        try:
            self.flush()
        finally:
            for segment in self.segments:
                segment.close()
