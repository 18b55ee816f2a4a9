"""Message ids of both kinds: the broker's (MessageDecoder.createMessageId) and the producer's (MessageClientIDSetter).

Both are upper-case hex: 32 characters with an IPv4 address, 56 with an IPv6 address. The text alone does not show
the kind, but the decoded values do: the port of a broker's id belongs to a known broker.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address

from msgspec import Struct

_PORT_AND_OFFSET = struct.Struct(">iq")
_PID_HASH_TIME_COUNTER = struct.Struct(">HiiH")


class OffsetId(Struct, frozen=True):
    """The broker's id: the position of the stored message. It changes with every retry."""

    host: str
    port: int
    commit_log_offset: int


class UniqueKey(Struct, frozen=True):
    """The producer's id (property UNIQ_KEY), which stays the same over retries.

    `since_month_start_ms` counts from the start of the month in which the producer started, in its own zone.
    """

    host: str
    pid: int
    class_loader_hash: int
    since_month_start_ms: int
    counter: int


class ClientId(Struct, frozen=True):
    """The id that the 5.x SDKs create (MessageIdCodec, version 1), 34 digits; also the message's unique key."""

    mac: str
    pid: int
    made_at_ms: int
    counter: int


# The SDKs count seconds from 2021-01-01T00:00:00Z.
_CLIENT_ID_EPOCH_MS = 1_609_459_200_000
_CLIENT_ID = struct.Struct(">B6sHII")


def encode_offset_id(address: bytes, port: int, commit_log_offset: int) -> str:
    """Return the broker's id of a message from its store host's address (4 or 16 bytes), port and offset."""
    return (address + _PORT_AND_OFFSET.pack(port, commit_log_offset)).hex().upper()


def decode_offset_id(text: str) -> OffsetId:
    """Read an id as the broker's kind. Raises ValueError when it cannot be one."""
    host, rest = _split(text)
    port, commit_log_offset = _PORT_AND_OFFSET.unpack(rest)
    if not 0 < port < 65536 or commit_log_offset < 0:
        raise ValueError(f"{text} is not an offset message id: it would mean port {port}, offset {commit_log_offset}")
    return OffsetId(host, port, commit_log_offset)


def decode_unique_key(text: str) -> UniqueKey:
    """Read an id as the producer's kind. Raises ValueError when it cannot be one."""
    host, rest = _split(text)
    return UniqueKey(host, *_PID_HASH_TIME_COUNTER.unpack(rest))


def decode_client_id(text: str) -> ClientId:
    """Read an id as one of the 5.x SDKs. Raises ValueError when it cannot be one."""
    try:
        version, mac, pid, seconds, counter = _CLIENT_ID.unpack(bytes.fromhex(text))
    except (ValueError, struct.error):
        raise ValueError(f"{text!r} is not an id of a 5.x SDK: such an id has 34 hexadecimal digits") from None
    if version != 1:
        raise ValueError(f"{text} is not an id of a 5.x SDK: it would have version {version}")
    return ClientId(mac.hex(":"), pid, _CLIENT_ID_EPOCH_MS + seconds * 1000, counter)


def _split(text: str) -> tuple[str, bytes]:
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(data) not in (16, 28) or len(text) != 2 * len(data):
        raise ValueError(f"{text!r} is not a message id: an id has 32 or 56 hexadecimal digits")
    if len(data) == 16:
        return str(IPv4Address(data[:4])), data[4:]
    return str(IPv6Address(data[:16])), data[16:]
