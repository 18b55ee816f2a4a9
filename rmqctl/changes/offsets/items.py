"""The items of a plan: what the change of one queue does, computed from what was just read."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rmqctl.changes.offsets.rules.reset import CountRange, MemberLead, find_effects
from rmqctl.model.plan import PlanItem, Route
from rmqctl.model.progress import QueueProgress, Unknown

IN_FLIGHT = "IN_FLIGHT"
_THERE = "already at the target"


def new_item(
    row: QueueProgress, target: int | None, route: Route, *, note: str, first_store_time_ms: int | None,
    is_consumed: bool,
) -> PlanItem:  # fmt: skip
    """Return the item of a queue. `is_consumed`: members may have messages of it."""
    max_offset = row.max_offset or 0
    effects, reasons = _effects(row, target, route, is_consumed=is_consumed)
    if target is None:
        reasons["target"] = "NONE_STORED"
    if first_store_time_ms is None:
        is_end = target is None or target >= max_offset
        reasons["firstStoreTimestamp"] = "NO_MESSAGE" if is_end else Unknown.NOT_REPORTED.value
    return PlanItem(
        mq=row.mq,
        before=row.consumer_offset,
        target=target,
        route=route,
        min_offset=row.min_offset or 0,
        max_offset=max_offset,
        first_store_time_ms=first_store_time_ms,
        note=note or (_THERE if row.consumer_offset == target else ""),
        reasons=reasons,
        **effects,
    )


def item_today(item: PlanItem, row: QueueProgress, *, is_consumed: bool) -> PlanItem:
    """Return an item of a saved plan with what it would do now."""
    effects, reasons = _effects(row, item.target, item.route, is_consumed=is_consumed)
    kept = {key: reason for key, reason in item.reasons.items() if key in ("target", "firstStoreTimestamp")}
    note = "" if item.note == _THERE else item.note
    return replace(
        item,
        before=row.consumer_offset,
        min_offset=row.min_offset,
        max_offset=row.max_offset,
        note=note or (_THERE if row.consumer_offset == item.target else ""),
        reasons={**kept, **reasons},
        **effects,
    )


def _effects(
    row: QueueProgress, target: int | None, route: Route, *, is_consumed: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields that describe what a change does, and why some of them are unknown."""
    min_offset, max_offset = row.min_offset or 0, row.max_offset or 0
    ahead = _ahead(row, max_offset) if is_consumed and route is not Route.BROKER_WRITE else None
    found = find_effects(row.consumer_offset, target, min_offset, max_offset, ahead)
    reasons: dict[str, str] = {}
    if row.consumer_offset is None:
        reasons["before"] = Unknown.NEVER_COMMITTED.value
    if row.consumer_offset is None or target is None:
        reasons["change"] = Unknown.NEVER_COMMITTED.value
    if found.lost is None:
        reasons["lost"] = Unknown.NEVER_COMMITTED.value
    fields: dict[str, Any] = {"lost": found.lost}
    for name in ("reconsumed", "skipped"):
        span: CountRange | None = getattr(found, name)
        low, high = (None, None) if span is None else span
        if span is None:
            # The clients of a group without an offset choose where to start (ConsumeFromWhere).
            reasons |= {f"{name}{end}": Unknown.NEVER_COMMITTED.value for end in ("", "Min", "Max")}
        elif span.exact is None:
            reasons[name] = IN_FLIGHT
        fields |= {name: None if span is None else span.exact, f"{name}_min": low, f"{name}_max": high}
    return fields, reasons


def _ahead(row: QueueProgress, max_offset: int) -> MemberLead | None:
    """Return what members have past the stored offset: all of the queue if that is unknown."""
    if row.reasons.get("inflight") is Unknown.POP:
        return None  # a pop moves the stored offset immediately
    if row.pulled_to is None or row.duplicate_risk is None:
        return MemberLead(max_offset, max_offset)
    return MemberLead(row.pulled_to, row.duplicate_risk, row.first_unfinished)
