"""An encoder of stored messages, written from the format's description and not from rmqctl's decoder."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field, replace

V1 = 0xDAA320A7
V2 = 0xDAA320AB


def _host(address: bytes, port: int) -> bytes:
    return address + struct.pack(">i", port)


def properties_text(pairs: list[tuple[str, str]] | dict[str, str]) -> bytes:
    items = pairs.items() if isinstance(pairs, dict) else pairs
    return "".join(f"{name}\x01{value}\x02" for name, value in items).encode()


@dataclass(frozen=True)
class Record:
    """Fields in the order of the wire. Hosts are (address, port); `crc` None means the right one."""

    magic: int = V1
    crc: int | None = None
    queue_id: int = 3
    flag: int = 7
    queue_offset: int = 11
    commit_log_offset: int = 4096
    sys_flag: int = 0
    born_at_ms: int = 1_700_000_000_001
    born_host: tuple[bytes, int] = (bytes([192, 0, 2, 1]), 50001)
    stored_at_ms: int = 1_700_000_000_002
    store_host: tuple[bytes, int] = (bytes([192, 0, 2, 2]), 10911)
    reconsume_times: int = 2
    prepared_transaction_offset: int = 5
    body: bytes = b"hello"
    topic: bytes = b"orders"
    properties: bytes = field(default_factory=lambda: properties_text({"TAGS": "A"}))

    def encode(self) -> bytes:
        crc = zlib.crc32(self.body) & 0x7FFFFFFF if self.crc is None else self.crc
        parts = [
            struct.pack(">I", self.magic),
            struct.pack(">i", crc),
            struct.pack(">i", self.queue_id),
            struct.pack(">i", self.flag),
            struct.pack(">q", self.queue_offset),
            struct.pack(">q", self.commit_log_offset),
            struct.pack(">i", self.sys_flag),
            struct.pack(">q", self.born_at_ms),
            _host(*self.born_host),
            struct.pack(">q", self.stored_at_ms),
            _host(*self.store_host),
            struct.pack(">i", self.reconsume_times),
            struct.pack(">q", self.prepared_transaction_offset),
            struct.pack(">i", len(self.body)),
            self.body,
            struct.pack(">h" if self.magic == V2 else ">B", len(self.topic)),
            self.topic,
            struct.pack(">h", len(self.properties)),
            self.properties,
        ]
        data = b"".join(parts)
        return struct.pack(">i", 4 + len(data)) + data

    def but(self, **changes: object) -> bytes:
        """Return the bytes of this record with other values in some fields."""
        return replace(self, **changes).encode()  # type: ignore[arg-type]


def batch_entry(body: bytes, flag: int = 0, properties: bytes = b"") -> bytes:
    """Return one message of a batch's body."""
    rest = struct.pack(">iiii", 0, 0, flag, len(body)) + body + struct.pack(">h", len(properties)) + properties
    return struct.pack(">i", 4 + len(rest)) + rest
