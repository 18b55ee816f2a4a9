"""Writes a file that a user names: in one step, for that user alone, never over another one unless told to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Semaphore, Thread
from types import TracebackType
from typing import BinaryIO, Self

from rmqctl.errors import RmqctlError, UsageError

# What waits to be written, and how much is written before the disk is asked to take it.
_MOST_CHUNKS, _SYNC_BYTES = 64, 32 << 20


def new_file(option: str, file: str, *, is_forced: bool = False, may_force: bool = False) -> Path:
    """Return the file to write. Raises UsageError for one that is not to be written."""
    path = Path(file)
    try:
        if is_forced:
            path = path.resolve()  # what a link leads to is replaced, and the link stays
        if os.path.lexists(path) and not is_forced:
            raise _there_already(path, may_force=may_force)
        if path.exists() and not path.is_file():
            # A rename would put a file in the place of a device.
            raise UsageError(f"{option} {file} is no regular file.")
        if not path.parent.is_dir():
            raise UsageError(f"{option} {file}: there is no folder {path.parent}.")
    except (OSError, RuntimeError, ValueError) as error:  # such as a name that is too long, a circle of links
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(f"{option} {file} can't be written: {reason}.") from None
    return path


def _there_already(path: Path, *, may_force: bool) -> UsageError:
    return UsageError(
        f"{path} is there already.", hint="Use --force to replace it." if may_force else "Name a new file."
    )


def write_file(path: Path, text: str, *, is_forced: bool = False, may_force: bool = False) -> None:
    """Write a file in one step: nobody sees a part of it. Raises UsageError for one that has come meanwhile."""
    with writing(path, is_forced=is_forced, may_force=may_force) as out:
        out.write(text.encode())


@contextmanager
def writing(path: Path, *, is_forced: bool = False, may_force: bool = False) -> Iterator[BinaryIO]:
    """Give a new file to write into, which gets its name in one step at the end; none is left of what fails.

    Raises UsageError for a file that has come meanwhile, RmqctlError for one that can't be written.
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
        raise RmqctlError(f"{path} can't be written: {(error.strerror or str(error)).lower()}.") from None
    finally:
        if new is not None:
            new.unlink(missing_ok=True)


class WriteBehind:
    """Writes to a file in a thread, while another one has the disk keep up; its end waits for both.

    What can't be written raises its OSError at a later write, or at the end.
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
        """Have bytes written; wait while too much is not written yet."""
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
    """Give a file its name, unless there is one by that name; a rename would replace it. Raises OSError."""
    try:
        path.hardlink_to(new)
    except FileExistsError:
        raise
    except OSError:
        # A file system that knows no links.
        if os.path.lexists(path):
            raise FileExistsError from None
        new.replace(path)
