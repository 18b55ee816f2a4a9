"""Redelivered messages: a listener sees their original topic, not the retry topic."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.sends import RETRY_TOPIC


class RetriedMessage(StoredMessage, frozen=True, eq=False, gc=False):
    """A message of a retry topic (MQClientAPIImpl, resetRetryAndNamespace)."""

    @property
    def topic(self) -> str:
        """The topic that the message was first sent to."""
        return self.properties.get(RETRY_TOPIC) or StoredMessage.topic.fget(self)  # type: ignore[attr-defined]


def restore_topics(messages: Sequence[StoredMessage]) -> list[StoredMessage]:
    """Return the same messages, under their own topics."""
    return [RetriedMessage(*astuple(message)) for message in messages]
