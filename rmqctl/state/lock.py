"""Files that one process locks at a time, with a lock of the system (flock), which is released when the process ends.

The file's content only names the process that holds the lock.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from rmqctl.errors import BusyError
from rmqctl.net.file_lock import lock_file

from .folder import unusable


class _Holder(Struct):
    pid: int
    operation: str


def take(path: Path, operation: str, busy: str, hint: str) -> int:
    """Acquire a lock, to be released by free().

    Raises BusyError, with `busy` and the holder, if another process has it; UsageError for an unusable file;
    UnsupportedError on systems that cannot lock files.
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
    """Release a lock. The file is kept: if it were removed, two processes could lock two files of the same name."""
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
            who = "another process"  # it has not written its id yet
        raise BusyError(f"{busy} {who}.", hint=hint) from None
