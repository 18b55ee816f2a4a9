"""Whether a message matches a group's subscription."""

from __future__ import annotations

from collections.abc import Mapping

from rmqctl.model.group import Subscription

from . import sql92
from .tags import has_tag, parse_tags


def matches(subscription: Subscription, tag: str | None, properties: Mapping[str, str]) -> bool | None:
    """Return whether a message with this tag and these properties matches; None for an unreadable expression."""
    if subscription.is_everything:
        return True
    try:
        if subscription.expression_type == "TAG":
            # A client that leaves the set of tags out still has them in the expression.
            return has_tag(subscription.tags or parse_tags(subscription.expression), tag)
        return sql92.parse(subscription.expression).matches(properties)
    except ValueError:
        return None
