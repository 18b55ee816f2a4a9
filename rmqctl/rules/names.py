"""Names that look like another one, for "did you mean"."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SUGGESTION_COUNT = 3


def closest(wanted: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return up to three existing names that look like `wanted`, the best first; case doesn't count."""
    by_folded = {name.casefold(): name for name in sorted(names, reverse=True)}
    matches = get_close_matches(wanted.casefold(), by_folded, n=_SUGGESTION_COUNT, cutoff=0.6)
    return tuple(by_folded[match] for match in matches)
