"""Filter the rows of a list by conditions, for example `lag>0` or `group~^pay`, and sort them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

_OPERATORS = ("!=", ">=", "<=", "!~", "=", ">", "<", "~")
_CONDITION = re.compile(rf"\s*([A-Za-z][A-Za-z0-9_.]*)\s*({'|'.join(map(re.escape, _OPERATORS))})(.*)", re.DOTALL)
# Python also reads 1_000 and digits of other scripts, and takes inf for a number.
_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?|[0-9]*\.[0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)
_UNKNOWN = "unknown"


class Condition(Struct, frozen=True):
    """One condition: the row's key, an operator, and the text to compare with ("unknown" means null)."""

    key: str
    operator: str
    text: str


def parse_condition(text: str) -> Condition:
    """Parse `KEY OPERATOR VALUE`. Raises ValueError with a sentence."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid condition {text!r}: use KEY, one of {' '.join(_OPERATORS)}, and a value")
    key, operator, value = match.groups()
    if operator in ("~", "!~"):
        try:
            re.compile(value.strip())
        except re.error as error:
            raise ValueError(f"invalid regular expression {value.strip()!r}: {error}") from None
    if operator == "=":
        value = value.removeprefix("=")  # as in most languages
    return Condition(key, operator, value.strip())


def require_comparable(condition: Condition, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise ValueError when a text that is not a number is compared with numbers: no row could ever match."""
    if condition.operator in ("~", "!~") or condition.text == _UNKNOWN or _number(condition.text) is not None:
        return
    values = [row.get(condition.key) for row in rows]
    if any(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        raise ValueError(f"invalid number {condition.text!r}: {condition.key} is a number")


def is_met(condition: Condition, row: Mapping[str, Any]) -> bool:
    """Tell whether a row certainly meets a condition.

    An unknown value is neither equal, larger nor smaller, unless its lower bound decides (see decide()): only
    `KEY=unknown` matches it, and `KEY!=VALUE` keeps it. A list meets = and ~ when one of its members does, and != and
    !~ when none does.
    """
    if condition.operator in ("!=", "!~"):
        return not is_met(Condition(condition.key, condition.operator.removeprefix("!"), condition.text), row)
    return decide(condition, row) is True


def decide(condition: Condition, row: Mapping[str, Any]) -> bool | None:
    """Return whether a row meets a condition, None when an unknown number leaves that open.

    `KEYAtLeast` is the lower bound of an unknown number: a lag of at least 50 is more than 10 and not less than 20.
    """
    if condition.operator in ("!=", "!~"):
        return is_met(condition, row)
    value = row.get(condition.key)
    if condition.operator == "=" and condition.text == _UNKNOWN:
        return value is None
    if value is None:
        return _decide_unknown(condition, row)
    values = value if isinstance(value, list | tuple) else [value]
    return any(_compare(each, condition.operator, condition.text) for each in values if each is not None)


def _decide_unknown(condition: Condition, row: Mapping[str, Any]) -> bool | None:
    wanted = _number(condition.text)
    if condition.operator == "~" or wanted is None or _reason(condition.key, row) in _NOTHING_THERE:
        return False
    at_least = row.get(f"{condition.key}AtLeast")
    if at_least is None:
        return None
    if condition.operator in (">", ">="):
        return True if _ORDER[condition.operator](at_least, wanted) else None
    # The true number can only be larger than the bound.
    return False if at_least > wanted or (condition.operator == "<" and at_least == wanted) else None


# Reasons for a null that means "does not exist" rather than a number that was not reported.
_NOTHING_THERE = frozenset({"NO_MEMBERS", "NOTHING_UNREAD", "NO_MESSAGES"})


def _reason(key: str, row: Mapping[str, Any]) -> str | None:
    reasons = row.get("reasons")
    return reasons.get(key) if isinstance(reasons, Mapping) else None


def undecided_counts(conditions: Sequence[Condition], rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Count by key the rows that only an unknown number excludes: they meet every other condition."""
    counts: dict[str, int] = {}
    for row in rows:
        decisions = [(condition.key, decide(condition, row)) for condition in conditions]
        if not any(decision is False for _, decision in decisions):
            for key in {key for key, decision in decisions if decision is None}:
                counts[key] = counts.get(key, 0) + 1
    return counts


def _compare(value: Any, operator: str, text: str) -> bool:
    if operator == "~":
        return re.search(text, _as_text(value)) is not None
    if isinstance(value, int | float) and not isinstance(value, bool):
        wanted = _number(text)
        return wanted is not None and _ORDER[operator](value, wanted)
    return _ORDER[operator](_as_text(value), text)


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(text: str) -> int | float | None:
    """Return a number as written; integers exactly, because offsets can exceed the precision of a float."""
    if _NUMBER.fullmatch(text) is None:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    ">": lambda a, b: bool(a > b),
    "<": lambda a, b: bool(a < b),
    ">=": lambda a, b: bool(a >= b),
    "<=": lambda a, b: bool(a <= b),
}


def ordered(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return rows sorted by keys, the first key weighing most; `-key` sorts the largest first, unknown values last.

    An unknown number with a lower bound (`KEYAtLeast`) is sorted by that bound.
    """
    result = list(rows)
    for key in reversed(keys):
        name = key.removeprefix("-")
        values = [(_sorted_by(name, row), row) for row in result]
        known = [(value, row) for value, row in values if value is not None]
        known.sort(key=lambda pair: _rank(pair[0]), reverse=key.startswith("-"))
        result = [row for _, row in known] + [row for value, row in values if value is None]
    return result


def _sorted_by(name: str, row: Mapping[str, Any]) -> Any:
    value = row.get(name)
    # A lower bound of 0 is no information.
    return value if value is not None else row.get(f"{name}AtLeast") or None


def _rank(value: Any) -> tuple[int, Any]:
    """Make values of different kinds comparable: numbers, then texts."""
    if isinstance(value, int | float):
        return (0, value)
    return (1, " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
