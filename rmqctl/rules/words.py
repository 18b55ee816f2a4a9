"""Counts and lists within sentences, and who says what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def counted(count: int, noun: str) -> str:
    """Return a number of things: 1 queue, 2 queues."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def listed(items: Iterable[object], shown: int = 3) -> str:
    """Return the first of many things, and how many more there are."""
    every = [str(item) for item in items]
    more = len(every) - shown
    return ", ".join(every[:shown]) + (f" and {more} more" if more > 0 else "")


def by_value(told: Iterable[tuple[str, Any]]) -> dict[Any, list[str]]:
    """Return who has each value, sorted by value; unknown ones left out."""
    holders: dict[Any, list[str]] = {}
    for client_id, value in told:
        if value is not None:
            holders.setdefault(value, []).append(client_id)
    return dict(sorted(holders.items()))
