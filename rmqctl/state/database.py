"""SQLite files in the user's state folder: creates them, prepares them for writers, and reports what is wrong."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from rmqctl.errors import BusyError, RmqctlError, UsageError
from rmqctl.state.rules.mounts import file_system_type, is_shared_memory_safe

from .folder import STATE_HINT

_MOUNTINFO = Path("/proc/self/mountinfo")


def create_file(path: Path) -> None:
    """Create the file for this user alone; SQLite gives the files next to it the same permissions."""
    try:
        # An existing file is not opened: closing it would release the locks that SQLite has on it in this process.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        path.chmod(0o600)


@contextmanager
def all_or_nothing(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Run the body as one transaction, started by the statement `begin`; roll it back if the body raises."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def prepare_for_writers(connection: sqlite3.Connection, *, is_local: bool) -> None:
    """Allow readers concurrent with a writer where that is safe, and make every commit wait for the disk.

    Elsewhere, as in a home on NFS that several machines share, a file with a write-ahead log is changed back to
    SQLite's rollback journal, with which readers and writers wait for each other.
    """
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # on macOS an fsync alone does not reach the disk
    try:
        connection.execute(f"PRAGMA journal_mode = {'WAL' if is_local else 'DELETE'}")
    except sqlite3.OperationalError as error:
        # Another process uses the file. The mode stays as it was; the next process that opens the file alone sets it.
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise


def is_local(path: Path) -> bool:
    """Return whether a file is on a disk of this machine; false if the system does not report it."""
    try:
        # Mount points are bytes to the system, as file names are.
        mountinfo = os.fsdecode(_MOUNTINFO.read_bytes())
        kind = file_system_type(mountinfo, PurePosixPath(path.resolve()))
    except OSError:
        return False  # not Linux: the type of the file system is unknown
    return is_shared_memory_safe(kind)


def format_number(connection: sqlite3.Connection) -> int:
    """Return the number of the tables' format, 0 for a file without tables."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refusal(what: str, path: Path, error: sqlite3.Error, move_away: str) -> RmqctlError:
    """Return the error for a file that SQLite refuses: `what` is its name, `move_away` the hint if it is damaged."""
    extended_code = getattr(error, "sqlite_errorcode", 0)
    if extended_code == sqlite3.SQLITE_IOERR_SHMSIZE:
        extended_code = sqlite3.SQLITE_FULL  # no room for the shared-memory file next to it
    match extended_code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return RmqctlError(f"Cannot write the {what} {path}: the disk is full.", hint=STATE_HINT)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            return BusyError(f"The {what} {path} is locked by another process.", hint="Nothing was written; try again.")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return UsageError(f"The {what} {path} is damaged: {error}.", hint=move_away)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return UsageError(f"Cannot use the {what} {path}: {error}.", hint=STATE_HINT)
    return RmqctlError(f"The {what} {path} failed: {error}.", hint=STATE_HINT)
