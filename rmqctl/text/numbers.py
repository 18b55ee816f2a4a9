"""Numbers as people write them. Python's int() also reads 1_000, ' 12 ' and digits of all scripts."""

from __future__ import annotations

import re

_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def whole_number(text: str) -> int:
    """Return a whole number, written in the digits 0 to 9, perhaps after a sign. Raises ValueError for other texts."""
    if _WHOLE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def decimal_number(text: str) -> float:
    """Return a number that may have decimals: 5, -0.25. Raises ValueError for other texts."""
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a number")
    return float(text)
