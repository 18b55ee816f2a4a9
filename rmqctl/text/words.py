"""Counts and lists in sentences, and clients grouped by what they report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

_PLURALS = {"is": "are", "was": "were", "has": "have", "does": "do"}


def counted(count: int, noun: str, verb: str | None = None) -> str:
    """Return a number of things: 1 queue, 2 queues; with a verb: 1 queue is, 2 queues are."""
    things = f"{count} {noun}{'' if count == 1 else 's'}"
    return things if verb is None else f"{things} {agreeing(count, verb)}"


def agreeing(count: int, verb: str) -> str:
    """Return a verb that agrees with a number of things."""
    return verb if count == 1 else _PLURALS[verb]


def listed(items: Iterable[object], shown: int = 3) -> str:
    """Return the first items, and the number of further ones: a, b, c and 2 more."""
    every = [str(item) for item in items]
    more = len(every) - shown
    return ", ".join(every[:shown]) + (f" and {more} more" if more > 0 else "")


def by_value(pairs: Iterable[tuple[str, Any]]) -> dict[Any, list[str]]:
    """Return the clients that have each value, sorted by value; unknown values are left out."""
    holders: dict[Any, list[str]] = {}
    for client_id, value in pairs:
        if value is not None:
            holders.setdefault(value, []).append(client_id)
    return dict(sorted(holders.items()))


def who_has(holders: Mapping[Any, Iterable[str]], words: Callable[[Any], str] = str, *, between: str = ", ") -> str:
    """Return each value with the clients that have it: TagA (c1), TagB (c2, c3)."""
    return between.join(f"{words(value)} ({listed(names)})" for value, names in holders.items())
