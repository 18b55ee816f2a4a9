"""The journal's tables, and how values become rows and rows values.

An item's row says ATTEMPTING from just before its request is sent until what came of it is known.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from rmqctl.model.plan import Cleaning, ConfigItem, Operation, Plan, PlanItem, ReturnedMessage, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ChangeState, ConfigReceiptItem, Receipt, ReceiptItem, Result, ReturnReceipt, Who

FORMAT = 1
ATTEMPTING = "ATTEMPTING"

# `before`, `target` and `after` are offsets, or a configuration as JSON; the items of a plan come first, then its
# configurations, which have no topic.
TABLES = (
    """CREATE TABLE changes (
        number INTEGER PRIMARY KEY, receipt_id TEXT NOT NULL UNIQUE, plan_id TEXT NOT NULL, plan_sha256 TEXT NOT NULL,
        operation TEXT NOT NULL, started_at_ms INTEGER NOT NULL, attempted_at_ms INTEGER, ended_at_ms INTEGER,
        user TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL, process_start TEXT, context TEXT,
        cluster TEXT NOT NULL, brokers TEXT NOT NULL, group_name TEXT NOT NULL, route TEXT NOT NULL,
        asked TEXT NOT NULL, reason TEXT)""",
    "CREATE INDEX changes_of_groups ON changes (group_name)",
    "CREATE INDEX changes_of_plans ON changes (plan_id)",
    "CREATE TABLE plans (change INTEGER PRIMARY KEY REFERENCES changes, text TEXT NOT NULL)",
    """CREATE TABLE items (
        change INTEGER NOT NULL REFERENCES changes, number INTEGER NOT NULL, broker_name TEXT NOT NULL, topic TEXT,
        queue_id INTEGER, route TEXT, before, target, after, is_after_known INTEGER NOT NULL DEFAULT 0,
        is_pending INTEGER NOT NULL DEFAULT 0, result TEXT NOT NULL, note TEXT NOT NULL DEFAULT '',
        reconsumed_at_least INTEGER, PRIMARY KEY (change, number)) WITHOUT ROWID""",
)
# Messages that are sent back before an item is written. `holder` is who had them in hand, and since when; behind
# `known_before`, the end of the broker's commit log, lies the copy. Journals of before don't have this table.
RETURNS = "returns"
ADD_RETURNS = f"""CREATE TABLE IF NOT EXISTS {RETURNS} (
        change INTEGER NOT NULL REFERENCES changes, item INTEGER NOT NULL, queue_offset INTEGER NOT NULL,
        message_id TEXT NOT NULL, holder TEXT NOT NULL, known_before INTEGER, result TEXT NOT NULL,
        note TEXT NOT NULL DEFAULT '', PRIMARY KEY (change, item, queue_offset)) WITHOUT ROWID"""
# Journals of before don't have this column: the next writer adds it, and those of before go on with it.
RECONSUMED = "reconsumed_at_least"
ADD_RECONSUMED = f"ALTER TABLE items ADD COLUMN {RECONSUMED} INTEGER"


class Change(Struct, frozen=True):
    """One change that was made from this user's account.

    `counts` has every result, of items and configurations; `topics` are those of its offsets, none for configurations.
    """

    receipt_id: str
    plan_id: str
    operation: Operation
    started_at_ms: int
    ended_at_ms: int | None
    who: Who
    cluster: str
    group: str
    route: Route
    asked: str
    reason: str | None
    counts: Mapping[Result, int]
    state: ChangeState
    topics: tuple[str, ...] = ()


class OpenReturn(Struct, frozen=True):
    """A message that an earlier change sent back, or may have. `is_stored`: its copy was seen."""

    message_id: str
    known_before: int
    is_stored: bool
    receipt_id: str


def storable(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return values that SQLite takes: words from the environment can hold bytes that are no text."""
    return tuple(
        value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value for value in values
    )


def stored(value: int | Mapping[str, Any] | None) -> int | str | None:
    """Return an offset or a configuration as it stands in a row."""
    return value if value is None or isinstance(value, int) else msgspec.json.encode(value).decode()


def item_rows(plan: Plan) -> list[tuple[Any, ...]]:
    """Return (number, broker_name, topic, queue_id, route, before, target) of all that a plan would change."""
    items: tuple[PlanItem | ConfigItem, ...] = (*plan.items, *plan.configs)
    return [
        storable((number, *identity(item), stored(item.before), stored(item.target)))
        for number, item in enumerate(items)
    ]


def settled_row(number: int, item: ReceiptItem | ConfigReceiptItem) -> tuple[Any, ...]:
    """Return an item's number and identity(), and before, target, after, known, pending, result, note, reconsumed."""
    values = (stored(item.before), stored(item.target), stored(item.after))
    is_pending = isinstance(item, ReceiptItem) and item.is_pending
    again = item.reconsumed_at_least if isinstance(item, ReceiptItem) else None
    outcome = (item.is_after_known, is_pending, item.result.value, item.note, again)
    return storable((number, *identity(item), *values, *outcome))


def identity(item: PlanItem | ConfigItem | ReceiptItem | ConfigReceiptItem) -> tuple[str, str | None, int | None, Any]:
    """Return (broker_name, topic, queue_id, route)."""
    if isinstance(item, PlanItem | ReceiptItem):
        return item.mq.broker_name, item.mq.topic, item.mq.queue_id, item.route.value
    return item.broker_name, None, None, item.route.value


def read_change(row: sqlite3.Row, state: ChangeState) -> Change:
    """Return a row of `changes` with the counts that were joined to it."""
    counts = {result: int(row[result]) for result in Result}
    # What is being attempted, or was when its process ended.
    counts[Result.UNKNOWN] += int(row[ATTEMPTING])
    return Change(
        receipt_id=row["receipt_id"],
        plan_id=row["plan_id"],
        operation=Operation(row["operation"]),
        started_at_ms=row["started_at_ms"],
        ended_at_ms=row["ended_at_ms"],
        who=_who(row),
        cluster=row["cluster"],
        group=row["group_name"],
        route=Route(row["route"]),
        asked=row["asked"],
        reason=row["reason"],
        counts=counts,
        state=state,
        topics=tuple((row["topics"] or "").split()),
    )


def return_rows(plan: Plan) -> list[tuple[Any, ...]]:
    """Return (item, queue_offset, message_id, holder) of all messages that a plan would send back."""
    return [
        storable((number, message.queue_offset, message.message_id, holder_of(item.cleaning, message)))
        for number, item in enumerate(plan.items)
        if item.cleaning is not None
        for message in item.cleaning.messages
    ]


def holder_of(cleaning: Cleaning, message: ReturnedMessage) -> str:
    """Return who has a message in hand, and since when: another holder, or the same one later, was given it anew.

    Of popped messages the handle tells.
    """
    return message.pop_handle or f"{cleaning.client_id or ''} {cleaning.taken_at_ms or ''}"


def read_receipt(
    row: sqlite3.Row, items: Sequence[sqlite3.Row], state: ChangeState, returns: Sequence[sqlite3.Row] = ()
) -> Receipt:
    """Return a receipt. What was attempted and never settled is UNKNOWN, with a note that says why."""
    note = _unsettled_note(row, state)
    messages: dict[int, list[ReturnReceipt]] = {}
    for each in returns:
        result, said = _outcome(each, note)
        messages.setdefault(each["item"], []).append(
            ReturnReceipt(each["queue_offset"], each["message_id"], result, said)
        )
    return Receipt(
        id=row["receipt_id"],
        plan_id=row["plan_id"],
        plan_sha256=row["plan_sha256"],
        operation=Operation(row["operation"]),
        started_at_ms=row["started_at_ms"],
        ended_at_ms=row["ended_at_ms"],
        cluster=row["cluster"],
        brokers=msgspec.json.decode(row["brokers"], type=dict[str, str]),
        group=row["group_name"],
        route=Route(row["route"]),
        asked=row["asked"],
        reason=row["reason"],
        who=_who(row),
        state=state,
        items=tuple(
            _read_item(item, note, messages.get(item["number"], ())) for item in items if item["topic"] is not None
        ),
        configs=tuple(_read_config(item, note, Route(row["route"])) for item in items if item["topic"] is None),
    )


def _who(row: sqlite3.Row) -> Who:
    return Who(row["user"], row["host"], row["pid"], row["context"])


def _unsettled_note(row: sqlite3.Row, state: ChangeState) -> str:
    if state is ChangeState.DONE:
        return "What came of it was not seen."
    if state is ChangeState.ELSEWHERE:
        return f"What came of it is not known yet: process {row['pid']} on {row['host']} may still be at it."
    if state is ChangeState.RUNNING:
        return f"What came of it is not known yet: process {row['pid']} is at it."
    return "The process ended before it was seen what came of it."


def _outcome(row: sqlite3.Row, unsettled_note: str) -> tuple[Result, str]:
    if row["result"] == ATTEMPTING:
        return Result.UNKNOWN, unsettled_note
    return Result(row["result"]), row["note"]


def _read_item(row: sqlite3.Row, unsettled_note: str, messages: Sequence[ReturnReceipt]) -> ReceiptItem:
    result, note = _outcome(row, unsettled_note)
    return ReceiptItem(
        mq=MessageQueue(row["topic"], row["broker_name"], row["queue_id"]),
        before=row["before"],
        target=row["target"],
        route=Route(row["route"]),
        result=result,
        after=row["after"],
        is_after_known=bool(row["is_after_known"]),
        is_pending=bool(row["is_pending"]),
        note=note,
        reconsumed_at_least=row[RECONSUMED] if RECONSUMED in row.keys() else None,  # noqa: SIM118 -- a row is no dict
        messages=tuple(messages),
    )


def _read_config(row: sqlite3.Row, unsettled_note: str, route: Route) -> ConfigReceiptItem:
    result, note = _outcome(row, unsettled_note)
    return ConfigReceiptItem(
        broker_name=row["broker_name"],
        before=_read_mapping(row["before"]),
        target=_read_mapping(row["target"]),
        result=result,
        after=_read_mapping(row["after"]),
        is_after_known=bool(row["is_after_known"]),
        note=note,
        route=Route(row["route"] or route),  # journals of older releases have the whole change's alone
    )


def _read_mapping(text: str | None) -> dict[str, Any] | None:
    return None if text is None else msgspec.json.decode(text, type=dict[str, Any])
