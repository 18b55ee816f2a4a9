"""The journal of every change that this user made from this machine: an SQLite file in the user's state folder.

Each write is on the disk before it is sent, and its result as soon as it is known. So a process that is killed at any
point leaves a journal that shows which items were attempted and which were not.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from rmqctl.errors import RmqctlError, UsageError
from rmqctl.model.failure import Attempt, Failure
from rmqctl.model.plan import Operation, Plan, Route, Subject
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ChangeState, ConfigReceiptItem, Receipt, ReceiptItem, Result, ReturnReceipt, Who
from rmqctl.state.process import change_state, process_start

from .file import JournalFile
from .rows import (
    ATTEMPTING,
    RETURNS,
    Change,
    OpenReturn,
    has_broker,
    item_rows,
    read_change,
    read_receipt,
    return_rows,
    settled_row,
    storable,
    stored,
    subject_text,
)

_MAX_NAMED = 10
# The messages of a group's queue that changes sent back.
_OF_QUEUE = (
    f"FROM {RETURNS} AS returns JOIN changes ON changes.number = returns.change "
    "JOIN items ON items.change = returns.change AND items.number = returns.item "
    "WHERE changes.group_name = ? AND items.broker_name = ? AND items.topic = ? AND items.queue_id = ?"
)
# Never sent, or moved past: neither is open.
_OPEN = (Result.NOT_ATTEMPTED.value, Result.CONFIRMED.value)


class Journal:
    """The journal at `path`, else the user's. The first change creates the file; until then the journal is empty.

    A method raises UsageError for a file or folder that cannot be used, BusyError when another process does not
    release it, RmqctlError when the disk is full or fails. Items are numbered in the plan's order, its configurations
    after its items.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._file = JournalFile(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def begin(
        self,
        receipt_id: str,
        plan: Plan,
        plan_text: str,
        plan_sha256: str,
        *,
        now_ms: int,
        who: Who,
    ) -> None:
        """Note that a plan is going to be applied; nothing of it is attempted yet. `who.host` is host_name()."""
        values = {
            "receipt_id": receipt_id,
            "plan_id": plan.id,
            "plan_sha256": plan_sha256,
            "operation": plan.operation.value,
            "started_at_ms": now_ms,
            "user": who.user,
            "host": who.host,
            "pid": who.pid,
            "process_start": process_start(who.pid),
            "context": who.context,
            "cluster": plan.cluster,
            "brokers": msgspec.json.encode(plan.brokers).decode(),
            "group_name": subject_text(plan.subject),
            "route": plan.route.value,
            "asked": plan.asked,
            "reason": plan.reason,
        }
        into = f"INSERT INTO changes ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"  # noqa: S608
        with self._file.transaction(write=True) as connection:
            number = connection.execute(into, storable(tuple(values.values()))).lastrowid
            connection.execute("INSERT INTO plans VALUES (?, ?)", storable((number, plan_text)))
            connection.executemany(
                "INSERT INTO items (change, number, broker_name, topic, queue_id, route, before, target, result) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(number, *row, Result.NOT_ATTEMPTED.value) for row in item_rows(plan)],
            )
            connection.executemany(
                f"INSERT INTO {RETURNS} (change, item, queue_offset, message_id, holder, result) "  # noqa: S608
                "VALUES (?, ?, ?, ?, ?, ?)",
                [(number, *row, Result.NOT_ATTEMPTED.value) for row in return_rows(plan)],
            )

    def attempting(
        self,
        receipt_id: str,
        befores: Mapping[int, int | None] | Mapping[int, Mapping[str, Any] | None],
        *,
        now_ms: int | None = None,
    ) -> None:
        """Note, by number, the current values of items whose requests are sent next; it is on the disk on return.

        An item that is attempted again keeps the value from before the first attempt. `now_ms` is for the cool-down.
        """
        with self._change(receipt_id) as (connection, number):
            done = connection.executemany(
                "UPDATE items SET before = CASE result WHEN ? THEN ? ELSE before END, result = ?, note = '' "
                "WHERE change = ? AND number = ?",
                [
                    (Result.NOT_ATTEMPTED.value, stored(before), ATTEMPTING, number, item)
                    for item, before in befores.items()
                ],
            )
            _check_count(done, befores)
            if now_ms is not None:
                connection.execute("UPDATE changes SET attempted_at_ms = ? WHERE number = ?", (now_ms, number))

    def settle(self, receipt_id: str, items: Mapping[int, ReceiptItem | ConfigReceiptItem]) -> None:
        """Note the results of items, by number; a later call for the same item replaces them."""
        with self._change(receipt_id) as (connection, number):
            done = connection.executemany(
                "UPDATE items SET route = ?5, before = ?6, target = ?7, after = ?8, is_after_known = ?9, "
                "is_pending = ?10, result = ?11, note = ?12, reconsumed_at_least = ?13 "
                "WHERE change = ?14 AND number = ?1 AND broker_name = ?2 AND topic IS ?3 AND queue_id IS ?4",
                [(*settled_row(item_number, item), number) for item_number, item in items.items()],
            )
            _check_count(done, items)

    def returning(self, receipt_id: str, item: int, queue_offsets: Sequence[int], *, known_before: int) -> None:
        """Note that messages of an item are sent back next; it is on the disk on return.

        `known_before` is the end of the broker's commit log: their copies are after it.
        """
        with self._change(receipt_id) as (connection, number):
            done = connection.executemany(
                f"UPDATE {RETURNS} SET result = ?, known_before = ? "  # noqa: S608
                "WHERE change = ? AND item = ? AND queue_offset = ?",
                [(ATTEMPTING, known_before, number, item, offset) for offset in queue_offsets],
            )
            _check_count(done, queue_offsets)

    def returned(self, receipt_id: str, item: int, messages: Sequence[ReturnReceipt]) -> None:
        """Note the results of messages of an item that were sent back."""
        with self._change(receipt_id) as (connection, number):
            done = connection.executemany(
                f"UPDATE {RETURNS} SET result = ?, note = ? "  # noqa: S608
                "WHERE change = ? AND item = ? AND queue_offset = ?",
                [(each.result.value, *storable((each.note,)), number, item, each.queue_offset) for each in messages],
            )
            _check_count(done, [each.queue_offset for each in messages])

    def open_returns(self, group: str, mq: MessageQueue, holder: str) -> dict[int, OpenReturn]:
        """Return the messages of a queue that earlier changes sent back, or may have, without moving past them.

        `holder` is the client that had them in flight (journal_rows.holder_of). By offset; the newest change counts.
        """
        query = (
            f"SELECT returns.*, changes.receipt_id {_OF_QUEUE} "
            "AND returns.holder = ? AND returns.result != ? AND items.result != ? AND changes.operation = ? "
            "ORDER BY returns.change"
        )
        values = (group, mq.broker_name, mq.topic, mq.queue_id, holder, *_OPEN, Operation.CLEAN_EXPIRED.value)
        with self._file.transaction() as connection:
            if not _has_returns(connection):
                return {}
            return {
                row["queue_offset"]: OpenReturn(
                    row["message_id"], row["known_before"] or 0, row["result"] == Result.CONFIRMED, row["receipt_id"]
                )
                for row in connection.execute(query, storable(values))
            }

    def last_resend(self, group: str, mq: MessageQueue, queue_offset: int, message_id: str) -> str | None:
        """Return the last change that resent a message to a group, or may have; None if none did."""
        query = (
            f"SELECT changes.receipt_id {_OF_QUEUE} "
            "AND returns.queue_offset = ? AND returns.message_id = ? AND changes.operation = ? "
            "AND returns.result NOT IN (?, ?) "
            "ORDER BY changes.number DESC LIMIT 1"
        )
        not_sent = (Result.NOT_ATTEMPTED.value, Result.UNCHANGED.value)
        place = (group, mq.broker_name, mq.topic, mq.queue_id, queue_offset, message_id)
        values = (*place, Operation.MESSAGE_RESEND.value, *not_sent)
        with self._file.transaction() as connection:
            row = connection.execute(query, storable(values)).fetchone() if _has_returns(connection) else None
            return None if row is None else str(row["receipt_id"])

    def last_blocked_cleaning(self, group: str, mq: MessageQueue | None, client_id: str) -> str | None:
        """Return the last change that cleaned a queue of a client that was blocked, unless that was confirmed.

        A change that did not move the queue does not count. `mq` None: any queue. Its client is in the plan.
        """
        query = (
            f"SELECT changes.receipt_id, items.result, items.number AS item, plans.text FROM {RETURNS} AS returns "  # noqa: S608
            "JOIN changes ON changes.number = returns.change JOIN plans ON plans.change = returns.change "
            "JOIN items ON items.change = returns.change AND items.number = returns.item "
            "WHERE changes.group_name = ?1 AND changes.operation = ?9 AND items.result NOT IN (?2, ?3) "
            "AND substr(returns.holder, 1, length(?4)) = ?4 "
            "AND (?5 IS NULL OR (items.broker_name = ?5 AND items.topic = ?6 AND items.queue_id = ?7)) "
            "ORDER BY changes.number DESC, items.result = ?8 DESC LIMIT 1"
        )
        place = (None, None, None) if mq is None else (mq.broker_name, mq.topic, mq.queue_id)
        values = (
            group,
            Result.NOT_ATTEMPTED.value,
            Result.UNCHANGED.value,
            f"{client_id} ",
            *place,
            Result.CONFIRMED.value,
            Operation.CLEAN_EXPIRED.value,
        )
        with self._file.transaction() as connection:
            row = connection.execute(query, storable(values)).fetchone() if _has_returns(connection) else None
            if row is None or row["result"] == Result.CONFIRMED:
                return None
            cleaning = msgspec.json.decode(row["text"])["items"][row["item"]].get("cleaning") or {}
            return row["receipt_id"] if cleaning.get("blockedBy") else None

    def end(self, receipt_id: str, now_ms: int) -> None:
        """Note that the process has finished a change, whatever its result."""
        with self._change(receipt_id) as (connection, number):
            connection.execute("UPDATE changes SET ended_at_ms = ? WHERE number = ?", (now_ms, number))

    def receipt(self, receipt_id: str) -> Receipt | None:
        """Return the receipt with this id, id prefix, or id of a plan that was applied once; None if there is no match.

        Raises UsageError for several matches.
        """
        with self._file.transaction() as connection:
            row = _find(connection, receipt_id)
            if row is None:
                return None
            query = "SELECT * FROM items WHERE change = ? ORDER BY number"
            items = connection.execute(query, (row["number"],)).fetchall()
            return read_receipt(row, items, _state(row), _returns(connection, row["number"]))

    def plan_text(self, receipt_id: str) -> str | None:
        """Return the text of the applied plan as it was given; ids as for `receipt`."""
        with self._file.transaction() as connection:
            row = _find(connection, receipt_id)
            if row is None:
                return None
            (text,) = connection.execute("SELECT text FROM plans WHERE change = ?", (row["number"],)).fetchone()
            return str(text)

    def history(self, *, cluster: str | None = None, name: str | None = None, limit: int | None = None) -> list[Change]:
        """Return the changes, of the group, topic and broker with this name if given; the last one started first."""
        counts = ", ".join(f"total(items.result = '{result}') AS {result}" for result in (*Result, ATTEMPTING))
        topics = (
            "(SELECT group_concat(topic, ' ') FROM (SELECT DISTINCT topic FROM items WHERE change = found.number "
            "AND topic IS NOT NULL ORDER BY topic))"
        )
        query = (
            f"SELECT found.*, {topics} AS topics, {counts} FROM (SELECT * FROM changes "  # noqa: S608
            "WHERE (?1 IS NULL OR cluster = ?1) "
            "AND (?2 IS NULL OR group_name IN (?2, ?4, ?5)) ORDER BY number DESC LIMIT ?3) AS found "
            "LEFT JOIN items ON items.change = found.number GROUP BY found.number ORDER BY found.number DESC"
        )
        with self._file.transaction() as connection:
            subjects = () if name is None else (Subject("", name), Subject("", broker=name))
            others = [subject_text(each) for each in subjects] or ["", ""]
            rows = connection.execute(query, storable((cluster, name, -1 if limit is None else limit, *others)))
            return [read_change(row, _state(row)) for row in rows]

    def last_attempt(self, brokers: Mapping[str, str], group: str) -> tuple[int, int] | None:
        """Return the time of the newest change of a group that attempted anything at one of these brokers.

        `brokers` are addresses by name. The time is that of its last attempt if that was noted, else its start. The
        second number is how many resets were pushed to clients: one per broker and topic, 0 for another route.
        """
        query = (
            "SELECT coalesce(attempted_at_ms, started_at_ms) AS at_ms, brokers, (SELECT count(*) FROM (SELECT DISTINCT "
            "topic, broker_name FROM items WHERE change = changes.number AND result != ?2 AND items.route = ?3)) "
            "AS push_count FROM changes WHERE group_name = ?1 "
            "AND EXISTS (SELECT 1 FROM items WHERE change = changes.number AND result != ?2) ORDER BY number DESC"
        )
        wanted = storable((group, Result.NOT_ATTEMPTED.value, Route.CLIENT_PUSH.value))
        with self._file.transaction() as connection:
            for row in connection.execute(query, wanted):
                if has_broker(row, brokers):
                    return row["at_ms"], row["push_count"]
        return None

    @contextmanager
    def _change(self, receipt_id: str) -> Iterator[tuple[sqlite3.Connection, int]]:
        with self._file.transaction(write=True) as connection:
            row = connection.execute("SELECT number FROM changes WHERE receipt_id = ?", (receipt_id,)).fetchone()
            if row is None:
                raise LookupError(f"{receipt_id} was never begun")
            yield connection, row["number"]


def _check_count(done: sqlite3.Cursor, wanted: Collection[int]) -> None:
    if wanted and done.rowcount != len(wanted):
        raise LookupError(f"{len(wanted) - done.rowcount} of the items {sorted(wanted)} are not in the plan")


def _has_returns(connection: sqlite3.Connection) -> bool:
    """Return whether the journal has the table: the next change adds it to the journal of an older release."""
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (RETURNS,)).fetchone())


def _returns(connection: sqlite3.Connection, number: int) -> list[sqlite3.Row]:
    if not _has_returns(connection):
        return []
    query = f"SELECT * FROM {RETURNS} WHERE change = ? ORDER BY item, queue_offset"  # noqa: S608
    return connection.execute(query, (number,)).fetchall()


def _find(connection: sqlite3.Connection, given: str) -> sqlite3.Row | None:
    """Return the row of a change by its receipt's id or a prefix of it, or by its plan's id."""
    (wanted,) = storable((given,))
    ids = _ids(connection, "receipt_id = ?1", wanted)
    if not ids and given:
        ids = _ids(connection, "substr(receipt_id, 1, length(?1)) = ?1", wanted)
        if len(ids) > 1:
            raise UsageError(f"{given} matches several receipts: {_named(ids)}.", hint="Give more of the id.")
    if not ids:
        ids = _ids(connection, "plan_id = ?1", wanted)
        if len(ids) > 1:
            raise UsageError(
                f"Plan {given} was applied several times: {_named(ids)}.", hint="Name one of the receipts."
            )
    if not ids:
        return None
    row: sqlite3.Row = connection.execute("SELECT * FROM changes WHERE receipt_id = ?", ids).fetchone()
    return row


def _ids(connection: sqlite3.Connection, where: str, wanted: str) -> list[str]:
    query = f"SELECT receipt_id FROM changes WHERE {where} ORDER BY number"  # noqa: S608
    return [row["receipt_id"] for row in connection.execute(query, (wanted,))]


def _named(ids: Sequence[str]) -> str:
    more = len(ids) - _MAX_NAMED
    return ", ".join(ids[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _state(row: sqlite3.Row) -> ChangeState:
    return change_state(row["ended_at_ms"], row["host"], row["pid"], row["process_start"])


def write_to_journal(what_came: Callable[[], None], failures: list[Failure]) -> None:
    """Write a result to the journal; note a failure instead of raising it, so that the receipt is shown in any case."""
    try:
        what_came()
    except RmqctlError as error:
        failure = Failure(None, "the journal of this change", error, Attempt.WRITE)
        # The next result is written again, and may fail again; one failure is enough.
        if not any(_is_same(failure, other) for other in failures):
            failures.append(failure)


def _is_same(one: Failure, other: Failure) -> bool:
    return (one.broker_name, one.what, one.error.sentence) == (other.broker_name, other.what, other.error.sentence)
