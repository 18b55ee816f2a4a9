"""The ledger of a replay: which dead letters were sent where. One file per group and target, next to the journal.

Each window is written to it in one piece before it is sent; each dead letter gets its row when its result is known.
After a crash, dead letters without a result are in doubt: the next run looks for their copies on the target, and sends
only those that have none.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from rmqctl.changes.dlq.rules.replay import ReplayTarget
from rmqctl.errors import UsageError
from rmqctl.model.receipt import Who
from rmqctl.state.database import all_or_nothing, create_file, format_number, is_local, prepare_for_writers, refusal
from rmqctl.state.folder import STATE_HINT, state_folder, unusable
from rmqctl.state.lock import free, take
from rmqctl.state.process import process_start

_FORMAT = 2
_TABLES = (
    (
        "CREATE TABLE ledger (id TEXT, name TEXT, cluster TEXT, brokers TEXT, group_name TEXT, kind TEXT, topic TEXT,"
        " created_at_ms INTEGER)"
    ),
    (
        "CREATE TABLE letters (broker_name TEXT, queue_id INTEGER, queue_offset INTEGER, message_id TEXT, earlier TEXT,"
        " to_topic TEXT, to_broker TEXT, to_queue INTEGER, at_ms INTEGER, state INTEGER, to_offset INTEGER,"
        " run INTEGER, PRIMARY KEY (broker_name, queue_id, queue_offset, message_id)) WITHOUT ROWID"
    ),
    "CREATE INDEX by_message ON letters (message_id, earlier)",
    "CREATE TABLE under_way (id INTEGER PRIMARY KEY, count INTEGER, rows TEXT)",
    (
        "CREATE TABLE runs (id INTEGER PRIMARY KEY, started_at_ms INTEGER, ended_at_ms INTEGER, reason TEXT,"
        " user TEXT, host TEXT, pid INTEGER, process_start TEXT, planned_count INTEGER)"
    ),
)
# What runs left; ledgers of earlier versions lack it.
_GAPS = "CREATE TABLE IF NOT EXISTS gaps (run INTEGER, broker_name TEXT, left_count INTEGER)"
_MOVE_AWAY = "Move it away; the next replay creates a new ledger and sends everything again."


# One statement for this many rows takes less time than one each, and other threads run meanwhile. SQLite before 3.32
# accepts 999 values.
_ROWS_AT_ONCE = 80
_VALUES = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class LedgerState(IntEnum):
    """The result for a dead letter: stored on the target, or dropped by the transformation."""

    SENT = 1
    DROPPED = 2


class LedgerRow(NamedTuple):
    """One dead letter: its place and id, the mark of the replay that had sent it before, if any, and its target.

    Its copy can be in the target queue from `from_offset` on.
    """

    broker_name: str
    queue_id: int
    queue_offset: int
    message_id: str
    earlier: str
    to_topic: str
    to_broker: str
    to_queue: int
    at_ms: int
    from_offset: int


class LedgerResult(NamedTuple):
    """The result of a row: SENT, with the offset of its copy, or DROPPED without one."""

    row: LedgerRow
    state: LedgerState
    to_offset: int | None


class LedgerIdentity(Struct, frozen=True):
    """What a ledger is for. `name` distinguishes ledgers for the same purpose; "" is the default ledger.

    `brokers` are the masters' addresses by name. A cluster has no permanent identity: it counts as the same as long as
    one of its brokers has the same name and address.
    """

    cluster: str
    brokers: Mapping[str, str]
    group: str
    target: ReplayTarget
    name: str = ""


_ROWS = msgspec.json.Decoder(list[LedgerRow])


def has_ledger(identity: LedgerIdentity) -> bool:
    """Return whether a ledger for this exists."""
    return _find(ledger_folder(create=False), identity) is not None


class Ledger:
    """The ledger for a group and a target, locked by this process; created if it does not exist.

    Raises BusyError when another process has it, UsageError for an unusable file or folder.
    """

    def __init__(self, identity: LedgerIdentity, now_ms: int) -> None:
        self._run = 0
        folder = ledger_folder(create=True)
        busy = f"The dead letters of {identity.group} are already being replayed by"
        hint = "Try again when that process has ended."
        self._lock = take(folder / f"{_digest(identity)}.lock", "REPLAY", busy, hint)
        try:
            known = _find(folder, identity)
            self.id = secrets.token_hex(6) if known is None else known.stem.rpartition("-")[2]
            self._path = folder / f"{_digest(identity)}-{self.id}.db"
            self._connection = _open(self._path)
            with self._transaction():
                brokers = _merged_brokers(self._connection, identity)
                if known is None:
                    row = (self.id, identity.name, identity.cluster, brokers, identity.group,
                           identity.target.kind.value, identity.target.topic, now_ms)  # fmt: skip
                    self._connection.execute("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
                else:
                    self._connection.execute("UPDATE ledger SET cluster = ?, brokers = ?", (identity.cluster, brokers))
        except BaseException:
            free(self._lock)
            raise

    def close(self) -> None:
        """Close the file, and release its lock."""
        self._connection.close()
        free(self._lock)

    def has_letters(self) -> bool:
        """Return whether it has a row."""
        with self._reading():
            return self._connection.execute("SELECT 1 FROM letters LIMIT 1").fetchone() is not None

    def done_between(self, broker_name: str, queue_id: int, first: int, last: int) -> set[tuple[int, str]]:
        """Return the offsets and ids of its rows between two offsets of a queue, both included."""
        with self._reading():
            found = self._connection.execute(
                "SELECT queue_offset, message_id FROM letters"
                " WHERE broker_name = ? AND queue_id = ? AND queue_offset BETWEEN ? AND ?",
                (broker_name, queue_id, first, last),
            )
            return set(found)

    def deliveries(self, message_ids: Sequence[str]) -> set[tuple[str, str]]:
        """Return (id, earlier mark) of its rows with these ids."""
        return self._of_messages("SELECT message_id, earlier FROM letters WHERE", message_ids)

    def sent_places(self, message_ids: Sequence[str]) -> set[tuple[str, str, int, int]]:
        """Return (id, broker, queue, offset) of its rows with these ids whose copy is stored on the target."""
        query = "SELECT message_id, broker_name, queue_id, queue_offset FROM letters WHERE to_offset IS NOT NULL AND"
        return self._of_messages(query, message_ids)

    def in_doubt(self) -> list[LedgerRow]:
        """Return what was about to be sent when the ledger was last written."""
        with self._reading():
            found = self._connection.execute("SELECT rows FROM under_way").fetchone()
            return [] if found is None else _ROWS.decode(found[0])

    def note(self, *, done: Sequence[LedgerResult] = (), under_way: Sequence[LedgerRow] = ()) -> None:
        """Note the results of rows, and all that may be under way from now on, in one transaction.

        It is on the disk when this returns.
        """
        run = self._run
        with self._transaction():
            for at in range(0, len(done), _ROWS_AT_ONCE):
                part = done[at : at + _ROWS_AT_ONCE]
                values: list[Any] = []
                for row, state, to_offset in part:
                    values += (*row[:-1], state, to_offset, run)
                rows = ", ".join([_VALUES] * len(part))
                self._connection.execute(f"INSERT OR REPLACE INTO letters VALUES {rows}", values)  # noqa: S608 -- marks
            text = msgspec.json.encode(under_way).decode()
            self._connection.execute("INSERT OR REPLACE INTO under_way VALUES (1, ?, ?)", (len(under_way), text))

    def begin_run(self, who: Who, reason: str | None, planned_count: int, now_ms: int) -> None:
        """Note that a run starts: all that is noted from now on belongs to it."""
        with self._transaction():
            cursor = self._connection.execute(
                "INSERT INTO runs (started_at_ms, reason, user, host, pid, process_start, planned_count)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (now_ms, reason, who.user, who.host, who.pid, process_start(who.pid), planned_count),
            )
            self._run = cursor.lastrowid or 0

    def end_run(self, now_ms: int) -> None:
        """Note that the run has ended."""
        with self._transaction():
            self._connection.execute("UPDATE runs SET ended_at_ms = ? WHERE id = ?", (now_ms, self._run))

    def note_gaps(self, unread: Collection[str], beyond_count: int) -> None:
        """Note what the last run left: brokers that it did not read, and how many are beyond its maximum."""
        gaps = [*((name, 0) for name in sorted(unread)), *([(None, beyond_count)] if beyond_count else [])]
        with self._transaction():
            self._connection.execute(_GAPS)
            self._connection.execute("DELETE FROM gaps WHERE run = (SELECT max(id) FROM runs)")
            self._connection.executemany("INSERT INTO gaps SELECT max(id), ?, ? FROM runs", gaps)

    def _of_messages(self, query: str, message_ids: Sequence[str]) -> set[Any]:
        found: set[Any] = set()
        with self._reading():
            for at in range(0, len(message_ids), _ROWS_AT_ONCE):
                part = message_ids[at : at + _ROWS_AT_ONCE]
                marks = ", ".join("?" * len(part))
                found.update(self._connection.execute(f"{query} message_id IN ({marks})", part))
        return found

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._reading(), all_or_nothing(self._connection, "BEGIN IMMEDIATE"):
            yield

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise refusal("ledger", self._path, error, _MOVE_AWAY) from error


def ledger_paths(folder: Path, digest: str = "*") -> list[Path]:
    """Return the files of ledgers for one purpose, or of all, in a folder."""
    return sorted(folder.glob(f"{digest}-*.db")) if folder.is_dir() else []


def _digest(identity: LedgerIdentity) -> str:
    target = identity.target
    text = "\0".join((identity.group, target.kind, target.topic or "", identity.name))
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:16]


def _find(folder: Path, identity: LedgerIdentity) -> Path | None:
    """Return the file of a ledger of the same cluster."""
    for path in ledger_paths(folder, _digest(identity)):
        with read_only(path) as connection:
            if format_number(connection) == 0:
                continue  # its first process was killed before it had tables
            found = connection.execute("SELECT brokers FROM ledger").fetchone()
        if found is not None and identity.brokers.items() & json.loads(found[0]).items():
            return path
    return None


def _merged_brokers(connection: sqlite3.Connection, identity: LedgerIdentity) -> str:
    """Return the brokers to store. Brokers that are absent now are kept: the next run may see only them."""
    found = connection.execute("SELECT brokers FROM ledger").fetchone()
    earlier = {} if found is None else json.loads(found[0])
    return json.dumps({**earlier, **identity.brokers}, sort_keys=True)


@contextmanager
def read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a ledger to read it. Raises UsageError and RmqctlError for a file that is damaged or unreadable."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise refusal("ledger", path, error, _MOVE_AWAY) from error
    except ValueError as error:
        raise UsageError(f"The ledger {path} has an invalid row: {error}.", hint=_MOVE_AWAY) from None


def ledger_folder(*, create: bool) -> Path:
    """Return the folder of ledgers. Raises UsageError for one that cannot be created."""
    folder = state_folder(create=create) / "ledgers"
    if create:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise unusable(folder, error) from None
    return folder


def _open(path: Path) -> sqlite3.Connection:
    try:
        create_file(path)
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            prepare_for_writers(connection, is_local=is_local(path))
            found = format_number(connection)
            if found not in (0, _FORMAT):
                raise UsageError(
                    f"The ledger {path} was written by another version of rmqctl.",
                    hint=f"Use that version. {STATE_HINT}",
                )
            if found == 0:
                with all_or_nothing(connection, "BEGIN IMMEDIATE"):
                    for table in _TABLES:
                        connection.execute(table)
                    connection.execute(f"PRAGMA user_version = {_FORMAT}")
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise refusal("ledger", path, error, _MOVE_AWAY) from error
    except OSError as error:
        raise unusable(path, error) from None
    return connection
