"""Tag expressions: `A || B` (FilterAPI.buildSubscriptionData)."""

from __future__ import annotations


def parse_tags(expression: str) -> frozenset[str]:
    """Return the tags that an expression names; none stands for all of them, as `*` does.

    Raises ValueError with a sentence for an expression without any tag, which brokers refuse.
    """
    given = expression.strip()
    if given == "*":
        return frozenset()
    tags = frozenset(part.strip() for part in given.split("||") if part.strip())
    if not tags:
        raise ValueError(f"{expression!r} names no tag: write TagA, or TagA || TagB")
    return tags


def has_tag(tags: frozenset[str], tag: str | None) -> bool:
    """Tell whether a message's tag is one of those; brokers compare only hashes, which different tags can share."""
    return not tags or (tag is not None and tag in tags)
