"""Subscriptions, built from a topic and an expression (FilterAPI)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rmqctl.errors import UsageError
from rmqctl.model.group import Subscription
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.rules.message_filters import sql92
from rmqctl.rules.message_filters.tags import parse_tags, tag_code

ALL = "*"
TAG, SQL92 = "TAG", "SQL92"


def make_subscription(
    topic: str, expression: str = ALL, expression_type: str = TAG, *, version_ms: int = 0
) -> Subscription:
    """Return the subscription to a topic. An empty tag expression means all messages, as `*` does.

    Raises ValueError with a sentence for an empty topic, and for an expression without a tag or with invalid SQL92: a
    broker accepts either silently, and delivers nothing.
    """
    if not topic.strip():
        raise ValueError("the topic of a subscription is empty")
    if expression_type == TAG:
        tags = parse_tags(expression.strip() or ALL)
        codes = frozenset(map(tag_code, tags))
        return Subscription(topic, expression if tags else ALL, TAG, version_ms, tags, codes)
    if expression_type != SQL92:
        raise ValueError(f"unknown expression type {expression_type!r}: use TAG or SQL92")
    if not expression.strip():
        raise ValueError(f"the SQL92 expression for {topic} is empty")
    try:
        sql92.parse(expression)
    except ValueError as error:
        raise ValueError(f"invalid SQL92 expression {expression!r}: {error}") from None
    return Subscription(topic, expression, SQL92, version_ms=version_ms)


def retry_subscription(group: str, *, version_ms: int = 0) -> Subscription:
    """Return the subscription to a group's own retry topic, which clustering consumers add automatically."""
    return Subscription(RETRY_PREFIX + group, version_ms=version_ms)


def parse_subscriptions(
    topics: str | Subscription | Iterable[str | Subscription], full_name: Callable[[str], str] = lambda topic: topic
) -> list[Subscription]:
    """Return the subscriptions of TOPIC, TOPIC:TAGS and TOPIC:SQL92:EXPRESSION; `full_name` adds a namespace.

    Raises UsageError for none, for an invalid one, and for a topic that occurs twice.
    """
    found: dict[str, Subscription] = {}
    if not isinstance(topics, Iterable | Subscription):
        raise UsageError(f"Invalid topics: {topics!r}.")
    for topic in [topics] if isinstance(topics, str | Subscription) else topics:
        if not isinstance(topic, str | Subscription):
            raise UsageError(f"Invalid topic: {topic!r}.")
        made = topic if isinstance(topic, Subscription) else _parse(topic, full_name)
        if made.topic in found:
            raise UsageError(
                f"Topic {made.topic} is given twice.", hint="Combine tags in one expression: 'TagA || TagB'."
            )
        found[made.topic] = made
    if not found:
        raise UsageError("No topic is given.")
    return list(found.values())


def _parse(text: str, full_name: Callable[[str], str]) -> Subscription:
    topic, _, expression = text.partition(":")
    kind = SQL92 if expression.startswith(f"{SQL92}:") else TAG
    try:
        return make_subscription(full_name(topic), expression.removeprefix(f"{SQL92}:") or ALL, kind)
    except ValueError as error:
        raise UsageError(f"Cannot subscribe to {text!r}: {error}.") from None
