"""What the listings of plans and receipts share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rmqctl.model.plan import Operation
from rmqctl.model.receipt import ConfigReceiptItem, Receipt, ReceiptItem, Result

_OWN_KEYS = ("apiVersion", "kind", "items")
_WORDS = {
    Result.CONFIRMED: "confirmed",
    Result.UNCHANGED: "unchanged",
    Result.UNKNOWN: "not known",
    Result.NOT_ATTEMPTED: "not attempted",
}


def extra_keys(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a document except its items and the keys that every listing has."""
    return {key: value for key, value in document.items() if key not in _OWN_KEYS}


def count_results(results: Iterable[Result]) -> str:
    """Return the number of each result in words."""
    counts = Counter(results)
    return ", ".join(f"{counts[result]} {word}" for result, word in _WORDS.items() if counts[result]) or "nothing to do"


def unseen_count(receipt: Receipt) -> int:
    """Return for how many items an undo waited in vain for an earlier write, and so wrote nothing."""
    if receipt.operation is not Operation.OFFSET_UNDO and not receipt.asked.startswith("undo "):
        return 0
    items: tuple[ReceiptItem | ConfigReceiptItem, ...] = (*receipt.items, *receipt.configs)
    return sum(item.result is Result.UNKNOWN and item.before == item.target for item in items)


def look_again_note(receipt: Receipt) -> Iterator[str]:
    """Say how to look again for a write that an undo did not see; `asked` names the change that it reverts."""
    if unseen_count(receipt):
        yield f"To look again: rmqctl offset undo {receipt.asked.removeprefix('undo ').partition(' ')[0]}"
