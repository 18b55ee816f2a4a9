"""The journal's tables, and the conversion of values to rows and back.

An item's row is ATTEMPTING from just before its request is sent until its result is known.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from rmqctl.model.plan import CleanStep, ConfigItem, Operation, Plan, PlanItem, ReturnedMessage, Route, Subject
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
# Messages that are sent back before an item is written. `holder` is the client that had them in flight, and since when.
# The copy is after `known_before`, the end of the broker's commit log. Older journals do not have this table.
RETURNS = "returns"
ADD_RETURNS = f"""CREATE TABLE IF NOT EXISTS {RETURNS} (
        change INTEGER NOT NULL REFERENCES changes, item INTEGER NOT NULL, queue_offset INTEGER NOT NULL,
        message_id TEXT NOT NULL, holder TEXT NOT NULL, known_before INTEGER, result TEXT NOT NULL,
        note TEXT NOT NULL DEFAULT '', PRIMARY KEY (change, item, queue_offset)) WITHOUT ROWID"""
# Older journals do not have this column: the next writer adds it, and older releases still work with it.
RECONSUMED = "reconsumed_at_least"
ADD_RECONSUMED = f"ALTER TABLE items ADD COLUMN {RECONSUMED} INTEGER"


class Change(Struct, frozen=True):
    """One change that was made from this user's account.

    `counts` has every result, of items and configurations; `topics` are the topics of its offsets.
    """

    receipt_id: str
    plan_id: str
    operation: Operation
    started_at_ms: int
    ended_at_ms: int | None
    who: Who
    cluster: str
    subject: Subject
    route: Route
    asked: str
    reason: str | None
    counts: Mapping[Result, int]
    state: ChangeState
    topics: tuple[str, ...] = ()


class OpenReturn(Struct, frozen=True):
    """A message that an earlier change sent back, or may have sent back. `is_stored`: its copy was seen."""

    message_id: str
    known_before: int
    is_stored: bool
    receipt_id: str


def has_broker(row: sqlite3.Row, brokers: Mapping[str, str]) -> bool:
    """Return whether a row with `brokers` of `changes` has one of these, by name and address.

    A cluster can be reached through other name servers each time, so these do not identify it.
    """
    return bool(msgspec.json.decode(row["brokers"], type=dict[str, str]).items() & brokers.items())


def storable(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return values that SQLite accepts: strings from the environment can contain bytes that are not text."""
    return tuple(
        value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value for value in values
    )


def stored(value: int | Mapping[str, Any] | None) -> int | str | None:
    """Return an offset or a configuration as it is stored in a row."""
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
        subject=_subject(row),
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


def holder_of(cleaning: CleanStep, message: ReturnedMessage) -> str:
    """Return which client has a message in flight, and since when; another value means that it was delivered again.

    For a popped message, it is the handle.
    """
    return message.pop_handle or f"{cleaning.client_id or ''} {cleaning.taken_at_ms or ''}"


def read_receipt(
    row: sqlite3.Row, items: Sequence[sqlite3.Row], state: ChangeState, returns: Sequence[sqlite3.Row] = ()
) -> Receipt:
    """Return a receipt. An item that was attempted and never settled is UNKNOWN, with a note that says why."""
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
        group=_subject(row).group,
        topic=_subject(row).topic,
        broker=_subject(row).broker,
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


def subject_text(subject: Subject) -> str:
    """Return what is changed as the journal notes it: the name of a group, "topic NAME" or "broker NAME"."""
    return subject.group if subject.kind == "group" else str(subject)


def _subject(row: sqlite3.Row) -> Subject:
    # No group has a name with a blank.
    kind, blank, name = row["group_name"].partition(" ")
    return Subject("", **{kind: name}) if blank and kind in ("topic", "broker") else Subject(row["group_name"])


def _who(row: sqlite3.Row) -> Who:
    return Who(row["user"], row["host"], row["pid"], row["context"])


def _unsettled_note(row: sqlite3.Row, state: ChangeState) -> str:
    if state is ChangeState.DONE:
        return "Its result was not seen."
    if state is ChangeState.ELSEWHERE:
        return f"Its result is not known yet: process {row['pid']} on {row['host']} may still be running."
    if state is ChangeState.RUNNING:
        return f"Its result is not known yet: process {row['pid']} is still running."
    return "The process ended before its result was seen."


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
        reconsumed_at_least=row[RECONSUMED] if RECONSUMED in row.keys() else None,  # noqa: SIM118 -- sqlite3.Row
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
        route=Route(row["route"] or route),  # older releases store it for the change only
    )


def _read_mapping(text: str | None) -> dict[str, Any] | None:
    return None if text is None else msgspec.json.decode(text, type=dict[str, Any])
