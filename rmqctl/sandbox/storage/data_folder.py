"""The data folder of a sandbox, which outlives its process: exclusive access and contents.

    sandbox.json    the release that the sandbox plays, and its number of brokers
    lock            locked while a sandbox uses the folder
    broker-a/       one folder per broker
        commitlog/  the messages (disk_log.py), and what queues know about those of each full file
                    (segment_entries.py)
        state       topics, groups, offsets and the rest (disk_state.py)

Only their owner can read the files. Bytes of a damaged file that are cut off are kept next to it, in NAME.damaged-N.

Data is written to these files before the client gets its answer, so it survives the death of the process (kill -9).
Messages are fsynced every flushIntervalCommitLog (500 ms), the rest every flushConsumerOffsetInterval (5 s). A power
cut loses what was written after the last fsync. With flushDiskType=SYNC_FLUSH, messages are fsynced before the answer.
Broker.restart(lose_unflushed=True) simulates the power cut, with and without a folder.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import ExitStack
from pathlib import Path

from rmqctl.errors import RmqctlError, UsageError
from rmqctl.net.file_lock import lock_file, require_file_locks

from .disk_log import DISK_SEGMENT_BYTES, DiskLog, find_segments, write_file
from .disk_state import FILE_NAME, DiskState
from .fsync import sync_folder
from .store import MessageStore

logger = logging.getLogger("rmqctl.sandbox")

_FACTS = "sandbox.json"
_FACTS_IN_WORK = "sandbox.new"
_LOCK = "lock"
_FORMAT = 1
_OWN_FOLDER = "Use an empty folder for the sandbox."


class DataFolder:
    """A folder for exclusive use by one sandbox. Raises UsageError for an unsuitable folder, RmqctlError, OSError."""

    def __init__(self, path: Path, *, plays: str, broker_count: int) -> None:
        self._path = path
        self._opened: list[DiskLog | DiskState] = []
        self._is_new = False
        require_file_locks("A sandbox with a folder")
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = self._take()
        except OSError as error:
            raise _refused(path, error) from None
        try:
            self._check({"format": _FORMAT, "plays": plays, "brokers": broker_count})
        except BaseException:
            self.close()
            raise

    def open_broker(self, name: str, capacity_bytes: int) -> tuple[MessageStore, DiskState]:
        """Open the data of a broker. Raises RmqctlError when it cannot be read."""
        folder = self._path / name
        try:
            if not self._is_new and not folder.exists():
                logger.warning("%s: the folder is missing: %s starts without any data", folder, name)
            folder.mkdir(mode=0o700, exist_ok=True)
            sync_folder(self._path)
            _warn_of_missing(folder)
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
            raise UsageError(f"{self._path} is not a sandbox folder: it contains {min(names)}.", hint=_OWN_FOLDER)
        lock = os.open(self._path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            lock_file(lock)
        except BlockingIOError:
            os.close(lock)
            hint = "Stop the other sandbox, or use another folder."
            raise UsageError(f"{self._path} is in use by another sandbox.", hint=hint) from None
        return lock

    def _check(self, wanted: dict[str, object]) -> None:
        path = self._path / _FACTS
        try:
            if not path.exists():
                self._is_new = True
                part = self._path / _FACTS_IN_WORK
                # Synced: otherwise a power cut could leave an empty file.
                write_file(part, json.dumps(wanted).encode() + b"\n", is_synced=True)
                part.replace(path)
                sync_folder(self._path)
            found = json.loads(path.read_text())
        except OSError as error:
            raise _refused(path, error) from None
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.get("format") != _FORMAT:
            raise RmqctlError(f"{path} is not a file of a sandbox, or its format is not supported.", hint=_OWN_FOLDER)
        if found.get("plays") != wanted["plays"]:
            raise UsageError(
                f"{self._path} was written by a sandbox that plays {found.get('plays')}, not {wanted['plays']}.",
                hint="Start the sandbox as that release, or use another folder.",
            )
        if found.get("brokers") != wanted["brokers"]:
            raise UsageError(
                f"{self._path} was written by a sandbox with {found.get('brokers')} brokers, not {wanted['brokers']}.",
                hint="Start the sandbox with that number of brokers, or use another folder.",
            )

    def close(self) -> None:
        """Flush everything and release the folder."""
        with ExitStack() as stack:
            stack.callback(os.close, self._lock)
            for opened in reversed(self._opened):  # tables close first: they flush the log before themselves
                stack.callback(opened.close)


def _warn_of_missing(folder: Path) -> None:
    """Warn when a broker has lost its messages or its tables: it starts with what is left."""
    has_state, has_log = (folder / FILE_NAME).exists(), bool(find_segments(folder / "commitlog"))
    if has_state and not has_log:
        logger.warning("%s: its messages are missing: the folder commitlog has no files", folder)
    if has_log and not has_state:
        logger.warning("%s: its topics, groups and offsets are missing: there is no file %s", folder, FILE_NAME)


def _refused(path: Path, error: OSError) -> UsageError:
    return UsageError(f"Cannot use {path}: {error.strerror}.", hint="Use a folder that the sandbox can write to.")
