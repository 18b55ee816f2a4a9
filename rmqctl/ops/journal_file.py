"""The journal's file: opened, made, and what is wrong with it put into words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath

import msgspec

from rmqctl.errors import BusyError, RmqctlError, UsageError
from rmqctl.rules.mounts import file_system_type, is_shared_memory_safe

from .journal_rows import ADD_RECONSUMED, ADD_RETURNS, FORMAT, RECONSUMED, TABLES
from .state_place import STATE_HINT, state_folder, unusable

_MOUNTINFO = Path("/proc/self/mountinfo")
# A transaction takes some ms; whoever holds the file for longer has stopped in the middle of one.
_BUSY_S = 10.0
_MOVE_AWAY = "Move it away, and the next change begins a new one; what stands in it can't be undone then."


class JournalFile:
    """The file at `path`, else in the user's state folder. Several processes may read and write it at once."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        # Whether it is on a disk of this machine; looked up by the first write.
        self._is_local: bool | None = None

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """Do what is inside as a whole, or not at all; what was written is on the disk at the end."""
        path = state_folder(create=write) / "journal.db" if self._path is None else self._path
        try:
            connection = self._open(path, write=write)
            if connection is None:
                with closing(_connect(":memory:")) as empty:
                    _create_tables(empty)
                    yield empty
                return
            with _all_or_nothing(connection, "BEGIN IMMEDIATE" if write else "BEGIN"):
                if write:
                    _complete_tables(connection)
                yield connection
        except sqlite3.ProgrammingError:
            raise  # a mistake of ours, not the file's
        except sqlite3.Error as error:
            raise _refusal(path, error) from error
        except OSError as error:
            raise unusable(path, error) from None
        except (ValueError, msgspec.DecodeError) as error:
            if write:
                raise
            raise UsageError(f"The journal {path} has a row that can't be read: {error}.", hint=_MOVE_AWAY) from None

    def _open(self, path: Path, *, write: bool) -> sqlite3.Connection | None:
        """Return the connection, None when there is nothing to read."""
        if self._connection is None:
            if write:
                _create_file(path)
            elif not path.exists():
                return None
            self._connection = _connect(f"{path.absolute().as_uri()}?mode=rw")
        connection = self._connection
        with _all_or_nothing(connection, "BEGIN"):
            found = _format(connection)
            if found > FORMAT:
                raise UsageError(
                    f"The journal {path} is of a newer rmqctl (format {found}; this one knows {FORMAT}).",
                    hint=f"Use that one. {STATE_HINT}",
                )
            if found == 0 and connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                raise UsageError(f"{path} is no journal of rmqctl.", hint=_MOVE_AWAY)
        if write:
            if self._is_local is None:
                self._is_local = is_local(path)
            prepare_for_writers(connection, is_local=self._is_local)
        return connection if write or found else None


def _create_file(path: Path) -> None:
    """Create the file for this user alone; SQLite gives those beside it the same rights."""
    try:
        # Never opened again: to close it would give up the locks that SQLite has on it in this process.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        path.chmod(0o600)


def _connect(name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(name, uri=True, timeout=_BUSY_S, isolation_level=None)
    connection.row_factory = sqlite3.Row
    return connection


@contextmanager
def _all_or_nothing(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def prepare_for_writers(connection: sqlite3.Connection, *, is_local: bool) -> None:
    """Let readers and a writer work side by side where that is safe, and every commit wait for the disk.

    Elsewhere, as in a home on NFS that several machines share, a journal that has a write-ahead log is taken back to
    SQLite's rollback journal, in which readers and writers wait for each other.
    """
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # on macOS an fsync alone does not reach the disk
    try:
        connection.execute(f"PRAGMA journal_mode = {'WAL' if is_local else 'DELETE'}")
    except sqlite3.OperationalError as error:
        # Another process works on the file. All is as well as it was; the next one that opens it alone does it.
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise


def is_local(path: Path) -> bool:
    """Tell whether a file is on a disk of this machine, as far as the system tells."""
    try:
        # Mount points are bytes to the system, as names of files are.
        mountinfo = os.fsdecode(_MOUNTINFO.read_bytes())
        kind = file_system_type(mountinfo, PurePosixPath(path.resolve()))
    except OSError:
        return False  # no Linux, where types of file systems are not told so easily
    return is_shared_memory_safe(kind)


def _format(connection: sqlite3.Connection) -> int:
    """Return the number of the tables' form, 0 for a file that has none yet."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _complete_tables(connection: sqlite3.Connection) -> None:
    if _format(connection) == 0:
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


def _refusal(path: Path, error: sqlite3.Error) -> RmqctlError:
    extended_code = getattr(error, "sqlite_errorcode", 0)
    if extended_code == sqlite3.SQLITE_IOERR_SHMSIZE:
        extended_code = sqlite3.SQLITE_FULL  # no room for the file beside it that readers and writers share
    match extended_code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return RmqctlError(f"The journal {path} can't be written: the disk is full.", hint=STATE_HINT)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            return BusyError(f"The journal {path} is held by another process.", hint="Nothing was written; try again.")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return UsageError(f"The journal {path} is damaged: {error}.", hint=_MOVE_AWAY)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return UsageError(f"The journal {path} can't be used: {error}.", hint=STATE_HINT)
    return RmqctlError(f"The journal {path} failed: {error}.", hint=STATE_HINT)
