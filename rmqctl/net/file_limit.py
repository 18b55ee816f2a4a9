"""How many files and connections this process may have open."""

from __future__ import annotations

import errno
import os
import socket

# Imported now: when it is needed, no file may be left to read it from.
try:
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
except ImportError:  # Windows
    _HAS_LIMITS = False
else:
    _HAS_LIMITS = True

# No file is left for another connection, of this process or of the machine.
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
OUT_OF_FILES_HINT = "Raise it with ulimit -n."


def open_file_limit() -> int | None:
    """Return the limit; None where there is none, or the system does not tell (Windows)."""
    if not _HAS_LIMITS:
        return None
    soft_limit, _ = getrlimit(RLIMIT_NOFILE)
    return None if soft_limit == RLIM_INFINITY else soft_limit


def out_of_files(number: int) -> str:
    """Return in words what an error of OUT_OF_FILES says."""
    limit = open_file_limit()
    if number == errno.ENFILE:
        return "too many open files on this machine"
    return "too many open files" if limit is None else f"too many open files (limit {limit})"


def require_files() -> None:
    """Raise OSError where not even an event loop can be opened: it needs two connected sockets and a selector."""
    pair = socket.socketpair()
    try:
        os.close(os.dup(pair[0].fileno()))
    finally:
        for each in pair:
            each.close()
