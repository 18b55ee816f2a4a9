"""The target of each queue in a reset, its effects, and the item of the plan that has both."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.model.plan import PlanItem, Route
from rmqctl.model.progress import QueueProgress, Unknown
from rmqctl.model.queue import MessageQueue

from .drift import is_there


class TargetKind(StrEnum):
    """How a target is found."""

    TIME = "TIME"
    EARLIEST = "EARLIEST"
    LATEST = "LATEST"
    OFFSET = "OFFSET"
    SHIFT = "SHIFT"
    CURRENT = "CURRENT"
    GIVEN = "GIVEN"  # by another group's offsets, or by a file's
    BEFORE = "BEFORE"  # the offset before a change, which can be none


IN_FLIGHT = "IN_FLIGHT"
THERE, CONTINUED = "already at the target", "was at the target, and continued from there"
NONE_STORED = "RocketMQ cannot delete a single offset: -1 is stored, which brokers and clients treat as none"


class TargetSpec(Struct, frozen=True):
    """The requested target: `value` is the time in ms, the offset, or the number of messages; `words` describe it.

    `ago_ms`: the time is counted back from now, so `value` is known only once the brokers have reported their time.
    """

    kind: TargetKind
    value: int = 0
    words: str = ""
    ago_ms: int | None = None


class ResetFacts(Struct, frozen=True):
    """The facts by which a target is chosen. `current` is the stored offset, None when none is stored.

    `found` is the offset of the first message stored at the requested time or later. `given` is another group's or a
    file's offset. None means that neither was requested or found.
    """

    mq: MessageQueue
    min_offset: int
    max_offset: int
    current: int | None
    found: int | None = None
    given: int | None = None


class TargetOffset(Struct, frozen=True):
    """The offset to store; None where the queue is left unchanged, or (with `is_removed`) loses its offset.

    `note` explains either case.
    """

    target: int | None
    note: str = ""
    is_removed: bool = False

    @property
    def is_left(self) -> bool:
        """Tell whether the queue is left unchanged."""
        return self.target is None and not self.is_removed


class CountRange(NamedTuple):
    """A number of messages within bounds, which are equal when the number is known."""

    low: int
    high: int

    @property
    def exact(self) -> int | None:
        """The number, None when only its bounds are known."""
        return self.low if self.low == self.high else None


class ResetEffects(Struct, frozen=True):
    """Numbers of messages that are redelivered, never delivered, and deleted unread; None without a stored offset."""

    reconsumed: CountRange | None
    skipped: CountRange | None
    lost: int | None


class MemberLead(Struct, frozen=True):
    """What members have pulled and consumed of a queue past the stored offset.

    They have pulled the messages below `pulled_to`, and consumed at most `consumed_count` of those. `first_unfinished`
    is the first message that they report as unfinished, None when they report none.
    """

    pulled_to: int
    consumed_count: int
    first_unfinished: int | None = None


def choose_target(spec: TargetSpec, facts: ResetFacts) -> TargetOffset:
    """Return the target of a queue, which is always an existing message or the end.

    Brokers would store any number; from an offset outside the queue, clients are sent to the nearer end.
    """
    match spec.kind:
        case TargetKind.EARLIEST:
            return TargetOffset(facts.min_offset)
        case TargetKind.LATEST:
            return TargetOffset(facts.max_offset)
        case TargetKind.TIME:
            wanted = facts.max_offset if facts.found is None else facts.found
        case TargetKind.OFFSET:
            wanted = spec.value
        case TargetKind.SHIFT if facts.current is not None:
            wanted = facts.current + spec.value
        case TargetKind.CURRENT if facts.current is not None:
            wanted = facts.current
        case TargetKind.GIVEN if facts.given is not None:
            wanted = facts.given
        case TargetKind.GIVEN:
            return TargetOffset(None, "no offset was given")
        case TargetKind.BEFORE if facts.given is not None:
            wanted = facts.given
        case TargetKind.BEFORE if facts.current is None:
            return TargetOffset(None, "no offset is stored, as before")
        case TargetKind.BEFORE:
            return TargetOffset(None, NONE_STORED, is_removed=True)
        case _:
            return TargetOffset(None, "no offset is stored")
    if wanted < facts.min_offset:
        if wanted < 0 or facts.min_offset == 0:
            return TargetOffset(facts.min_offset, f"limited to the first message, {facts.min_offset}")
        return TargetOffset(facts.min_offset, f"{wanted} is deleted: {facts.min_offset} is the first one left")
    if wanted > facts.max_offset:
        return TargetOffset(facts.max_offset, f"{wanted} is not written yet: {facts.max_offset} is the end")
    return TargetOffset(wanted)


def find_effects(
    before: int | None, target: int | None, min_offset: int, max_offset: int, ahead: MemberLead | None = None
) -> ResetEffects:
    """Return the effects of a queue's change on messages that still exist.

    Without `ahead`, exactly the messages below the stored offset are consumed. With it, some messages past that offset
    are consumed too, but which ones is unknown: those at or past the target are redelivered, those below are not
    skipped.
    """
    lost = None if before is None else max(0, min(min_offset, max_offset) - before)
    if before is None or target is None:
        return ResetEffects(None, None, lost)
    had, gets = _within(before, min_offset, max_offset), _within(target, min_offset, max_offset)
    again, passed = max(0, had - gets), max(0, gets - had)
    if ahead is None:
        return ResetEffects(CountRange(again, again), CountRange(passed, passed), lost)
    pulled_to = max(had, _within(ahead.pulled_to, min_offset, max_offset))
    consumed_count = min(ahead.consumed_count, pulled_to - had)
    more = min(consumed_count, max(0, pulled_to - gets))
    is_one_open = ahead.first_unfinished is not None and had <= ahead.first_unfinished < gets
    surely = max(passed - consumed_count, int(is_one_open), 0)
    return ResetEffects(CountRange(again, again + more), CountRange(surely, passed), lost)


def _within(offset: int, min_offset: int, max_offset: int) -> int:
    return max(min_offset, min(offset, max_offset))


def new_item(
    row: QueueProgress, target: int | None, route: Route, places: Collection[int], *, note: str,
    first_store_time_ms: int | None, is_consumed: bool,
) -> PlanItem:  # fmt: skip
    """Return the item of a queue; `places` are as in FoundGroup. `is_consumed`: members may have messages of it."""
    reasons = {} if target is not None else {"target": "NONE_STORED"}
    if first_store_time_ms is None:
        is_end = target is None or target >= (row.max_offset or 0)
        reasons["firstStoreTimestamp"] = "NO_MESSAGE" if is_end else Unknown.NOT_REPORTED.value
    item = PlanItem(
        row.mq, row.consumer_offset, target, route, first_store_time_ms=first_store_time_ms, note=note, reasons=reasons
    )
    return item_today(item, row, places, is_consumed=is_consumed)


def item_today(item: PlanItem, row: QueueProgress, places: Collection[int], *, is_consumed: bool) -> PlanItem:
    """Return an item with what it would do now: a new one, or one of a saved plan."""
    is_at_target = is_there(item, row.consumer_offset, places)
    target = row.consumer_offset if is_at_target else item.target  # nothing would be written
    effects, reasons = _effects(row, target, item.route, is_consumed=is_consumed and not is_at_target)
    kept = {key: reason for key, reason in item.reasons.items() if key in ("target", "firstStoreTimestamp")}
    note = "" if item.note == THERE else item.note
    there = THERE if row.consumer_offset == item.target else CONTINUED
    return replace(
        item,
        before=row.consumer_offset,
        min_offset=row.min_offset or 0,
        max_offset=row.max_offset or 0,
        note=note or (there if is_at_target else ""),
        reasons={**kept, **reasons},
        is_there=is_at_target,
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
