"""Plans and receipts of offsets as listings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.ops.documents import plan_document, receipt_document
from rmqctl.rules.group_changes import is_group_change
from rmqctl.rules.words import counted

from .config_listings import config_plan_listing, config_receipt_listing
from .parts import count_results, extra_keys

if TYPE_CHECKING:
    from rmqctl.model.failure import Failure
    from rmqctl.model.plan import Plan
    from rmqctl.model.receipt import Receipt


def plan_listing(plan: Plan, failures: Sequence[Failure] = ()) -> Listing:
    """Show what would be done, queue by queue, with its consequences."""
    if is_group_change(plan.operation):
        return config_plan_listing(plan, failures)
    document = plan_document(plan)
    return Listing(
        kind="Plan",
        columns=PLAN_COLUMNS,
        items=document["items"],
        name=_name,
        failures=failures,
        extra=extra_keys(document),
        notes=list(_plan_notes(plan)),
        empty="Nothing would be changed.",
    )


def receipt_listing(receipt: Receipt, failures: Sequence[Failure] = ()) -> Listing:
    """Show what was done, queue by queue."""
    if is_group_change(receipt.operation):
        return config_receipt_listing(receipt, failures)
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
    yield from (item.text for item in plan.consequences)
    sums = {
        name: sum(value for item in plan.items if (value := getattr(item, name)) is not None)
        for name in ("reconsumed", "skipped", "lost")
    }
    unknown = sum(item.reconsumed is None for item in plan.items)
    if unknown < len(plan.items):
        lost = f"; {sums['lost']} {'is' if sums['lost'] == 1 else 'are'} deleted already" if sums["lost"] else ""
        yield f"{counted(sums['reconsumed'], 'message')} would be consumed again, {sums['skipped']} skipped{lost}."
    if unknown:
        yield f"How many messages of {counted(unknown, 'queue')} would be consumed again, or skipped, is not known."


def _receipt_notes(receipt: Receipt) -> Iterator[str]:
    said = count_results(item.result for item in receipt.items)
    waiting = sum(item.waits_for_member for item in receipt.items)
    pending = sum(item.is_pending for item in receipt.items) - waiting
    more = f" To {pending} of them no client has gone yet." if pending else ""
    if waiting:
        more += f" The group has no members: {waiting} of them are stored, and take effect when the next member starts."
    yield f"Group {receipt.group}: {said}.{more}"
    again = sum(item.reconsumed_at_least or 0 for item in receipt.items)
    if again:
        yield f"At least {counted(again, 'message')} {'is' if again == 1 else 'are'} redelivered, before any filter."
    if any(item.may_have_changed for item in receipt.items):
        yield f"To go back: rmqctl offset undo {receipt.id}"


def _offset(key: str, nothing: str = "none") -> Callable[[Item], str]:
    return lambda item: nothing if item[key] is None else str(item[key])


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
    Column("AGAIN", "reconsumed", is_number=True, is_alarm=lambda item: bool(item["reconsumed"])),
    Column("SKIPPED", "skipped", is_number=True, is_alarm=lambda item: bool(item["skipped"])),
    Column("LOST", "lost", is_number=True, is_wide=True),
    Column(
        "FIRST-STORED", "firstStoreTimestamp", show=lambda item: item["firstStoreTimestampIso"] or "-", gives_way=True
    ),
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
