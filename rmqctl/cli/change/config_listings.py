"""Plans and receipts of configurations as listings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rmqctl.changes.configs.rules.fields import differing_names, setting_words
from rmqctl.changes.documents.encode import PLAN, RECEIPT, plan_document, receipt_document
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.model.plan import Route
from rmqctl.model.receipt import Result

from .sentences import count_results, extra_keys, repeat_undo_note, unseen_count

if TYPE_CHECKING:
    from rmqctl.model.failure import Failure
    from rmqctl.model.plan import Plan
    from rmqctl.model.receipt import Receipt


def config_plan_listing(plan: Plan, failures: Sequence[Failure]) -> Listing:
    """Make the listing of a plan, broker by broker: only the fields that would change; JSON has them all."""
    document = plan_document(plan)
    items = _in_order(document["items"])
    return Listing(
        kind=PLAN,
        columns=(*_place(has_offsets=bool(plan.items)), *_CHANGE, _note(items)),
        items=items,
        name=_name,
        failures=failures,
        extra=extra_keys(document),
        notes=[item.text for item in plan.consequences],
        empty="Nothing would be changed.",
    )


def config_receipt_listing(receipt: Receipt, failures: Sequence[Failure]) -> Listing:
    """Make the listing of a receipt, broker by broker."""
    document = receipt_document(receipt)
    items = _in_order(document["items"])
    return Listing(
        kind=RECEIPT,
        columns=(*_place(has_offsets=bool(receipt.items)), *_CHANGE, *_result(items, receipt.route), _note(items)),
        items=items,
        name=_name,
        failures=failures,
        extra=extra_keys(document),
        notes=list(_receipt_notes(receipt)),
        empty="Nothing was changed.",
    )


def _in_order(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put each broker's configuration before its offsets."""
    return sorted(items, key=lambda item: (item["brokerName"], item.get("topic") or "", item.get("queueId") or 0))


def _name(item: Item) -> str:
    return f"{item['topic']}@{item['brokerName']}:{item['queueId']}" if _is_offset(item) else str(item["brokerName"])


def _is_offset(item: Item) -> bool:
    return item.get("topic") is not None


def _receipt_notes(receipt: Receipt) -> Iterator[str]:
    results = [item.result for item in receipt.configs] + [item.result for item in receipt.items]
    yield f"{receipt.subject.title}: {count_results(results)}."
    if results.count(Result.CONFIRMED) + results.count(Result.UNKNOWN) > unseen_count(receipt):
        yield f"To go back: rmqctl offset undo {receipt.id}"
    yield from repeat_undo_note(receipt)


def _cell(key: str) -> Callable[[Item], str]:
    """Show one state of a configuration: the fields in which its states differ, in the syntax of --set."""

    def show(item: Item) -> str:
        if item.get("route") == Route.UNSEEN.value or (key == "after" and not item["isAfterKnown"]):
            return "-"
        value = item[key]
        if value is None or _is_offset(item):
            return "none" if value is None else str(value)
        states = [item["before"], item["target"], *([item["after"]] if item.get("isAfterKnown") else [])]
        if item.get("awaits"):
            states.append(item["awaits"]["target"])
        return " ".join(setting_words(value, differing_names(*states))) or (
            "defaults" if None in states else "unchanged"
        )

    return show


def _place(*, has_offsets: bool) -> tuple[Column, ...]:
    def what(item: Item) -> str:
        return str(item["topic"]) if _is_offset(item) else "configuration"

    return (
        Column("BROKER", "brokerName"),
        Column("WHAT", "topic", show=what, is_wide=not has_offsets),
        Column("Q", "queueId", is_number=True, is_wide=not has_offsets),
    )


_CHANGE = (Column("BEFORE", "before", show=_cell("before")), Column("TARGET", "target", show=_cell("target")))


def _result(items: Sequence[Item], route: Route = Route.GROUP_CONFIG) -> tuple[Column, ...]:
    """Return the columns of results. AFTER is left out if all are confirmed: it equals the target."""
    is_confirmed = all(item["result"] == Result.CONFIRMED.value for item in items)
    return (
        Column("AFTER", "after", show=_cell("after"), is_wide=is_confirmed),
        Column("RESULT", "result", is_alarm=lambda item: item["result"] != Result.CONFIRMED.value),
        Column("BY", "route", show=lambda item: item.get("route") or route.value, is_wide=True),
    )


def _note(items: Sequence[Item]) -> Column:
    is_empty = not any(item["note"] for item in items)
    return Column("NOTE", "note", show=lambda item: item["note"] or "-", is_wide=is_empty, is_sentence=True)


# All possible columns. The rows decide which are shown, but --columns is checked before there are rows.
CONFIG_PLAN_COLUMNS = (*_place(has_offsets=True), *_CHANGE, _note(()))
CONFIG_RECEIPT_COLUMNS = (*_place(has_offsets=True), *_CHANGE, *_result(()), _note(()))
