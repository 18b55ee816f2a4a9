"""The sentences above and below a plan or a receipt, of offsets or of configurations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rmqctl.changes.offsets.rules.skips import describe_skips
from rmqctl.model.plan import Operation, Plan, operation_name
from rmqctl.model.receipt import ConfigReceiptItem, Receipt, ReceiptItem, Result
from rmqctl.text.durations import short_duration
from rmqctl.text.times import iso_time
from rmqctl.text.words import listed

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


def repeat_undo_note(receipt: Receipt) -> Iterator[str]:
    """Say how to look again for a write that an undo did not see; `asked` names the change that it reverts."""
    if unseen_count(receipt):
        yield f"To look again: rmqctl offset undo {receipt.asked.removeprefix('undo ').partition(' ')[0]}"


def headings(plan: Plan, now_ms: int, *, is_saved: bool = False) -> Iterator[str]:
    """Return the lines above a plan, first what it skips; one of an older release has no author and no target time."""
    yield from (item.text for item in describe_skips(plan.items, may_skip=plan.may_skip))
    cluster, _, servers = plan.cluster.partition("@")
    context = "" if plan.author is None or plan.author.context is None else f" (context {plan.author.context})"
    topics = sorted({item.mq.topic for item in plan.items})
    topic = f", topic{'s' if len(topics) > 1 else ''} {listed(topics)}" if topics else ""
    asked = f": {plan.asked}" if plan.asked else ""
    name = operation_name(plan.operation, plan.asked)
    yield f"{name} of {plan.subject} in {cluster} at {servers}{context}{topic}{asked}"
    if plan.time_ms is not None and (at := iso_time(plan.time_ms)) is not None:
        yield f"Target time: {at}{_local(plan.time_ms)}, {_distance(plan.time_ms, now_ms)}."
    if is_saved:
        who = "" if plan.author is None else f" by {plan.author.user} on {plan.author.host}"
        yield f"Plan {plan.id} was made {_distance(plan.created_at_ms, now_ms)}{who}, {iso_time(plan.created_at_ms)}."
        if plan.reason is not None:
            yield f"Reason: {plan.reason}"


def _local(at_ms: int) -> str:
    """Return a time in this machine's zone, an empty string if that is UTC."""
    local = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    return f" ({local:%Y-%m-%d %H:%M:%S} local)" if local.utcoffset() else ""


def _distance(at_ms: int, now_ms: int) -> str:
    away_ms = now_ms - at_ms
    return f"{short_duration(away_ms)} ago" if away_ms >= 0 else f"in {short_duration(-away_ms)}"
