"""Bit flags of the protocol."""

from __future__ import annotations

from enum import IntFlag


class CommandFlag(IntFlag):
    """RemotingCommand.flag: what kind of frame it is."""

    RESPONSE = 1
    ONEWAY = 2


class PullFlag(IntFlag):
    """PullMessageRequestHeader.sysFlag (PullSysFlag)."""

    COMMIT_OFFSET = 1
    SUSPEND = 2
    SUBSCRIPTION = 4
    CLASS_FILTER = 8
    LITE_PULL = 16


class MessageFlag(IntFlag):
    """MessageExt.sysFlag (MessageSysFlag)."""

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_COMMITTED = 0x8
    TRANSACTION_ROLLED_BACK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80


# Bits 8 to 10 of MessageExt.sysFlag (CompressionType): 0 is what clients before 5.0 leave, and means zlib.
COMPRESSION_MASK = 0x700
COMPRESSION_LZ4 = 0x100
COMPRESSION_ZSTD = 0x200
COMPRESSION_ZLIB = 0x300


class Permission(IntFlag):
    """TopicConfig.perm and QueueData.perm (PermName)."""

    INHERIT = 1
    WRITE = 2
    READ = 4
    PRIORITY = 8
