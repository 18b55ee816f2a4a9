"""Tag expressions: `A || B` (FilterAPI.buildSubscriptionData)."""

from __future__ import annotations

from functools import lru_cache


def parse_tags(expression: str) -> frozenset[str]:
    """Return the tags that an expression names; an empty set for `*`, which means all tags.

    Raises ValueError with a sentence for an expression without any tag, which brokers reject.
    """
    given = expression.strip()
    if given == "*":
        return frozenset()
    tags = frozenset(part.strip() for part in given.split("||") if part.strip())
    if not tags:
        raise ValueError(f"expression {expression!r} contains no tag: use TagA, or TagA || TagB")
    return tags


def has_tag(tags: frozenset[str], tag: str | None) -> bool:
    """Tell whether a message's tag is one of the tags; brokers compare only hashes, which tags can share."""
    return not tags or (tag is not None and tag in tags)


# Longer tags are hashed each time, so that the cache stays small.
_MAX_REMEMBERED_LENGTH = 256


def tag_code(tag: str | None) -> int:
    """Return a tag's hash as brokers compare it (String.hashCode), 0 without a tag."""
    text = tag or ""
    return hash_code(text) if len(text) > _MAX_REMEMBERED_LENGTH else _hash_once(text)


def hash_code(text: str) -> int:
    """Return a text's hash in Java (String.hashCode)."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        code = (31 * code + (units[at] << 8) + units[at + 1]) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code


_hash_once = lru_cache(maxsize=4096)(hash_code)
