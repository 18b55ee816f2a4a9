"""Plans and receipts of message resend as listings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmqctl.changes.documents.encode import PLAN, RECEIPT, plan_document, receipt_document
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.plan import Route

from .sentences import count_results, extra_keys

if TYPE_CHECKING:
    from rmqctl.model.failure import Failure
    from rmqctl.model.plan import Plan
    from rmqctl.model.receipt import Receipt


def resend_plan_listing(plan: Plan, failures: Sequence[Failure], headings: Sequence[str]) -> Listing:
    """Make the listing of a plan: the message, and where it goes."""
    document = plan_document(plan)

    def to(item: Item) -> str:
        return str(item["cleaning"]["clientId"] if item["route"] == Route.DIRECT else f"{RETRY_PREFIX}{plan.group}")

    return Listing(
        kind=PLAN,
        columns=(*_PLACE, _offset("cleaning"), _message("cleaning"), Column("TO", "route", show=to)),
        items=document["items"],
        name=lambda item: str(item["cleaning"]["messages"][0]["msgId"]),
        failures=failures,
        extra=extra_keys(document),
        notes=[each.text for each in plan.consequences],
        headings=headings,
    )


def resend_receipt_listing(receipt: Receipt, failures: Sequence[Failure]) -> Listing:
    """Make the listing of a receipt: the message, and what became of it."""
    document = receipt_document(receipt)
    return Listing(
        kind=RECEIPT,
        columns=(*_PLACE, _offset(""), _message(""), *RESULT_COLUMNS),
        items=document["items"],
        name=lambda item: str(item["messages"][0]["msgId"]),
        failures=failures,
        extra=extra_keys(document),
        notes=[f"Group {receipt.group}: {count_results(item.result for item in receipt.items)}. It cannot be undone."],
    )


def _sent(item: Item, where: str) -> Item:
    step: Item = item[where] if where else item
    message: Item = step["messages"][0]
    return message


def _offset(where: str) -> Column:
    return Column(
        "OFFSET", where or "messages", show=lambda item: str(_sent(item, where)["queueOffset"]), is_number=True
    )


def _message(where: str) -> Column:
    return Column("MESSAGE", "note", show=lambda item: str(_sent(item, where)["msgId"]), gives_way=1)


_PLACE = (Column("TOPIC", "topic"), Column("BROKER", "brokerName"), Column("Q", "queueId", is_number=True))
RESULT_COLUMNS = (
    Column("RESULT", "result", is_alarm=lambda item: item["result"] != "CONFIRMED"),
    Column("BY", "route", is_wide=True),
    Column("NOTE", "note", show=lambda item: item["note"] or "-", is_sentence=True),
)
