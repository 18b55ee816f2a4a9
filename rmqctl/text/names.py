"""Suggestions for mistyped names, and the hints that show them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SUGGESTION_COUNT = 3


def closest(wanted: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return up to three existing names similar to `wanted`, the best first; case is ignored."""
    by_folded = {name.casefold(): name for name in sorted(names, reverse=True)}
    matches = get_close_matches(wanted.casefold(), by_folded, n=_SUGGESTION_COUNT, cutoff=0.6)
    return tuple(by_folded[match] for match in matches)


def hint_for(wanted: str, names: Iterable[str], *, otherwise: str | None = None) -> str:
    """Return the hint for an unknown name: similar names, else `otherwise`, else all names in order."""
    names = tuple(names)
    if similar := closest(wanted, names):
        return f"Did you mean {' or '.join(similar)}?"
    return otherwise or one_of(names)


def one_of(names: Iterable[str]) -> str:
    """Return the hint that lists all accepted values."""
    return f"Use one of: {', '.join(names)}."
