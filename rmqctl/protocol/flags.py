"""Bit flags of the protocol.

Plain numbers: IntFlag needs a microsecond for each test of a bit, and up to 200,000 messages a second arrive.
"""

from __future__ import annotations

from typing import Final


class CommandFlag:
    """RemotingCommand.flag: the kind of a frame."""

    RESPONSE: Final = 1
    ONEWAY: Final = 2


class PullFlag:
    """PullMessageRequestHeader.sysFlag (PullSysFlag)."""

    COMMIT_OFFSET: Final = 1
    SUSPEND: Final = 2
    SUBSCRIPTION: Final = 4
    CLASS_FILTER: Final = 8
    LITE_PULL: Final = 16


class MessageFlag:
    """MessageExt.sysFlag (MessageSysFlag)."""

    COMPRESSED: Final = 0x1
    MULTI_TAGS: Final = 0x2
    TRANSACTION_PREPARED: Final = 0x4
    TRANSACTION_COMMITTED: Final = 0x8
    TRANSACTION_ROLLED_BACK: Final = 0xC
    BORN_HOST_V6: Final = 0x10
    STORE_HOST_V6: Final = 0x20
    NEED_UNWRAP: Final = 0x40
    INNER_BATCH: Final = 0x80


# Bits 8 to 10 of MessageExt.sysFlag (CompressionType): 0, as clients before 5.0 write it, means zlib.
COMPRESSION_MASK = 0x700
COMPRESSION_LZ4 = 0x100
COMPRESSION_ZSTD = 0x200
COMPRESSION_ZLIB = 0x300


class Permission:
    """TopicConfig.perm and QueueData.perm (PermName)."""

    INHERIT: Final = 1
    WRITE: Final = 2
    READ: Final = 4
    PRIORITY: Final = 8
