"""Stored messages as brokers return them, records back to back (MessageDecoder.decode, wire format v1 and v2)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Self

from msgspec import Struct

from rmqctl.errors import RemoteProtocolError

from .compression import decompress
from .flags import MessageFlag
from .message_id import encode_offset_id
from .properties import INNER_BASE, INNER_NUM, TAGS, UNIQ_KEY, decode_properties

MAGIC_V1 = -626843481  # 0xDAA320A7: the topic's length has one byte
MAGIC_V2 = -626843477  # 0xDAA320AB: it has two

_SIZE = struct.Struct(">i")
# size, magic, body CRC, queue id, flag, queue offset, commit log offset, sys flag, born time
_HEAD = struct.Struct(">iiiiiqqiq")
# ... and with both hosts IPv4: born host, store time, store host, reconsume times, prepared offset, body length
_ALL_V4 = struct.Struct(">iiiiiqqiq4siq4siiqi")
_ANY_V6 = MessageFlag.BORN_HOST_V6 | MessageFlag.STORE_HOST_V6
_INNER_BATCH = MessageFlag.INNER_BATCH | MessageFlag.NEED_UNWRAP
_SHORT = struct.Struct(">h")
# A record with no body, an empty topic and no properties.
_SMALLEST = _ALL_V4.size + 1 + 2


# The fixed fields of one record, as _ALL_V4 has them.
_Fixed = tuple[int, int, int, int, int, int, int, int, int, bytes, int, int, bytes, int, int, int, int]


class StoredMessage(Struct, frozen=True, eq=False):
    """One message as a broker stores it.

    Only the fixed fields are read at first; topic, properties, body and the CRC when they are asked for, and then a
    record that lies raises RemoteProtocolError.

    Times are ms since the epoch: born_at_ms is the producer's clock, stored_at_ms the broker's. `inner_index` is where
    the message stands in an inner batch, else None.
    """

    record: bytes
    _fixed: _Fixed
    _topic_at: int
    inner_index: int | None = None

    @classmethod
    def decode(cls, record: bytes, inner_index: int | None = None) -> Self:
        """Read the fixed fields of one whole record. Raises RemoteProtocolError."""
        try:
            fixed: Any = _ALL_V4.unpack_from(record)
            if fixed[7] & _ANY_V6:
                fixed, topic_at = _unpack_v6(record)
            else:
                topic_at = _ALL_V4.size + fixed[16]
        except struct.error:
            raise RemoteProtocolError("The peer sent a message that is shorter than its fixed fields.") from None
        if fixed[16] < 0 or topic_at >= len(record):
            raise RemoteProtocolError(f"The peer sent a message whose body has {fixed[16]} bytes, more than it holds.")
        return cls(record, fixed, topic_at, inner_index)

    @property
    def body_crc(self) -> int:
        """CRC-32 of the stored body without its top bit; 0 when the sender wrote none."""
        return self._fixed[2]

    @property
    def queue_id(self) -> int:
        """Queue of the topic that it is stored under."""
        return self._fixed[3]

    @property
    def flag(self) -> int:
        """The application's own flag."""
        return self._fixed[4]

    @property
    def queue_offset(self) -> int:
        """Logical offset in its queue."""
        return self._fixed[5]

    @property
    def commit_log_offset(self) -> int:
        """Byte offset in its broker's commit log."""
        return self._fixed[6]

    @property
    def sys_flag(self) -> int:
        """RocketMQ's bits, see MessageFlag."""
        return self._fixed[7]

    @property
    def born_at_ms(self) -> int:
        """When the producer made it, by the producer's clock."""
        return self._fixed[8]

    @property
    def born_host(self) -> str:
        """The producer's address as host:port, an IPv6 host in brackets."""
        return _host_text(self._fixed[9], self._fixed[10])

    @property
    def born_address(self) -> tuple[bytes, int]:
        """The producer's address as it is stored: 4 or 16 bytes, and the port."""
        return self._fixed[9], self._fixed[10]

    @property
    def stored_at_ms(self) -> int:
        """When the broker stored it, by the broker's clock."""
        return self._fixed[11]

    @property
    def store_host(self) -> str:
        """The address of the broker that stored it, as host:port."""
        return _host_text(self._fixed[12], self._fixed[13])

    @property
    def store_address(self) -> tuple[bytes, int]:
        """The address of the broker that stored it: 4 or 16 bytes, and the port."""
        return self._fixed[12], self._fixed[13]

    @property
    def reconsume_times(self) -> int:
        """How often it was sent back before this copy."""
        return self._fixed[14]

    @property
    def prepared_transaction_offset(self) -> int:
        """Commit log offset of the half message of a transaction."""
        return self._fixed[15]

    @property
    def stored_body(self) -> bytes:
        """The body as stored, compressed when the producer did so."""
        return self.record[self._topic_at - self._fixed[16] : self._topic_at]

    @property
    def body(self) -> bytes:
        """The body as the producer gave it; decompressed at each call."""
        if self._fixed[7] & MessageFlag.COMPRESSED:
            return decompress(self._fixed[7], self.stored_body)
        return self.stored_body

    @property
    def body_crc_ok(self) -> bool | None:
        """Whether the stored body is the one that was written; None when the record carries no CRC."""
        if self.body_crc == 0 and self.inner_index is not None:
            return None
        return zlib.crc32(self.stored_body) & 0x7FFFFFFF == self.body_crc

    @property
    def topic(self) -> str:
        """The topic that it is stored under; bytes that are no UTF-8 become U+FFFD, as in Java."""
        return self._topic_and_properties()[0].decode(errors="replace")

    @property
    def properties(self) -> dict[str, str]:
        """All properties, the system's and the application's; read anew at each call."""
        return decode_properties(self._topic_and_properties()[1].decode(errors="replace"))

    def _topic_and_properties(self) -> tuple[bytes, bytes]:
        record, at = self.record, self._topic_at
        try:
            if self._fixed[1] == MAGIC_V2:
                (topic_length,) = _SHORT.unpack_from(record, at)
                at += 2
            else:
                topic_length = record[at]
                at += 1
            (length,) = _SHORT.unpack_from(record, at + topic_length)
        except (struct.error, IndexError):
            raise RemoteProtocolError("The peer sent a message whose topic is longer than the message.") from None
        properties_at = at + topic_length + 2
        if topic_length < 0 or length < 0 or properties_at + length > len(record):
            raise RemoteProtocolError("The peer sent a message whose properties are longer than the message.")
        return record[at : at + topic_length], record[properties_at : properties_at + length]

    @property
    def offset_id(self) -> str:
        """The broker's message id (offsetMsgId): its address and commit log offset in hex."""
        return encode_offset_id(self._fixed[12], self._fixed[13], self._fixed[6])

    @property
    def message_id(self) -> str:
        """The id that a Java consumer shows: the producer's unique key, else the broker's id."""
        return self.properties.get(UNIQ_KEY) or self.offset_id

    @property
    def tags(self) -> str | None:
        """The message's tag."""
        return self.properties.get(TAGS)


def _unpack_v6(record: bytes) -> tuple[Any, int]:
    """Read the fixed fields of a record with one or two IPv6 hosts; returns them and where the topic starts."""
    head = _HEAD.unpack_from(record)
    born = "16s" if head[7] & MessageFlag.BORN_HOST_V6 else "4s"
    store = "16s" if head[7] & MessageFlag.STORE_HOST_V6 else "4s"
    tail = struct.Struct(f">{born}iq{store}iiqi")
    fixed = head + tail.unpack_from(record, _HEAD.size)
    return fixed, _HEAD.size + tail.size + fixed[16]


def _host_text(address: bytes, port: int) -> str:
    if len(address) == 16:
        return f"[{IPv6Address(address)}]:{port}"
    return f"{IPv4Address(address)}:{port}"


def iter_messages(data: bytes) -> Iterator[StoredMessage]:
    """Cut the body of a pull, query or view answer into messages, inner batches into theirs.

    Raises RemoteProtocolError when the records do not fill the body.
    """
    at, end = 0, len(data)
    unpack = _ALL_V4.unpack_from
    while at < end:
        left = end - at
        if left < _SMALLEST:
            raise RemoteProtocolError(f"The peer sent {left} bytes after the last message.")
        fixed: Any = unpack(data, at)
        size, magic, sys_flag, body_length = fixed[0], fixed[1], fixed[7], fixed[16]
        if magic != MAGIC_V1 and magic != MAGIC_V2:
            raise RemoteProtocolError(f"The peer sent a message with the unknown magic {magic & 0xFFFFFFFF:#010x}.")
        if not _SMALLEST <= size <= left:
            raise RemoteProtocolError(f"The peer sent a message of {size} bytes where {left} are left.")
        record = data[at : at + size]
        at += size
        if sys_flag & _ANY_V6 or not 0 <= body_length < size - _ALL_V4.size:
            message = StoredMessage.decode(record)
        else:
            message = StoredMessage(record, fixed, _ALL_V4.size + body_length)
        if sys_flag & _INNER_BATCH == _INNER_BATCH:
            yield from _unwrap(message)
        else:
            yield message


def _decimal(text: str) -> int | None:
    """Return a property's number, None when it is none. 18 digits are safe to count on within a long."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


_BATCH_HEAD = struct.Struct(">iiii")  # size, magic, CRC, flag of one message in a batch
# Brokers count them in 16 bits (BatchConsumeQueue); a small compressed record could stand for millions.
_MAX_INNER = 2**15 - 1


def _unwrap(outer: StoredMessage) -> Iterator[StoredMessage]:
    """Make the messages of an inner batch: fields of the outer record, offsets counted from its INNER_BASE."""
    properties = outer.properties
    base = _decimal(properties.get(INNER_BASE, ""))
    first_offset = outer.queue_offset if base is None else base
    body, at, index = outer.body, 0, 0
    sys_flag = outer.sys_flag & ~(_INNER_BATCH | MessageFlag.COMPRESSED)
    topic, _ = outer._topic_and_properties()  # noqa: SLF001
    hosts = outer._fixed  # noqa: SLF001
    while at < len(body):
        if index >= _MAX_INNER:
            raise RemoteProtocolError(f"The peer sent an inner batch of more than {_MAX_INNER} messages.")
        try:
            size, _, _, flag = _BATCH_HEAD.unpack_from(body, at)
            (body_length,) = _SIZE.unpack_from(body, at + 16)
            inner_body = body[at + 20 : at + 20 + body_length]
            (properties_length,) = _SHORT.unpack_from(body, at + 20 + body_length)
            tail = body[at + 20 + body_length : at + size]
            if body_length < 0 or size <= 0 or at + size > len(body) or properties_length + 2 > len(tail):
                raise RemoteProtocolError("The peer sent an inner batch whose messages do not fit it.")
            fixed = _HEAD.pack(0, MAGIC_V2, 0, outer.queue_id, flag, first_offset + index, outer.commit_log_offset,
                               sys_flag, outer.born_at_ms)  # fmt: skip
        except struct.error:
            raise RemoteProtocolError("The peer sent an inner batch that can't be read.") from None
        fixed += hosts[9] + struct.pack(">iq", hosts[10], hosts[11]) + hosts[12]
        fixed += struct.pack(">iiqi", hosts[13], outer.reconsume_times, outer.prepared_transaction_offset, body_length)
        record = fixed + inner_body + _SHORT.pack(len(topic)) + topic + tail
        yield StoredMessage.decode(_SIZE.pack(len(record)) + record[_SIZE.size :], index)
        at += size
        index += 1
    count = _decimal(properties.get(INNER_NUM, ""))
    if count is not None and count != index:
        raise RemoteProtocolError(f"The peer sent an inner batch of {index} messages that says it has {count}.")


# For those who look at 200,000 messages a second: without a property's call for each.


def stored_between(messages: list[StoredMessage], since_ms: int, until_ms: int) -> list[StoredMessage]:
    """Return the messages that were stored in a span of time, both ends included."""
    return [message for message in messages if since_ms <= message._fixed[11] <= until_ms]  # noqa: SLF001


def perhaps_with(messages: list[StoredMessage], search: Callable[[bytes], object]) -> list[StoredMessage]:
    """Return the messages whose record a search finds something in, and compressed ones, where it can't."""
    compressed = MessageFlag.COMPRESSED
    return [message for message in messages if search(message.record) or message._fixed[7] & compressed]  # noqa: SLF001


def offsets_of(messages: Sequence[StoredMessage]) -> list[int]:
    """Return the queue offset of each."""
    return [message._fixed[5] for message in messages]  # noqa: SLF001


def body_sizes(messages: Sequence[StoredMessage]) -> list[int]:
    """Return how many bytes the stored body of each has."""
    return [message._fixed[16] for message in messages]  # noqa: SLF001
