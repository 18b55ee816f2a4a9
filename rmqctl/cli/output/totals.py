"""How sums over the data that was read are shown in JSON, tables and sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqctl.rules.totals import Total
from rmqctl.text.words import counted

from .listing import Item


def total_items(totals: Mapping[str, Total]) -> dict[str, int | None]:
    """Return sums as JSON keys: lag, and lagAtLeast for the known part of it."""
    return {
        name: count
        for key, each in totals.items()
        for name, count in ((key, each.value), (f"{key}AtLeast", each.at_least))
    }


def total_reasons(totals: Mapping[str, Total]) -> dict[str, str]:
    """Return why sums are unknown, by JSON key."""
    return {key: each.reason for key, each in totals.items() if each.reason is not None}


def show_total(key: str) -> Callable[[Item], str]:
    """Return a function that shows an item's sum in a table."""
    return lambda item: _shown(item, key, ">=") or "-"


def total_words(item: Item, key: str, noun: str | None = None) -> str:
    """Return an item's sum for a sentence, with the noun: 7, at least 7, at least 1 queue, unknown."""
    known = _shown(item, key, "at least ")
    if noun is None:
        return known or "unknown"
    things = counted(item[f"{key}AtLeast"], noun)
    return things if item[key] is not None else f"at least {things}" if known else f"an unknown number of {noun}s"


def _shown(item: Item, key: str, more: str) -> str:
    """Return a known sum, or its known part; empty if that is 0."""
    if item[key] is not None:
        return str(item[key])
    at_least = item[f"{key}AtLeast"]
    return f"{more}{at_least}" if at_least else ""
