"""Plans and receipts of offsets as listings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rmqctl.changes.documents.encode import plan_document, receipt_document
from rmqctl.changes.offsets.rules.skips import SKIPS
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.model.plan import Operation, Route, is_config_change
from rmqctl.text.words import counted

from .sentences import count_results, extra_keys, repeat_undo_note

if TYPE_CHECKING:
    from rmqctl.model.failure import Failure
    from rmqctl.model.plan import Plan
    from rmqctl.model.receipt import Receipt

_NOTHING = "Nothing would be changed."


def plan_listing(plan: Plan, failures: Sequence[Failure] = (), *, headings: Sequence[str] = ()) -> Listing:
    """Make the listing of a plan, queue by queue, with its consequences."""
    if is_config_change(plan.operation):
        from .config_listings import config_plan_listing

        listing = config_plan_listing(plan, failures)
        nothing = () if is_changing(plan) or not plan.configs else (_NOTHING,)
        return replace(listing, headings=headings, notes=[*listing.notes, *nothing])
    if plan.operation is Operation.MESSAGE_RESEND:
        from .resend_listings import resend_plan_listing

        return resend_plan_listing(plan, failures, headings)
    document = plan_document(plan)
    return Listing(
        kind="Plan",
        columns=PLAN_COLUMNS,
        items=document["items"],
        name=_name,
        failures=failures,
        extra=extra_keys(document),
        notes=list(_plan_notes(plan)),
        headings=headings,
        empty=_NOTHING,
    )


def receipt_listing(receipt: Receipt, failures: Sequence[Failure] = ()) -> Listing:
    """Make the listing of a receipt, queue by queue."""
    if is_config_change(receipt.operation):
        from .config_listings import config_receipt_listing

        return config_receipt_listing(receipt, failures)
    if receipt.operation is Operation.MESSAGE_RESEND:
        from .resend_listings import resend_receipt_listing

        return resend_receipt_listing(receipt, failures)
    document = receipt_document(receipt)
    return Listing(
        kind="Receipt",
        columns=RECEIPT_COLUMNS,
        items=document["items"],
        name=_name,
        failures=failures,
        extra=extra_keys(document),
        notes=list(_receipt_notes(receipt)),
        empty="Nothing was changed.",
    )


def _name(item: Item) -> str:
    return f"{item['topic']}@{item['brokerName']}:{item['queueId']}"


def _plan_notes(plan: Plan) -> Iterator[str]:
    yield from (item.text for item in plan.consequences if item.code != SKIPS)  # it is the first heading
    known = [item for item in plan.items if item.reconsumed_bounds is not None]
    unknown = len(plan.items) - len(known)
    if known:
        is_whole = not unknown and not any(each.code == "NOT_READ" for each in plan.consequences)
        at_least = "" if is_whole else "at least "
        again = _sum(item.reconsumed_bounds for item in known)
        skipped = _sum(item.skipped_bounds for item in known)
        noun = "message" if again == "1" else "messages"
        lost_count = sum(item.lost or 0 for item in known)
        lost = f"; {lost_count} {'is' if lost_count == 1 else 'are'} already deleted" if lost_count else ""
        # A cleaning redelivers what it sends back; this counts what is consumed although it was sent back.
        again_by = "consumed twice" if any(item.cleaning is not None for item in known) else "redelivered"
        said = (
            f"{at_least}{again} {noun}{_before_filters(plan)} would be {again_by}, {at_least}{skipped} skipped{lost}."
        )
        yield f"{said[0].upper()}{said[1:]}"
    if unknown:
        yield f"How many messages of {counted(unknown, 'queue')} would be redelivered or skipped is unknown."
    if plan.items and not is_changing(plan):
        yield _NOTHING


def _sum(bounds: Iterable[tuple[int, int] | None]) -> str:
    """Return the sum over all queues, as a range if a number of one of them is a range."""
    known = [each for each in bounds if each is not None]
    low, high = sum(low for low, _ in known), sum(high for _, high in known)
    return str(low) if low == high else f"{low}-{high}"


def _before_filters(plan: Plan) -> str:
    """Return a remark that the numbers count offsets, and the filters by which members consume fewer messages."""
    every = {" and ".join(expressions) for expressions in plan.filters.values()}
    topics = {item.mq.topic for item in plan.items}
    if not every:
        return ""
    if len(every) == 1 and topics <= plan.filters.keys():
        return f" (before the group's filter {every.pop()})"
    said = "; ".join(f"{topic}: {' and '.join(expressions)}" for topic, expressions in plan.filters.items())
    return f" (before the group's filters, {said})"


def is_changing(plan: Plan) -> bool:
    """Return whether a plan would write anything: a queue that is already at its target is not written."""
    return any(config.route is not Route.UNSEEN for config in plan.configs) or any(
        item.route is Route.POP_ACK or item.awaits is not None or (not item.is_there and item.route is not Route.UNSEEN)
        for item in plan.items
    )


def _receipt_notes(receipt: Receipt) -> Iterator[str]:
    said = count_results(item.result for item in receipt.items)
    waiting = sum(item.waits_for_member for item in receipt.items)
    pending = sum(item.is_pending for item in receipt.items) - waiting
    more = f" No client has resumed from {pending} of them yet." if pending else ""
    if waiting:
        more += f" The group has no members: {waiting} of them will take effect when the next member starts."
    yield f"Group {receipt.group}: {said}.{more}"
    again = sum(item.reconsumed_at_least or 0 for item in receipt.items)
    if again:
        yield f"At least {counted(again, 'message')} {'is' if again == 1 else 'are'} redelivered, before any filter."
    if any(item.may_have_changed for item in receipt.items):
        yield f"To go back: rmqctl offset undo {receipt.id}"
    yield from repeat_undo_note(receipt)


def _offset(key: str) -> Callable[[Item], str]:
    def show(item: Item) -> str:
        if item[key] is not None:
            return str(item[key])
        return "-" if item["route"] == Route.UNSEEN.value else "none"

    return show


def _range(key: str) -> Callable[[Item], str]:
    def show(item: Item) -> str:
        low, high = item[f"{key}Min"], item[f"{key}Max"]
        if low is None:  # a plan of an older release
            low = high = item[key]
        return "-" if low is None else str(low) if low == high else f"{low}-{high}"

    return show


def _costs(key: str) -> Callable[[Item], bool]:
    return lambda item: bool(item[f"{key}Max"] or item[key])


def _signed(item: Item) -> str:
    change = item["change"]
    return "-" if change is None else f"{change:+}" if change else "0"


def _after(item: Item) -> str:
    if not item["isAfterKnown"]:
        return "-"
    return "none" if item["after"] is None else str(item["after"])


def _at_least(item: Item) -> str:
    again = item["reconsumedAtLeast"]
    return "-" if again is None else f">={again}" if again else "0"


_PLACE = (
    Column("TOPIC", "topic"),
    Column("BROKER", "brokerName"),
    Column("Q", "queueId", is_number=True),
)
PLAN_COLUMNS = (
    *_PLACE,
    Column("MIN", "minOffset", is_number=True, gives_way=True),
    Column("MAX", "maxOffset", is_number=True, gives_way=True),
    Column("BEFORE", "before", show=_offset("before"), is_number=True),
    Column("TARGET", "target", show=_offset("target"), is_number=True),
    Column("CHANGE", "change", show=_signed, is_number=True),
    Column("RECONSUMED", "reconsumed", show=_range("reconsumed"), is_number=True, is_alarm=_costs("reconsumed")),
    Column("SKIPPED", "skipped", show=_range("skipped"), is_number=True, is_alarm=_costs("skipped")),
    Column("RECONSUMED-MIN", "reconsumedMin", is_number=True, is_wide=True),
    Column("RECONSUMED-MAX", "reconsumedMax", is_number=True, is_wide=True),
    Column("SKIPPED-MIN", "skippedMin", is_number=True, is_wide=True),
    Column("SKIPPED-MAX", "skippedMax", is_number=True, is_wide=True),
    Column("LOST", "lost", is_number=True, is_wide=True),
    Column("FIRST-STORED", "firstStoreTimestamp", is_time=True, gives_way=True),
    Column("BY", "route", is_wide=True),
    Column("NOTE", "note", show=lambda item: item["note"] or "-", is_sentence=True),
)
RECEIPT_COLUMNS = (
    *_PLACE,
    Column("BEFORE", "before", show=_offset("before"), is_number=True),
    Column("TARGET", "target", show=_offset("target"), is_number=True),
    Column("AFTER", "after", show=_after, is_number=True),
    Column("RESULT", "result", is_alarm=lambda item: item["result"] != "CONFIRMED"),
    Column("RECONSUMED", "reconsumedAtLeast", show=_at_least, is_number=True, is_wide=True),
    Column("BY", "route", is_wide=True),
    Column("NOTE", "note", show=lambda item: item["note"] or "-", is_sentence=True),
)
