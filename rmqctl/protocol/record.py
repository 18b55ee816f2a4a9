"""Write stored messages as brokers do (MessageExtEncoder); read batches as producers send them (MessageDecoder)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from rmqctl.errors import RemoteProtocolError

from .flags import MessageFlag
from .message import MAGIC_V1, MAGIC_V2, StoredMessage

# size, magic, body CRC, queue id, flag, queue offset, commit log offset, sys flag, born time
_HEAD = struct.Struct(">iiiiiqqiq")
_PORT_AND_TIME = struct.Struct(">iq")
_PORT_AND_TIMES = struct.Struct(">iiqi")
_SHORT = struct.Struct(">h")
_BATCH_HEAD = struct.Struct(">iiiii")  # size, magic, CRC, flag, body length

# The longest topic whose length fits one byte; a record with a longer topic has the second magic.
_LONGEST_TOPIC_V1 = 127

Host = tuple[bytes, int]
"""An address (4 or 16 bytes) and a port."""


class BatchPart(NamedTuple):
    """One message of a batch; `properties` is the encoded text, not yet split."""

    flag: int
    body: bytes
    properties: str


def encode_record(
    *,
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    commit_log_offset: int,
    flag: int,
    sys_flag: int,
    born_at_ms: int,
    born_host: Host,
    stored_at_ms: int,
    store_host: Host,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body: bytes,
    properties: bytes,
) -> bytes:
    """Return one whole record. Raises struct.error for numbers and texts that do not fit their fields."""
    bits = sys_flag & ~(MessageFlag.BORN_HOST_V6 | MessageFlag.STORE_HOST_V6)
    bits |= MessageFlag.BORN_HOST_V6 if len(born_host[0]) == 16 else 0
    bits |= MessageFlag.STORE_HOST_V6 if len(store_host[0]) == 16 else 0
    magic, topic_length = (MAGIC_V1, bytes((len(topic),))) if len(topic) <= _LONGEST_TOPIC_V1 else (
        MAGIC_V2, _SHORT.pack(len(topic))
    )  # fmt: skip
    size = record_size(len(topic), len(body), len(properties), len(born_host[0]), len(store_host[0]))
    crc = zlib.crc32(body) & 0x7FFFFFFF
    return b"".join((
        _HEAD.pack(size, magic, crc, queue_id, flag, queue_offset, commit_log_offset, bits, born_at_ms),
        born_host[0], _PORT_AND_TIME.pack(born_host[1], stored_at_ms),
        store_host[0], _PORT_AND_TIMES.pack(store_host[1], reconsume_times, prepared_transaction_offset, len(body)),
        body, topic_length, topic, _SHORT.pack(len(properties)), properties,
    ))  # fmt: skip


def copy_record(message: StoredMessage, *, topic: bytes, properties: bytes, **changes: int) -> bytes:
    """Return the record of a stored message with another topic and other properties.

    `changes` are numbers by the names of encode_record(). Raises as encode_record() does.
    """
    numbers = {
        "queue_id": message.queue_id, "queue_offset": message.queue_offset,
        "commit_log_offset": message.commit_log_offset, "flag": message.flag, "sys_flag": message.sys_flag,
        "born_at_ms": message.born_at_ms, "stored_at_ms": message.stored_at_ms,
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_transaction_offset, **changes,
    }  # fmt: skip
    return encode_record(
        topic=topic, born_host=message.born_address, store_host=message.store_address, body=message.stored_body,
        properties=properties, **numbers,
    )  # fmt: skip


def record_size(topic: int, body: int, properties: int, born_host: int = 4, store_host: int = 4) -> int:
    """Return the size in bytes of a record from the sizes of its parts."""
    topic_length = 1 if topic <= _LONGEST_TOPIC_V1 else 2
    hosts = born_host + _PORT_AND_TIME.size + store_host
    return _HEAD.size + hosts + _PORT_AND_TIMES.size + body + topic_length + topic + _SHORT.size + properties


def iter_batch(body: bytes) -> Iterator[BatchPart]:
    """Yield the messages of a batch send's body. Raises RemoteProtocolError when they do not fill it."""
    at = 0
    while at < len(body):
        try:
            size, _, _, flag, length = _BATCH_HEAD.unpack_from(body, at)
            properties_at = at + _BATCH_HEAD.size + length
            (properties_length,) = _SHORT.unpack_from(body, properties_at)
        except struct.error:
            raise RemoteProtocolError("The peer sent a batch that is cut off.") from None
        end = properties_at + _SHORT.size + properties_length
        if length < 0 or properties_length < 0 or end != at + size or end > len(body):
            raise RemoteProtocolError("The peer sent a batch whose messages do not fit it.")
        text = body[properties_at + _SHORT.size : end].decode(errors="replace")
        yield BatchPart(flag, body[at + _BATCH_HEAD.size : properties_at], text)
        at = end
