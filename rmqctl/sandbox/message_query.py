"""Query messages by key (DefaultMessageStore.queryMessage)."""

from __future__ import annotations

from rmqctl.protocol.message import StoredMessage

from .message_index import carries
from .store import MessageStore


def find_by_key(
    store: MessageStore, topic: str, key: str, limit: int, begin_ms: int, end_ms: int
) -> list[StoredMessage]:
    """Return the newest messages with a key that were stored in a time range, oldest first.

    Times are compared with the precision of RocketMQ's index (whole seconds); both ends are included.
    """
    found: list[StoredMessage] = []
    for commit_log_offset in store.index.newest_first(topic, key):
        if len(found) >= limit:
            break
        message = store.message_in_log(commit_log_offset)
        if (
            message is not None
            and begin_ms <= store.index.indexed_at_ms(message.stored_at_ms) <= end_ms
            and carries(message, topic, key)
        ):
            found.append(message)
    return found[::-1]
