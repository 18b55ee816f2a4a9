"""Names picked by patterns: `*` is any text, `?` one character, everything else is itself, in its own case."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate

from rmqctl.errors import NotFoundError

from .names import closest


def is_pattern(text: str) -> bool:
    """Tell a pattern from a name; RocketMQ allows neither sign in names."""
    return "*" in text or "?" in text


def matching(patterns: Sequence[str], names: Iterable[str], *, with_case: bool = True) -> tuple[str, ...]:
    """Return the names that any of the patterns matches whole, sorted; a pattern without wildcards matches itself."""
    expression = "|".join(f"(?:{_expression(pattern)})" for pattern in patterns) or "(?!)"
    matches = re.compile(expression, 0 if with_case else re.IGNORECASE).fullmatch
    return tuple(sorted({name for name in names if matches(name)}))


def require_matching(
    kind: str, patterns: Sequence[str], names: Iterable[str], *, with_case: bool = True
) -> tuple[str, ...]:
    """Return what `matching` does. Raises NotFoundError for the first pattern or name that nothing matches."""
    known = tuple(names)
    for pattern in patterns:
        if matching([pattern], known, with_case=with_case):
            continue
        like = closest(pattern.replace("*", "").replace("?", ""), known)
        if not is_pattern(pattern):
            raise NotFoundError(kind, pattern, suggestions=like)
        hint = f"{' and '.join(like)} look{'s' if len(like) == 1 else ''} like it." if like else None
        error = NotFoundError(kind, pattern, suggestions=like, hint=hint)
        raise error.reworded(f"No {kind.lower()} matches {pattern}.")
    return matching(patterns, known, with_case=with_case)


def _expression(pattern: str) -> str:
    # fnmatch's expressions don't go back over what a star has taken; its third sign, a set in brackets, is none here.
    return translate(pattern.replace("[", "[[]"))
