"""Locks of whole files between processes (flock): free again when their process ends, whatever happens."""

from __future__ import annotations

import sys

from rmqctl.errors import UnsupportedError

try:
    import fcntl
except ImportError:  # Windows
    _HAS_LOCKS = False
else:
    _HAS_LOCKS = True


def require_file_locks(what: str) -> None:
    """Raise UnsupportedError for something that must not be done where there are no such locks."""
    if not _HAS_LOCKS:
        sentence = f"{what} is not supported on this system ({sys.platform}): it has no POSIX file locks."
        raise UnsupportedError(sentence, hint="Linux, macOS and WSL have them.")


def lock_file(descriptor: int, *, is_shared: bool = False, waits: bool = False) -> None:
    """Lock an open file. Raises BlockingIOError when another process has it, unless it is waited for."""
    require_file_locks("This")
    mode = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    fcntl.flock(descriptor, mode if waits else mode | fcntl.LOCK_NB)
