"""The conditions of `message find`, checked on the messages themselves."""

from __future__ import annotations

import re

from msgspec import Struct

from rmqctl.errors import RemoteProtocolError
from rmqctl.protocol.message import StoredMessage, perhaps_with, stored_between
from rmqctl.protocol.properties import KEYS, UNIQ_KEY, split_keys
from rmqctl.rules.dead_letters import origin_message_id, origin_topic
from rmqctl.rules.message_filters.tags import has_tag

_END_OF_TIME_MS = 2**63 - 1


class MessageFilter(Struct, frozen=True):
    """Conditions that a message must all meet; None and empty ones are ignored. Times are store times, both inclusive.

    `ids`: one of them is the unique key, the broker's id, or the id of the first copy (ORIGIN_MESSAGE_ID).
    `origin_topics`: one of them is the topic that a retried or dead message was first sent to.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    key: str | None = None
    tags: frozenset[str] = frozenset()
    contains: bytes | None = None
    properties: tuple[tuple[str, str], ...] = ()
    property_name: str | None = None
    ids: frozenset[str] = frozenset()
    origin_topics: frozenset[str] = frozenset()

    def select(self, messages: list[StoredMessage]) -> list[StoredMessage]:
        """Return the messages that meet every condition. Raises RemoteProtocolError for an unreadable one."""
        if self.since_ms is not None or self.until_ms is not None:
            until_ms = _END_OF_TIME_MS if self.until_ms is None else self.until_ms
            messages = stored_between(messages, self.since_ms or 0, until_ms)
        for name, value in self.properties:
            # Most messages can be rejected without decoding all their properties.
            written = value.encode(errors="surrogateescape")
            messages = [m for m in messages if written in m.record and m.properties.get(name) == value]
        if self.property_name is not None:
            # A regular expression is faster than `in`, see below.
            search = re.compile(re.escape(self.property_name.encode())).search
            messages = [m for m in messages if search(m.record) and self.property_name in m.properties]
        if self.tags:
            messages = [message for message in messages if has_tag(self.tags, message.tags)]
        if self.key is not None:
            messages = [message for message in messages if has_key(message, self.key)]
        if self.ids:
            messages = [message for message in messages if not self.ids.isdisjoint(_ids(message))]
        if self.origin_topics:
            messages = [message for message in messages if origin_topic(message.properties) in self.origin_topics]
        if self.contains is not None:
            # A regular expression finds a fixed text in 1 KiB in 0.5 us, whatever surrounds it; `in` needs up to 3 us.
            # The whole record is searched first, because extracting the body costs as much as the search.
            search = re.compile(re.escape(self.contains)).search
            messages = [message for message in perhaps_with(messages, search) if search(message.body)]
        return messages

    def select_with_unreadable(self, messages: list[StoredMessage]) -> list[StoredMessage]:
        """Return the messages that meet every condition, and the unreadable ones, which are shown with their error."""
        selected = []
        for message in messages:
            try:
                selected += self.select([message])
            except RemoteProtocolError:
                selected.append(message)
        return selected


def has_key(message: StoredMessage, key: str) -> bool:
    """Return whether a message carries a key: one of its business keys, or the producer's unique key."""
    properties = message.properties
    return key in split_keys(properties.get(KEYS)) or properties.get(UNIQ_KEY) == key


def _ids(message: StoredMessage) -> tuple[str | None, ...]:
    properties = message.properties
    return properties.get(UNIQ_KEY), message.offset_id, origin_message_id(properties)
