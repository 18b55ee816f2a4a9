"""The permission of a group's dead-letter topic: whether it can be read, and how to make it readable.

Brokers up to 4.9.1 create the topic with PERM_WRITE alone (SendMessageProcessor), later ones with PERM_READ as well.
Brokers never change the permission of an existing topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqctl.changes.configs.rules.fields import PERM, with_permission
from rmqctl.model.names import dead_letter_topic
from rmqctl.model.topic import READ


def is_readable(config: Mapping[str, Any]) -> bool:
    """Tell whether consumers may read a topic of these TopicConfig fields."""
    return bool(config[PERM] & READ)


def opened(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a topic's TopicConfig fields with read permission added, and everything else unchanged."""
    return with_permission(config, config[PERM] | READ)


def is_permission_change(group: str, before: Mapping[str, Any] | None, target: Mapping[str, Any] | None) -> bool:
    """Tell whether a plan's item changes nothing but the permission of the group's dead-letter topic."""
    if before is None or target is None or before.get("topicName") != dead_letter_topic(group):
        return False
    return all(type(each.get(PERM)) is int for each in (before, target)) and with_permission(
        before, target[PERM]
    ) == dict(target)
