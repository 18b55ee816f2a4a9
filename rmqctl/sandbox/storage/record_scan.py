"""Finds the records in a stored segment, and the position where it is damaged."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from rmqctl.protocol.flags import MessageFlag
from rmqctl.protocol.message import MAGIC_V1, MAGIC_V2
from rmqctl.protocol.properties import decode_properties

_SIZE_AND_MAGIC = struct.Struct(">ii")
# size, magic, body CRC, queue id, (flag,) queue offset, commit log offset, sys flag
_HEAD = struct.Struct(">iiii4xqqi")
_V6 = MessageFlag.BORN_HOST_V6 | MessageFlag.STORE_HOST_V6
# By sys flag: (born time, born host,) store time, (store host, reconsume times, prepared offset,) body length
_TAILS = {
    0: struct.Struct(">8x8xq8x4x8xi"),
    MessageFlag.BORN_HOST_V6: struct.Struct(">8x20xq8x4x8xi"),
    MessageFlag.STORE_HOST_V6: struct.Struct(">8x8xq20x4x8xi"),
    _V6: struct.Struct(">8x20xq20x4x8xi"),
}
_SHORT = struct.Struct(">h")


class ScannedRecord(NamedTuple):
    """One complete record; `at` is its position in the segment."""

    at: int
    size_bytes: int
    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    stored_at_ms: int
    properties: dict[str, str]


class DamagedError(Exception):
    """A segment cannot be read from this position on."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at


def iter_records(data: bytes, base: int) -> Iterator[ScannedRecord]:
    """Yield the records of a segment (CommitLog.checkMessageAndReturnSize). Raises DamagedError.

    A record is valid when its size, magic, position in the log, lengths of parts and body CRC fit. RocketMQ's format
    has no checksum over the rest.
    """
    at, end = 0, len(data)
    view = memoryview(data)
    while at < end:
        if end - at < _SIZE_AND_MAGIC.size:
            raise DamagedError(at, "an incomplete header")
        size, magic = _SIZE_AND_MAGIC.unpack_from(data, at)
        if magic not in (MAGIC_V1, MAGIC_V2):
            raise DamagedError(at, "no record starts here")
        if size > end - at:
            raise DamagedError(at, "an incomplete record")
        try:
            found = _read(data, view, at, base)
        except (struct.error, IndexError):
            raise DamagedError(at, "a record whose parts exceed its size") from None
        yield found
        at += size


def _read(data: bytes, view: memoryview, at: int, base: int) -> ScannedRecord:
    size, magic, crc, queue_id, queue_offset, commit_log_offset, sys_flag = _HEAD.unpack_from(data, at)
    tail = _TAILS[sys_flag & _V6]
    stored_at_ms, body_bytes = tail.unpack_from(data, at + _HEAD.size)
    body_at = at + _HEAD.size + tail.size
    topic_at, end = body_at + body_bytes, at + size
    if body_bytes < 0 or topic_at >= end:
        raise DamagedError(at, "a record whose parts exceed its size")
    if magic == MAGIC_V2:
        (topic_bytes,) = _SHORT.unpack_from(data, topic_at)
        topic_at += 2
    else:
        topic_bytes = data[topic_at]
        topic_at += 1
    properties_at = topic_at + topic_bytes + _SHORT.size
    (properties_bytes,) = _SHORT.unpack_from(data, properties_at - _SHORT.size)
    if topic_bytes < 0 or properties_bytes < 0 or properties_at + properties_bytes != end:
        raise DamagedError(at, "a record whose parts do not fill its size")
    if commit_log_offset != base + at:
        raise DamagedError(at, "a record of another position")
    if zlib.crc32(view[body_at : body_at + body_bytes]) & 0x7FFFFFFF != crc:
        raise DamagedError(at, "a record with a wrong body CRC")
    return ScannedRecord(
        at, size, data[topic_at : topic_at + topic_bytes].decode(errors="replace"), queue_id, queue_offset,
        commit_log_offset, stored_at_ms, decode_properties(data[properties_at:end].decode(errors="replace")),
    )  # fmt: skip
