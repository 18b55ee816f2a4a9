"""What the listings of plans and receipts share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rmqctl.model.receipt import Result

_OWN_KEYS = ("apiVersion", "kind", "items")
_WORDS = {
    Result.CONFIRMED: "confirmed",
    Result.UNCHANGED: "unchanged",
    Result.UNKNOWN: "not known",
    Result.NOT_ATTEMPTED: "not attempted",
}


def extra_keys(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stands in a document beside its items, without what every listing has."""
    return {key: value for key, value in document.items() if key not in _OWN_KEYS}


def count_results(results: Iterable[Result]) -> str:
    """Say how often each result is there."""
    counts = Counter(results)
    return ", ".join(f"{counts[result]} {word}" for result, word in _WORDS.items() if counts[result]) or "nothing to do"
