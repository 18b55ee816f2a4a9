"""The journal's file: opens it, creates it, and reports what is wrong with it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from rmqctl.errors import UsageError
from rmqctl.state.database import all_or_nothing, create_file, format_number, is_local, prepare_for_writers, refusal
from rmqctl.state.folder import JOURNAL, STATE_HINT, state_folder, unusable

from .rows import ADD_RECONSUMED, ADD_RETURNS, FORMAT, RECONSUMED, TABLES

# A transaction takes some ms; a process that has the file for longer has stopped in the middle of one.
_BUSY_S = 10.0
_MOVE_AWAY = "Move it away; the next change creates a new journal. Changes in the old one can then not be undone."


class JournalFile:
    """The file at `path`, else in the user's state folder. Several processes may read and write it concurrently."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        # Whether it is on a disk of this machine; determined by the first write.
        self._is_local: bool | None = None

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """Run the body as one transaction; its writes are on the disk at the end."""
        path = state_folder(create=write) / JOURNAL if self._path is None else self._path
        try:
            connection = self._open(path, write=write)
            if connection is None:
                with closing(_connect(":memory:")) as empty:
                    _create_tables(empty)
                    yield empty
                return
            with all_or_nothing(connection, "BEGIN IMMEDIATE" if write else "BEGIN"):
                if write:
                    _complete_tables(connection)
                yield connection
        except sqlite3.ProgrammingError:
            raise  # a bug in rmqctl, not a problem of the file
        except sqlite3.Error as error:
            raise refusal("journal", path, error, _MOVE_AWAY) from error
        except OSError as error:
            raise unusable(path, error) from None
        except (ValueError, msgspec.DecodeError) as error:
            if write:
                raise
            raise UsageError(f"The journal {path} has an invalid row: {error}.", hint=_MOVE_AWAY) from None

    def _open(self, path: Path, *, write: bool) -> sqlite3.Connection | None:
        """Return the connection, None when there is no journal to read."""
        if self._connection is None:
            if write:
                create_file(path)
            elif not path.exists():
                return None
            self._connection = _connect(f"{path.absolute().as_uri()}?mode=rw")
        connection = self._connection
        with all_or_nothing(connection, "BEGIN"):
            found = format_number(connection)
            if found > FORMAT:
                raise UsageError(
                    f"The journal {path} was written by a newer rmqctl (format {found}; this one supports {FORMAT}).",
                    hint=f"Use the newer rmqctl. {STATE_HINT}",
                )
            if found == 0 and connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                raise UsageError(f"{path} is not a journal of rmqctl.", hint=_MOVE_AWAY)
        if write:
            if self._is_local is None:
                self._is_local = is_local(path)
            prepare_for_writers(connection, is_local=self._is_local)
        return connection if write or found else None


def _connect(name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(name, uri=True, timeout=_BUSY_S, isolation_level=None)
    connection.row_factory = sqlite3.Row
    return connection


def _complete_tables(connection: sqlite3.Connection) -> None:
    if format_number(connection) == 0:
        _create_tables(connection)
        return
    columns = {row["name"] for row in connection.execute("PRAGMA table_info(items)")}
    if columns and RECONSUMED not in columns:
        connection.execute(ADD_RECONSUMED)
    connection.execute(ADD_RETURNS)


def _create_tables(connection: sqlite3.Connection) -> None:
    for table in TABLES:
        connection.execute(table)
    connection.execute(ADD_RETURNS)
    connection.execute(f"PRAGMA user_version = {FORMAT}")
