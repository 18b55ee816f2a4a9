"""SQLite files in the user's state folder: made, prepared for writers, and what is wrong with them put into words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from rmqctl.errors import BusyError, RmqctlError, UsageError
from rmqctl.rules.mounts import file_system_type, is_shared_memory_safe

from .state_place import STATE_HINT

_MOUNTINFO = Path("/proc/self/mountinfo")


def create_file(path: Path) -> None:
    """Create the file for this user alone; SQLite gives those beside it the same rights."""
    try:
        # Never opened again: to close it would give up the locks that SQLite has on it in this process.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        path.chmod(0o600)


@contextmanager
def all_or_nothing(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Do what is inside as one transaction, which `begin` begins; roll it back where it raises."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def prepare_for_writers(connection: sqlite3.Connection, *, is_local: bool) -> None:
    """Let readers and a writer work side by side where that is safe, and every commit wait for the disk.

    Elsewhere, as in a home on NFS that several machines share, a file that has a write-ahead log is taken back to
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


def format_number(connection: sqlite3.Connection) -> int:
    """Return the number of the tables' form, 0 for a file that has none yet."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refusal(what: str, path: Path, error: sqlite3.Error, move_away: str) -> RmqctlError:
    """Return what to raise for a file that SQLite refuses: `what` is its name, `move_away` the hint if damaged."""
    extended_code = getattr(error, "sqlite_errorcode", 0)
    if extended_code == sqlite3.SQLITE_IOERR_SHMSIZE:
        extended_code = sqlite3.SQLITE_FULL  # no room for the file beside it that readers and writers share
    match extended_code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return RmqctlError(f"The {what} {path} can't be written: the disk is full.", hint=STATE_HINT)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            return BusyError(f"The {what} {path} is held by another process.", hint="Nothing was written; try again.")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return UsageError(f"The {what} {path} is damaged: {error}.", hint=move_away)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return UsageError(f"The {what} {path} can't be used: {error}.", hint=STATE_HINT)
    return RmqctlError(f"The {what} {path} failed: {error}.", hint=STATE_HINT)
