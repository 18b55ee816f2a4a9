"""What queues and the index know about the messages of one full segment, saved next to it.

A start would otherwise read every record. Only a saved file that fits the segment, byte for byte, is used; without one,
the records are read as before, so the file is never more than a shortcut.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from rmqctl.protocol.message import StoredMessage

from .commit_log import Segment
from .consume_queue import ConsumeQueue
from .message_index import MessageIndex

_OFFSET_BYTES = array("q").itemsize
_FORMAT = f"rmqctl segment entries 1 {sys.byteorder}"


class QueueEntries(Struct, array_like=True):
    """The messages of one queue, in order; the columns are those of ConsumeQueue as bytes."""

    topic: str
    queue_id: int
    first_offset: int
    columns: list[bytes]

    @property
    def count(self) -> int:
        """The number of messages."""
        return len(self.columns[0]) // _OFFSET_BYTES

    def count_before(self, commit_log_offset: int) -> int:
        """Return how many messages are stored before an offset of the log."""
        return bisect_left(memoryview(self.columns[0]).cast("q"), commit_log_offset)


class SegmentEntries(Struct, array_like=True):
    """The messages of a segment at this offset, of this size and check sum, by queue, and their keys.

    `begins_at_ms` is when the first message with a key was stored, 0 when none has one.
    """

    format: str
    base: int
    size_bytes: int
    crc: int
    queues: list[QueueEntries]
    key_hashes: bytes
    key_offsets: bytes
    begins_at_ms: int

    def is_of(self, data: bytes) -> bool:
        """Return whether the segment still has the bytes that these entries are about."""
        return self.crc == zlib.crc32(data)


def save_entries(segment: Segment, queues: Mapping[str, Mapping[int, ConsumeQueue]], index: MessageIndex) -> None:
    """Save the entries of a full segment next to it, if it is a file."""
    if not segment.keeps_entries:
        return
    data = segment.read(0, segment.size_bytes)
    start, end = segment.base, segment.base + len(data)
    found = [
        QueueEntries(topic, queue_id, first_offset, [column.tobytes() for column in columns])
        for topic, by_id in queues.items()
        for queue_id, queue in by_id.items()
        for first_offset, columns in [queue.stored_between(start, end)]
        if columns[0]
    ]
    hashes, offsets = index.added_between(start, end)
    begins_at_ms = StoredMessage.decode(data[offsets[0] - start :]).stored_at_ms if offsets else 0
    content = msgspec.msgpack.encode(
        SegmentEntries(
            _FORMAT, start, len(data), zlib.crc32(data), found, hashes.tobytes(), offsets.tobytes(), begins_at_ms
        )
    )
    segment.save_entries(_check_sum(content) + content)


def read_entries(segment: Segment) -> SegmentEntries | None:
    """Return the saved entries of a segment of this place and size, None when there are none that can be read."""
    saved = segment.read_entries()
    check_sum, content = saved[:4], saved[4:]
    if check_sum != _check_sum(content):
        return None
    try:
        found = msgspec.msgpack.decode(content, type=SegmentEntries)
    except msgspec.DecodeError:
        return None
    is_same = (found.format, found.base, found.size_bytes) == (_FORMAT, segment.base, segment.size_bytes)
    return found if is_same else None


def _check_sum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "big")
