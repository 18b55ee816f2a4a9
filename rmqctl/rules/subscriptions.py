"""What a consumer subscribes to, from what it was told (FilterAPI)."""

from __future__ import annotations

from rmqctl.model.consuming import Subscription
from rmqctl.model.names import RETRY_PREFIX

from . import sql92
from .tags import parse_tags, tag_code

ALL = "*"
TAG, SQL92 = "TAG", "SQL92"


def make_subscription(
    topic: str, expression: str = ALL, expression_type: str = TAG, *, version_ms: int = 0
) -> Subscription:
    """Return the subscription to a topic. No expression of tags stands for all messages, as `*` does.

    Raises ValueError with a sentence for a topic without a name, and for an expression that names no tag or is no
    SQL92: a broker takes either without a word, and delivers nothing.
    """
    if not topic.strip():
        raise ValueError("a subscription needs the name of a topic")
    if expression_type == TAG:
        tags = parse_tags(expression.strip() or ALL)
        codes = frozenset(map(tag_code, tags))
        return Subscription(topic, expression if tags else ALL, TAG, tags, codes, version_ms)
    if expression_type != SQL92:
        raise ValueError(f"{expression_type!r} is no type of expression: there are TAG and SQL92")
    if not expression.strip():
        raise ValueError(f"the SQL92 expression for {topic} is empty")
    try:
        sql92.parse(expression)
    except ValueError as error:
        raise ValueError(f"{expression!r} is no SQL92 expression: {error}") from None
    return Subscription(topic, expression, SQL92, version_ms=version_ms)


def retry_subscription(group: str, *, version_ms: int = 0) -> Subscription:
    """Return the subscription to a group's own retry topic, which clustering consumers have without asking for it."""
    return Subscription(RETRY_PREFIX + group, version_ms=version_ms)
