"""How Java compares a message's properties with numbers and truth values (Integer, Long, Double, Boolean.valueOf).

A number's class follows from its value: a float is a Double, an int is an Integer up to 2,147,483,647 and a Long above.
"""

from __future__ import annotations

import math
import re

JavaValue = str | int | float | bool

_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_DECIMAL = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEX_DOUBLE = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_NAMED_DOUBLE = re.compile(r"([+-]?)(NaN|Infinity)")
# The characters that String.trim() removes: everything up to the blank.
_BLANKS = "".join(map(chr, range(33)))


def compare(left: JavaValue, right: JavaValue) -> int | None:
    """Return a number below, at or above 0; None for values without a defined order.

    A text is converted to the type that it is compared with. Raises ValueError for a text that cannot be converted.
    """
    if isinstance(left, str) and not isinstance(right, str):
        left = _convert(left, right)
    elif isinstance(right, str) and not isinstance(left, str):
        if isinstance(left, bool):
            # RocketMQ casts the wrong one of the two, and fails.
            raise ValueError(f"{left} cannot be compared with a text")  # noqa: TRY004 - callers expect a ValueError
        right = _convert(right, left)
    if isinstance(left, bool) != isinstance(right, bool):
        return None
    if isinstance(left, str) or isinstance(right, str):
        return (str(left) > str(right)) - (str(left) < str(right))
    if isinstance(left, float) or isinstance(right, float):
        return _compare_doubles(float(left), float(right))
    return (left > right) - (left < right)


def _convert(text: str, example: float) -> JavaValue:
    if isinstance(example, bool):
        return text.lower() == "true"
    if isinstance(example, int):
        return parse_whole(text, _INT_MAX if abs(example) <= _INT_MAX else _LONG_MAX)
    return parse_double(text)


def parse_whole(text: str, limit: int = _LONG_MAX) -> int:
    """Parse a whole number from -limit - 1 to limit. Raises ValueError."""
    if _DECIMAL.fullmatch(text) is None or len(text) > 4300:
        raise ValueError(f"{text!r:.100} is not a whole number")
    value = int(text)
    if not -limit - 1 <= value <= limit:
        raise ValueError(f"{text!r:.100} is out of range")
    return value


def parse_double(text: str) -> float:
    """Parse a number as Double.valueOf does. Raises ValueError."""
    trimmed = text.strip(_BLANKS)
    if _DOUBLE.fullmatch(trimmed):
        return float(trimmed.rstrip("fFdD"))
    if named := _NAMED_DOUBLE.fullmatch(trimmed):
        value = math.nan if named[2] == "NaN" else math.inf
        return -value if named[1] == "-" else value
    if hexadecimal := _HEX_DOUBLE.fullmatch(trimmed):
        try:
            return float.fromhex(hexadecimal[1])
        except OverflowError:
            return -math.inf if trimmed.startswith("-") else math.inf
    raise ValueError(f"{text!r:.100} is not a number")


def _compare_doubles(left: float, right: float) -> int:
    """Order as Double.compareTo does: NaN is above everything and equal to itself, -0.0 is below 0.0."""
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) - math.isnan(right)
    if left == right == 0:
        return (math.copysign(1, left) > 0) - (math.copysign(1, right) > 0)
    return (left > right) - (left < right)
