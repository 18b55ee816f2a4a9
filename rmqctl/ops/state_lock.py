"""Files that one process holds at a time: the lock is the system's (flock), and free again when its process ends.

What is written in the file only tells who has it.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from rmqctl.errors import BusyError
from rmqctl.net.file_lock import lock_file

from .state_place import unusable


class _Holder(Struct):
    pid: int
    operation: str


def take(path: Path, operation: str, busy: str, hint: str) -> int:
    """Take a lock, for free(). Raises BusyError, `busy` with the holder behind it, when another process has it.

    Raises UsageError for a file of no use, UnsupportedError where files can't be locked.
    """
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            _lock(descriptor, busy, hint)
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, msgspec.json.encode(_Holder(os.getpid(), operation)), 0)
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise unusable(path, error) from None
    return descriptor


def free(descriptor: int) -> None:
    """Let go of a lock. The file stays: removing it would let two hold a lock on two files of one name."""
    try:
        os.truncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, busy: str, hint: str) -> None:
    try:
        lock_file(descriptor)
    except BlockingIOError:
        try:
            holder = msgspec.json.decode(os.pread(descriptor, 65536, 0), type=_Holder)
            who = f"process {holder.pid} ({holder.operation})"
        except msgspec.DecodeError:
            who = "another process"  # it has not written yet who it is
        raise BusyError(f"{busy} {who}.", hint=hint) from None
