"""The commit log: records of all queues one after the other, found by their byte offset."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Protocol

SEGMENT_BYTES = 16 * 1024 * 1024


class Segment(Protocol):
    """A part of the log. `base` is the log offset of its first byte, `name` is what messages call it."""

    base: int

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def size_bytes(self) -> int:
        """How much it holds."""

    def append(self, data: bytes) -> None:
        """Add bytes, all of them or none. Raises OSError."""

    def read(self, at: int, size_bytes: int) -> bytes:
        """Return bytes from a position on; fewer where it ends. Raises OSError."""

    def truncate(self, size_bytes: int) -> None:
        """Forget everything from a position on. Raises OSError."""

    def flush(self) -> None:
        """Make everything so far survive a power cut. Raises OSError."""

    def remove(self) -> None:
        """Let go of it for good. Raises OSError."""

    def close(self) -> None:
        """Let go of what is held open."""


class MemorySegment:
    """A segment that is gone with the process."""

    name = "memory"

    def __init__(self, base: int) -> None:
        self.base = base
        self._data = bytearray()

    @property
    def size_bytes(self) -> int:
        """How much it holds."""
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
        """See Segment; what a power cut would take is for the log to forget."""

    def remove(self) -> None:
        """See Segment."""

    def close(self) -> None:
        """See Segment."""


class CommitLog:
    """Records back to back in segments. Old segments can be dropped from the front, what is not flushed from the end.

    `start` is the offset of the first byte that is left, `end` the one that the next record gets, `flushed` the end
    as it would be found after a power cut. A record is never split over two segments. `make` makes a segment that
    begins at an offset, `found` are those that are there already.
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

    @property
    def start(self) -> int:
        """Offset of the oldest byte that is left."""
        return self._bases[0]

    def append(self, records: bytes) -> None:
        """Add one or more whole records at `end`, all or none. Raises OSError."""
        segment = self.segments[-1]
        if segment.size_bytes and segment.size_bytes + len(records) > self._segment_bytes:
            segment = self._roll(segment)
        segment.append(records)
        self.end += len(records)

    def _roll(self, full: Segment) -> Segment:
        # All but the last segment are whole after a power cut: the next one begins only when this is on the disk.
        full.flush()
        self._note_flushed(self.end)
        segment = self._make(self.end)
        self._bases.append(self.end)
        self.segments.append(segment)
        return segment

    def read(self, commit_log_offset: int, size_bytes: int) -> bytes:
        """Return bytes from an offset on; fewer than asked for where the log ends, none outside of it."""
        if not self._bases[0] <= commit_log_offset < self.end or size_bytes <= 0:
            return b""
        number = bisect_right(self._bases, commit_log_offset) - 1
        data = self.segments[number].read(commit_log_offset - self._bases[number], size_bytes)
        if len(data) < size_bytes and number + 1 < len(self._bases):
            # Records that stand next to each other, the first at the end of one segment.
            data += self.read(self._bases[number + 1], size_bytes - len(data))
        return data

    def flush(self) -> None:
        """Make everything so far survive a power cut. Raises OSError."""
        if self.flushed < self.end:
            self.segments[-1].flush()
            self._note_flushed(self.end)

    def _note_flushed(self, end: int) -> None:
        self.flushed = max(self.flushed, end)

    def make_flush(self) -> Callable[[], None]:
        """Return what makes everything so far survive a power cut, to be called once in any thread. Raises OSError."""
        return self.flush

    def flush_behind(self) -> None:
        """Do the same beside the event loop where it takes time; `flushed` follows when it is done."""
        self.flush()

    def truncate(self, end: int) -> None:
        """Forget everything from a record's offset on. Raises OSError."""
        while self._bases[-1] >= end and len(self._bases) > 1:
            self._bases.pop()
            self.segments.pop().remove()
        self.segments[-1].truncate(end - self._bases[-1])
        self.end = end
        self.flushed = min(self.flushed, end)

    def drop_before(self, commit_log_offset: int) -> None:
        """Free the segments that end at or before an offset; the one that is being written stays. Raises OSError."""
        while len(self._bases) > 1 and self._bases[1] <= commit_log_offset:
            del self._bases[0]
            self.segments.pop(0).remove()

    def second_segment_start(self) -> int | None:
        """Return where the log would start without its oldest segment, None when it has one only."""
        return self._bases[1] if len(self._bases) > 1 else None

    def close(self) -> None:
        """Flush, and let go of what is held open. Raises OSError."""
        try:
            self.flush()
        finally:
            for segment in self.segments:
                segment.close()
