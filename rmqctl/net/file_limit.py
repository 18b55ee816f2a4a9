"""The limit of open files and connections of this process."""

from __future__ import annotations

import errno
import os
import socket

# Imported early: when it is needed, the process may be out of files and could not import it.
try:
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
except ImportError:  # Windows
    _HAS_LIMITS = False
else:
    _HAS_LIMITS = True

# The process or the machine has no free file for another connection.
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
OUT_OF_FILES_HINT = "Raise it with ulimit -n."


def open_file_limit() -> int | None:
    """Return the limit; None when it is unlimited, or the system does not report it (Windows)."""
    if not _HAS_LIMITS:
        return None
    soft_limit, _ = getrlimit(RLIMIT_NOFILE)
    return None if soft_limit == RLIM_INFINITY else soft_limit


def out_of_files(number: int) -> str:
    """Return the reason in words for an errno of OUT_OF_FILES."""
    limit = open_file_limit()
    if number == errno.ENFILE:
        return "too many open files on this machine"
    return "too many open files" if limit is None else f"too many open files (limit {limit})"


def require_files() -> None:
    """Raise OSError when not even an event loop can be opened, which needs two connected sockets and a selector."""
    pair = socket.socketpair()
    try:
        os.close(os.dup(pair[0].fileno()))
    finally:
        for each in pair:
            each.close()
