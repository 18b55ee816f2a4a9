"""Numbers as people write them, and rates as they read them.

Python's int() also reads 1_000, ' 12 ' and digits of all scripts.
"""

from __future__ import annotations

import re

_WHOLE = re.compile(r"[+-]?[0-9]+")
_LEAST_TENTH, _LEAST_SHOWN = 0.05, 1e-6
_WHOLE_FROM = 99.95
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


def rounded_rate(rate: float) -> float:
    """Return a rate with two decimals, or three significant digits below 1: only 0 becomes 0."""
    return round(rate, 2) if abs(rate) >= 1 else float(f"{rate:.3g}")


def rate_words(rate: float) -> str:
    """Return a rate for a sentence: 1235, 12.3, 0.033. Only 0 becomes 0."""
    if abs(rate) >= _WHOLE_FROM:
        return f"{rate:.0f}"
    return f"{rate:.1f}".removesuffix(".0") if rate == 0 or abs(rate) >= 1 else _small(rate)


def rate_cell(rate: float | None) -> str:
    """Return a rate for a column: with one decimal, unless that would make a rate 0.0; "-" for unknown."""
    if rate is None:
        return "-"
    return f"{rate:.1f}" if rate == 0 or abs(rate) >= _LEAST_TENTH else _small(rate)


def _small(rate: float) -> str:
    """Return two significant digits, without an exponent."""
    return f"{float(f'{rate:.2g}'):.9f}".rstrip("0").rstrip(".") if abs(rate) >= _LEAST_SHOWN else "<0.000001"
