"""Lite topics (RIP-83, since 5.5): any number of small topics in one parent topic, each a queue with its own name.

A group is bound to one parent, and each of its clients subscribes to lite topics by name; offsets are stored by lite
topic. Source: LiteUtil, SubscriptionGroupAttributes.
"""

from __future__ import annotations

from collections.abc import Iterable

from rmqctl.model.group import GroupConfig
from rmqctl.model.topic import TopicConfig

_PREFIX = "%LMQ%$"
_BOUND_TO = "lite.bind.topic"
# The reason why an ordinary group is not bound to a topic.
NOT_LITE = "NOT_LITE"


def parent_of(topic: str) -> str | None:
    """Return the parent of a lite topic from the name under which brokers store it; None for other names."""
    if not topic.startswith(_PREFIX):
        return None
    parent, _, name = topic.removeprefix(_PREFIX).partition("$")
    return parent if name and parent else None


def is_parent(config: TopicConfig) -> bool:
    """Tell whether a topic is a parent of lite topics."""
    return config.attributes.get("message.type") == "LITE"


def bound_topic(configs: Iterable[GroupConfig | None]) -> str | None:
    """Return the parent topic whose lite topics a group consumes, by its configurations; None for an ordinary group."""
    attributes = (config.fields.get("attributes") or {} for config in configs if config is not None)
    return next((str(each[_BOUND_TO]) for each in attributes if each.get(_BOUND_TO)), None)


def describe_lite(topics: Iterable[str]) -> list[str]:
    """Return a sentence for each parent of the lite topics among these names."""
    parents = sorted({parent for topic in topics if (parent := parent_of(topic)) is not None})
    return [f"{_PREFIX}{parent}$NAME is lite topic NAME of {parent} (RIP-83)." for parent in parents]
