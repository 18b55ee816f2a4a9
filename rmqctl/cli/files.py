"""Files that a user names. One that is read may be stdin.

One that is written appears in one step, readable by that user only, and never in the place of another unless forced.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Semaphore, Thread
from types import TracebackType
from typing import BinaryIO, Self

from rmqctl.errors import RmqctlError, UsageError

# How many chunks may wait to be written, and how many bytes are written before each sync to disk.
_MOST_CHUNKS, _SYNC_BYTES = 64, 32 << 20


def new_file(option: str, file: str, *, is_forced: bool = False, may_force: bool = False) -> Path:
    """Return the path of the file to write. Raises UsageError if it must not or cannot be written."""
    path = Path(file)
    try:
        if is_forced:
            path = path.resolve()  # replace a link's target, not the link
        if os.path.lexists(path) and not is_forced:
            raise _there_already(path, may_force=may_force)
        if path.exists() and not path.is_file():
            # A rename would replace a device with a file.
            raise UsageError(f"{option} {file} is not a regular file.")
        if not path.parent.is_dir():
            raise UsageError(f"{option} {file}: folder {path.parent} does not exist.")
    except (OSError, RuntimeError, ValueError) as error:  # such as a name that is too long, a cycle of links
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(f"Cannot write {option} {file}: {reason}.") from None
    return path


def _there_already(path: Path, *, may_force: bool) -> UsageError:
    return UsageError(f"{path} already exists.", hint="Use --force to replace it." if may_force else "Name a new file.")


def write_file(path: Path, text: str, *, is_forced: bool = False, may_force: bool = False) -> None:
    """Write a file in one step, so that it is never incomplete. Raises UsageError if it was created meanwhile."""
    with writing(path, is_forced=is_forced, may_force=may_force) as out:
        out.write(text.encode())


@contextmanager
def writing(path: Path, *, is_forced: bool = False, may_force: bool = False) -> Iterator[BinaryIO]:
    """Yield a new file for writing, which gets its name in one step at the end, and is deleted on failure.

    Raises UsageError if the file was created meanwhile, RmqctlError if it cannot be written.
    """
    import tempfile

    new: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".rmqctl-")  # for the user alone (0600)
        new = Path(name)
        with os.fdopen(descriptor, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        if is_forced:
            new.replace(path)
        else:
            _put(new, path)
    except FileExistsError:
        raise _there_already(path, may_force=may_force) from None
    except OSError as error:
        raise RmqctlError(f"Cannot write {path}: {(error.strerror or str(error)).lower()}.") from None
    finally:
        if new is not None:
            new.unlink(missing_ok=True)


class WriteBehind:
    """Writes to a file in one thread and syncs it to disk in another; leaving the context waits for both.

    A write that fails raises its OSError at a later write, or at the end.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._error: OSError | None = None
        self._chunks: SimpleQueue[bytes | None] = SimpleQueue()
        self._room = Semaphore(_MOST_CHUNKS)
        self._thread = Thread(target=self._run)
        self._syncs: SimpleQueue[bool] = SimpleQueue()
        self._syncing = Thread(target=self._sync)

    def __enter__(self) -> Self:
        self._thread.start()
        self._syncing.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._chunks.put(None)
        self._thread.join()
        self._syncs.put(False)
        self._syncing.join()
        if self._error is not None and kind is None:
            raise self._error

    def write(self, data: bytes) -> None:
        """Queue bytes for writing; wait while too many chunks are queued."""
        self._room.acquire()
        if self._error is not None:
            raise self._error
        self._chunks.put(data)

    def _run(self) -> None:
        unsynced_bytes = 0
        while (data := self._chunks.get()) is not None:
            try:
                if self._error is None:
                    self._out.write(data)
                    unsynced_bytes += len(data)
                    if unsynced_bytes >= _SYNC_BYTES:
                        self._out.flush()
                        self._syncs.put(True)
                        unsynced_bytes = 0
            except OSError as error:
                self._error = error
            self._room.release()

    def _sync(self) -> None:
        while self._syncs.get():
            try:
                os.fsync(self._out.fileno())
            except OSError as error:
                self._error = error


def _put(new: Path, path: Path) -> None:
    """Give a file its name, unless the name is in use; a rename would replace that file. Raises OSError."""
    try:
        path.hardlink_to(new)
    except FileExistsError:
        raise
    except OSError:
        # The file system does not support hard links.
        if os.path.lexists(path):
            raise FileExistsError from None
        new.replace(path)


# A larger file is certainly the wrong one.
_MAX_BYTES = 256 * 1024 * 1024


def read_input(option: str, path: str) -> bytes:
    """Return the content of a file, `-` for stdin. Raises UsageError."""
    try:
        if path == "-":
            if sys.stdin is None:
                raise UsageError(f"Cannot read {option} -: standard input is closed.")
            data = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"Cannot read {option} {path}: {(error.strerror or str(error)).lower()}.") from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{option} {path} is larger than {_MAX_BYTES // 1024**2} MiB.")
    return data
