"""Messages into a store and out of it, without a broker."""

from __future__ import annotations

from pathlib import Path

from rmqctl.protocol.message import iter_messages
from rmqctl.sandbox.storage.disk_log import DiskLog, find_segments
from rmqctl.sandbox.storage.disk_state import DiskState
from rmqctl.sandbox.storage.record_scan import ScannedRecord
from rmqctl.sandbox.storage.store import MessageStore, NewMessage, PutMessageResult

HOST = (bytes((127, 0, 0, 1)), 10911)
CAPACITY_BYTES = 1 << 30


def no_code(_: ScannedRecord) -> None:
    """Let every entry hold its tag's code."""


def message(topic: str = "T", queue_id: int = 0, body: bytes = b"body", **properties: str) -> NewMessage:
    """Return a message to store."""
    return NewMessage(topic, queue_id, body, dict(properties), born_host=HOST)


def put(store: MessageStore, *messages: NewMessage, now_ms: int = 1000) -> list[PutMessageResult]:
    """Store messages one by one."""
    return [store.put(each, now_ms=now_ms, store_host=HOST) for each in messages]


def bodies(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    """Return all bodies of a queue, by reading it as pulls do."""
    offset, found = store.min_offset(topic, queue_id), []
    while (got := store.get(topic, queue_id, offset, 32)).offsets:
        messages = list(iter_messages(got.body))
        assert [each.queue_offset for each in messages] == list(got.offsets)
        found += [each.stored_body for each in messages]
        offset = got.next_offset
    return found


class Disk:
    """What a broker keeps in a folder; `reopen()` is another process that finds it."""

    def __init__(self, folder: Path, *, segment_bytes: int = 4096, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self.folder = folder
        self._segment_bytes, self._capacity_bytes = segment_bytes, capacity_bytes
        self._open()

    def _open(self) -> None:
        self.state = DiskState(self.folder)
        self.log = DiskLog(self.folder / "commitlog", self._segment_bytes)
        self.store = MessageStore(self.log, self._capacity_bytes, self.state)
        self.store.recover(no_code)

    def close(self) -> None:
        """Let go of the files."""
        self.state.close()
        self.log.close()

    def reopen(self) -> MessageStore:
        """Close the files and read them again."""
        self.close()
        self._open()
        return self.store

    @property
    def segments(self) -> list[Path]:
        """The segment files, oldest first."""
        return find_segments(self.folder / "commitlog")
