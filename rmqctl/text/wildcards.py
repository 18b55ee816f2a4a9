"""Names matched by patterns: `*` matches any text, `?` one character, anything else itself (case-sensitive)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate

from rmqctl.errors import NotFoundError

from .names import closest


def is_pattern(text: str) -> bool:
    """Tell whether a text is a pattern, not a name; RocketMQ does not allow * and ? in names."""
    return "*" in text or "?" in text


def matching(patterns: Sequence[str], names: Iterable[str], *, with_case: bool = True) -> tuple[str, ...]:
    """Return the names that any pattern matches completely, sorted; a pattern without wildcards matches itself."""
    expression = "|".join(f"(?:{_expression(pattern)})" for pattern in patterns) or "(?!)"
    matches = re.compile(expression, 0 if with_case else re.IGNORECASE).fullmatch
    return tuple(sorted({name for name in names if matches(name)}))


def require_matching(
    kind: str, patterns: Sequence[str], names: Iterable[str], *, with_case: bool = True
) -> tuple[str, ...]:
    """Return the same as `matching`. Raises NotFoundError for the first pattern or name without a match."""
    known = tuple(names)
    for pattern in patterns:
        if matching([pattern], known, with_case=with_case):
            continue
        like = closest(pattern.replace("*", "").replace("?", ""), known)
        error = NotFoundError(kind, pattern, suggestions=like)
        raise error.reworded(f"No {kind.lower()} matches {pattern}.") if is_pattern(pattern) else error
    return matching(patterns, known, with_case=with_case)


def _expression(pattern: str) -> str:
    # fnmatch's expressions do not backtrack over a star; its sets in brackets are escaped here.
    return translate(pattern.replace("[", "[[]"))
