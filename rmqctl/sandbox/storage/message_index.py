"""An index of messages by key (IndexService): hashes in the order of the log, 16 bytes per key."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from zlib import crc32

from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.properties import KEYS, TAGS, UNIQ_KEY, split_keys

# The prefix under which 5.4 indexes tags as well (MessageConst.INDEX_TAG_TYPE).
TAG_PREFIX = "T#"


class MessageIndex:
    """Hashes of topic and key with the commit log offset of the message. Check each hit against the message.

    `begins_at_ms` is when the first message was indexed: RocketMQ keeps times as whole seconds since then.
    """

    def __init__(self) -> None:
        self.begins_at_ms = 0
        # The same in each process: a start reads those that an earlier one saved.
        self._hashes = array("I")
        self._offsets = array("q")

    def add(self, topic: str, properties: Mapping[str, str], commit_log_offset: int, stored_at_ms: int) -> None:
        """Index a message under each of its keys (see index_keys)."""
        keys = index_keys(properties)
        if not keys:
            return
        if not self.begins_at_ms:
            self.begins_at_ms = stored_at_ms
        start = crc32(topic.encode())
        self._hashes.extend([crc32(key.encode(), start) for key in keys])
        self._offsets.extend([commit_log_offset] * len(keys))

    @property
    def last_offset(self) -> int | None:
        """The commit log offset of the newest message with a key, None when no message has one."""
        return self._offsets[-1] if self._offsets else None

    def newest_first(self, topic: str, key: str) -> Iterator[int]:
        """Return offsets of messages that may carry a key, newest first; twice for a message that names it twice."""
        wanted, found, at = crc32(key.encode(), crc32(topic.encode())), [], 0
        try:
            while True:
                at = self._hashes.index(wanted, at)
                found.append(self._offsets[at])
                at += 1
        except ValueError:
            return reversed(found)

    def added_between(self, start: int, end: int) -> tuple[array[int], array[int]]:
        """Return hashes and commit log offsets of the messages in a part of the log."""
        part = slice(bisect_left(self._offsets, start), bisect_left(self._offsets, end))
        return self._hashes[part], self._offsets[part]

    def extend(self, hashes: bytes, offsets: bytes, begins_at_ms: int) -> None:
        """Add the next part, as `added_between` returned it, and when its first message was indexed."""
        self.begins_at_ms = self.begins_at_ms or begins_at_ms
        self._hashes.frombytes(hashes)
        self._offsets.frombytes(offsets)

    def indexed_at_ms(self, stored_at_ms: int) -> int:
        """Return the time of a message as the index stores it, epoch ms (IndexFile.putKey)."""
        return stored_at_ms - (stored_at_ms - self.begins_at_ms) % 1000

    def drop_before(self, commit_log_offset: int) -> None:
        """Drop the messages before a commit log offset."""
        count = bisect_left(self._offsets, commit_log_offset)
        del self._hashes[:count], self._offsets[:count]


def index_keys(properties: Mapping[str, str]) -> list[str]:
    """Return the index keys of a message: its keys, its unique key, its prefixed tag (buildIndex)."""
    keys = split_keys(properties.get(KEYS))
    if UNIQ_KEY in properties:
        keys.append(properties[UNIQ_KEY])
    if TAGS in properties:
        keys.append(TAG_PREFIX + properties[TAGS])
    return keys


def carries(message: StoredMessage, topic: str, key: str) -> bool:
    """Return whether a message that the index found has this topic and key."""
    return message.topic == topic and key in index_keys(message.properties)
