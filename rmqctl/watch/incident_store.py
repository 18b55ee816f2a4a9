"""Stores what a watch must know after a restart: open incidents, and the notifications that each target lacks.

The file is in the user's state folder, and has a lock that one process holds. It contains no target, only its hash: the
path of a webhook is often a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
from msgspec import Struct

from rmqctl.errors import RmqctlError
from rmqctl.net.address import canonical_address
from rmqctl.state.folder import state_folder, unusable
from rmqctl.state.lock import free, take
from rmqctl.state.replacement import replace_file

from .incidents import OpenIncident

MOST_WAITING = 1000
Document = Mapping[str, Any]


class _Stored(Struct):
    incidents: list[OpenIncident] = []
    waiting: dict[str, list[Document]] = {}


def open_store(
    name_servers: Sequence[str], groups: Sequence[str], notify_at: str, report: Callable[[str], None]
) -> IncidentStore:
    """Return the store of a watch of these groups; `report` gets a sentence for each problem.

    If the file cannot be used, or another process uses it, the store exists only in memory.
    """
    key = [sorted(map(_canonical, name_servers)), sorted(groups), notify_at]
    digest = sha256(msgspec.json.encode(key)).hexdigest()[:16]
    try:
        path = state_folder() / f"watch-{digest}.json"
        lock = take(path.with_suffix(".lock"), "watch", "Open incidents and notifications are stored by", "")
    except RmqctlError as error:
        report(f"{error.sentence} This watch stores none: after a restart, it notifies of open incidents again.")
        return IncidentStore(report)
    try:
        return IncidentStore(report, path, lock)
    except RmqctlError as error:
        free(lock)
        report(f"{error.sentence} This watch stores nothing for a restart.")
        return IncidentStore(report)


class IncidentStore:
    """Open incidents and waiting notifications, by target; every change is written to the file. For several threads.

    Raises UsageError for a damaged file that cannot be renamed.
    """

    def __init__(self, report: Callable[[str], None], path: Path | None = None, lock: int | None = None) -> None:
        self._report, self._path, self._file_lock = report, path, lock
        self._lock = Lock()
        self._problem: str | None = None
        stored = _Stored() if path is None else self._read(path)
        self.incidents: Sequence[OpenIncident] = stored.incidents
        self._encoded_incidents = msgspec.Raw(msgspec.json.encode(stored.incidents))
        self._waiting = stored.waiting

    @property
    def is_kept(self) -> bool:
        """Whether what is stored survives a restart."""
        return self._path is not None and self._problem is None

    @property
    def waiting_count(self) -> int:
        """The number of notifications that wait, each once per target."""
        return sum(map(len, self._waiting.values()))

    def count(self, target_id: str) -> int:
        """Return the number of notifications that wait for a target."""
        return len(self._waiting.get(target_id, ()))

    def first(self, target_id: str) -> Document | None:
        """Return the oldest notification that waits for a target."""
        with self._lock:
            waiting = self._waiting.get(target_id)
            return waiting[0] if waiting else None

    def keep_targets(self, target_ids: Collection[str]) -> int:
        """Drop the notifications for all other targets; return their number."""
        with self._lock:
            others = self._waiting.keys() - set(target_ids)
            dropped_count = sum(len(self._waiting.pop(target_id)) for target_id in others)
            if dropped_count:
                self._write()
        return dropped_count

    def add(self, incidents: Sequence[OpenIncident], document: Document, target_ids: Collection[str]) -> list[Document]:
        """Store a notification for each target, and the incidents with it; return what was dropped to make room."""
        dropped = []
        with self._lock:
            self._encoded_incidents = msgspec.Raw(msgspec.json.encode(incidents))
            for target_id in target_ids:
                waiting = self._waiting.setdefault(target_id, [])
                waiting.append(document)
                if len(waiting) > MOST_WAITING:
                    dropped.append(waiting.pop(0))
            self._write()
        return dropped

    def save_incidents(self, incidents: Sequence[OpenIncident]) -> None:
        """Store the incidents; does nothing when they have not changed."""
        encoded = msgspec.Raw(msgspec.json.encode(incidents))
        with self._lock:
            if encoded != self._encoded_incidents:
                self._encoded_incidents = encoded
                self._write()

    def remove(self, target_id: str, document: Document) -> None:
        """Forget a notification that a target got; it may have been dropped meanwhile."""
        with self._lock:
            waiting = self._waiting.get(target_id, [])
            if waiting and waiting[0] is document:
                waiting.pop(0)
                self._write()

    def close(self) -> None:
        """Release the file; later changes are not written."""
        with self._lock:
            if self._file_lock is not None:
                free(self._file_lock)
            self._path = self._file_lock = None

    def _read(self, path: Path) -> _Stored:
        try:
            return msgspec.json.decode(path.read_bytes(), type=_Stored)
        except FileNotFoundError:
            return _Stored()
        except (OSError, ValueError, RecursionError):
            aside = path.with_suffix(".damaged")
            try:
                path.replace(aside)
            except OSError as error:
                raise unusable(path, error) from None
            self._report(f"{path} is damaged. It is now {aside.name}, and rmqctl notifies of open incidents again.")
            return _Stored()

    def _write(self) -> None:
        if self._path is None:
            return
        waiting = {target_id: documents for target_id, documents in self._waiting.items() if documents}
        try:
            replace_file(self._path, msgspec.json.encode({"incidents": self._encoded_incidents, "waiting": waiting}))
        except RmqctlError as error:
            if error.sentence != self._problem:
                self._problem = error.sentence
                self._report(f"{error.sentence} After a restart, rmqctl notifies of open incidents again.")
        else:
            self._problem = None


def _canonical(name_server: str) -> str:
    # The name servers can also be the URL of a list.
    return name_server if "://" in name_server else canonical_address(name_server)
