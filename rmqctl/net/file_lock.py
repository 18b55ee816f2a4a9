"""Lock whole files between processes (flock); the system releases the locks when the process ends."""

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
    """Raise UnsupportedError on systems without file locks; `what` is the subject of the sentence."""
    if not _HAS_LOCKS:
        sentence = f"{what} is not supported on this system ({sys.platform}): it has no POSIX file locks."
        raise UnsupportedError(sentence, hint="Use Linux, macOS or WSL.")


def lock_file(descriptor: int, *, is_shared: bool = False, waits: bool = False) -> None:
    """Lock an open file. Raises BlockingIOError when another process holds the lock, unless `waits`."""
    require_file_locks("File locking")
    mode = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    fcntl.flock(descriptor, mode if waits else mode | fcntl.LOCK_NB)
