"""The folder of a sandbox that outlives its process: who may use it, and what it holds.

    sandbox.json    which release the sandbox plays, and how many brokers it has
    lock            held while a sandbox uses the folder
    broker-a/       one folder for each broker
        commitlog/  the messages (disk_log.py)
        state       topics, groups, offsets and the rest (disk_state.py)

What a client was told is stored has been written to these files, so it survives the death of the process (kill -9). An
fsync follows for messages every flushIntervalCommitLog (500 ms) and for the rest every flushConsumerOffsetInterval
(5 s): a power cut takes what came after the last one. With flushDiskType=SYNC_FLUSH messages are there before the
answer. Broker.restart(lose_unflushed=True) plays the power cut, with and without a folder.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path

from rmqctl.errors import RmqctlError, UsageError
from rmqctl.net.file_lock import lock_file, require_file_locks

from .disk_log import DISK_SEGMENT_BYTES, DiskLog
from .disk_state import DiskState
from .store import MessageStore
from .syncing import sync_folder

_FACTS = "sandbox.json"
_FACTS_IN_WORK = "sandbox.new"
_LOCK = "lock"
_FORMAT = 1
_OWN_FOLDER = "Give the sandbox a folder of its own."


class DataFolder:
    """A folder that this sandbox alone uses. Raises UsageError for one that it can't have, RmqctlError, OSError."""

    def __init__(self, path: Path, *, plays: str, broker_count: int) -> None:
        self._path = path
        self._opened: list[DiskLog | DiskState] = []
        require_file_locks("A sandbox with a folder")
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = self._take()
        except OSError as error:
            raise _refused(path, error) from None
        try:
            self._check({"format": _FORMAT, "plays": plays, "brokers": broker_count})
        except BaseException:
            self.close()
            raise

    def open_broker(self, name: str, capacity_bytes: int) -> tuple[MessageStore, DiskState]:
        """Open what a broker keeps. Raises RmqctlError when it can't be read."""
        folder = self._path / name
        try:
            folder.mkdir(exist_ok=True)
            sync_folder(self._path)
            state = DiskState(folder)
            self._opened.append(state)
            log = DiskLog(folder / "commitlog", min(DISK_SEGMENT_BYTES, max(1, capacity_bytes // 8)))
            self._opened.append(log)
        except OSError as error:
            raise _refused(folder, error) from None
        return MessageStore(log, capacity_bytes, state), state

    def _take(self) -> int:
        names = [entry.name for entry in self._path.iterdir() if entry.name not in (_LOCK, _FACTS_IN_WORK)]
        if names and _FACTS not in names:
            raise UsageError(f"{self._path} holds other things than a sandbox ({min(names)}).", hint=_OWN_FOLDER)
        lock = os.open(self._path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            lock_file(lock)
        except BlockingIOError:
            os.close(lock)
            hint = "Stop that one first, or give this one another folder."
            raise UsageError(f"{self._path} is in use by another sandbox.", hint=hint) from None
        return lock

    def _check(self, wanted: dict[str, object]) -> None:
        path = self._path / _FACTS
        try:
            if not path.exists():
                part = self._path / _FACTS_IN_WORK
                with part.open("w") as file:
                    file.write(json.dumps(wanted) + "\n")
                    file.flush()
                    os.fsync(file.fileno())  # else a power cut could leave the name with nothing in it
                part.replace(path)
                sync_folder(self._path)
            found = json.loads(path.read_text())
        except OSError as error:
            raise _refused(path, error) from None
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.get("format") != _FORMAT:
            raise RmqctlError(f"{path} is not a sandbox's, or of another format.", hint=_OWN_FOLDER)
        if found.get("plays") != wanted["plays"]:
            raise UsageError(
                f"{self._path} was written by a sandbox that plays {found.get('plays')}, not {wanted['plays']}.",
                hint="Start it as that release, or give it another folder.",
            )
        if found.get("brokers") != wanted["brokers"]:
            raise UsageError(
                f"{self._path} was written by a sandbox with {found.get('brokers')} brokers, not {wanted['brokers']}.",
                hint="Start it with as many, or give it another folder.",
            )

    def close(self) -> None:
        """Flush everything and let others have the folder."""
        with ExitStack() as stack:
            stack.callback(os.close, self._lock)
            for opened in reversed(self._opened):  # tables are closed first: they flush the log before themselves
                stack.callback(opened.close)


def _refused(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} can't be used: {error.strerror}.", hint="The sandbox must be able to write there.")
