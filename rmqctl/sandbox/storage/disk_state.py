"""A broker's tables on disk: one file of text lines that is only appended to.

The first line names the format and the number of lines that the file had when it was created; those were flushed
before it got its name. Each other line is a CRC and a change: `["topics","T",{...}]`, or without a value for a deleted
entry. A change is one write to the file, so it survives the death of the process. An fsync every
flushConsumerOffsetInterval makes it survive a power cut as well. When most lines are outdated, a new file replaces the
old one.
"""

from __future__ import annotations

import logging
import os
import zlib
from pathlib import Path

import msgspec

from rmqctl.errors import RmqctlError
from rmqctl.protocol.codes import ResponseCode
from rmqctl.sandbox.request import RefusalError

from .disk_log import keep_bytes, write_at
from .fsync import FileSync, sync_folder
from .state import StateStore, Undo, decode, encode

logger = logging.getLogger("rmqctl.sandbox")

FILE_NAME = "state"
_MAGIC = b"rmqctl sandbox state 1 "
# A file is compacted when it has grown to this size, and to several times its compact size.
_SMALL_BYTES = 1 << 20
_GROWTH = 4


class DiskState(StateStore):
    """Tables in a file. Raises RmqctlError for another kind of file or damage in its flushed first part, OSError."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._path = folder / FILE_NAME
        self._syncing = FileSync()
        self._flushed_bytes = self._size_bytes = self._compact_bytes = 0
        self._descriptor = -1
        # Changes of an fsync that still runs or that failed; a power cut undoes them.
        self._undo_behind: Undo = {}
        if self._path.exists():
            self._open()
        else:
            try:
                self._compact()
            except OSError:
                if self._descriptor >= 0:
                    os.close(self._descriptor)
                raise

    def _open(self) -> None:
        data = self._path.read_bytes()
        at = self._read(data)
        if at < len(data):
            kept = keep_bytes(self._path, data[at:])
            logger.warning(
                "%s: damaged at byte %d: the last %d bytes are cut off, and kept in %s; changes of topics, groups or "
                "offsets in them are lost", self._path, at, len(data) - at, kept,
            )  # fmt: skip
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if at < len(data):
                os.ftruncate(self._descriptor, at)
            os.fsync(self._descriptor)
        except OSError:
            os.close(self._descriptor)
            raise
        self._flushed_bytes = self._size_bytes = at
        self._compact_bytes = sum(len(_line([table, key])) + len(value) for table, key, value in self._entries())

    def _read(self, data: bytes) -> int:
        """Apply the changes in the bytes of a file; return where the first unreadable one begins."""
        end = data.find(b"\n")
        count_text = data[len(_MAGIC) : end]
        if not data.startswith(_MAGIC) or not count_text.isdigit():
            raise RmqctlError(
                f"{self._path} is not a state file of a sandbox, or its format is not supported.",
                hint="Use an empty folder for the sandbox.",
            )
        at, number, must_be_whole = end + 1, 0, int(count_text)
        while (end := data.find(b"\n", at)) >= 0 and self._take(data[at:end]):
            at, number = end + 1, number + 1
        if number < must_be_whole:
            raise RmqctlError(
                f"{self._path} is damaged at byte {at}, in a part that was already flushed.",
                hint="Restore the folder from a backup, or use a new folder.",
            )
        return at

    def _take(self, line: bytes) -> bool:
        text = line[9:]
        if line[:9] != b"%08x " % zlib.crc32(text):
            return False
        try:
            table, key, *value = decode(text)
        except (msgspec.DecodeError, ValueError, TypeError):
            return False
        if value:
            self.tables.setdefault(table, {})[key] = encode(value[0])
        else:
            self.tables.get(table, {}).pop(key, None)
        return True

    def _write(self, table: str, key: str, value: bytes | None) -> None:
        line = _line([table, key] if value is None else [table, key, msgspec.Raw(value)])
        try:
            write_at(self._descriptor, line, self._size_bytes)
        except OSError as error:
            remark = f"service not available now. {self._path}: {error.strerror}"
            raise RefusalError(ResponseCode.SERVICE_NOT_AVAILABLE, remark) from None
        self._size_bytes += len(line)

    def _entries(self) -> list[tuple[str, str, bytes]]:
        return [(table, key, value) for table, entries in self.tables.items() for key, value in entries.items()]

    def _compact(self) -> None:
        """Replace the file by one with only the current entries."""
        self.make_flush_before()()
        entries = self._entries()
        data = b"%s%d\n" % (_MAGIC, len(entries)) + b"".join(
            _line([table, key, msgspec.Raw(value)]) for table, key, value in entries
        )
        path = self._path.with_suffix(".new")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_at(descriptor, data, 0)
            os.fsync(descriptor)
            path.replace(self._path)
        except OSError:
            os.close(descriptor)
            path.unlink(missing_ok=True)  # free the space on a full disk
            raise
        # From here on the old file has no name: a write to it would be lost with the process.
        self._syncing.wait()
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = descriptor
        self._flushed_bytes = self._size_bytes = self._compact_bytes = len(data)
        self._undo.clear()
        self._undo_behind.clear()
        sync_folder(self._folder)

    def _is_mostly_history(self) -> bool:
        return self._size_bytes > max(_SMALL_BYTES, _GROWTH * self._compact_bytes)

    def flush(self) -> None:
        """See StateStore. Raises OSError."""
        self._syncing.wait()
        if self._flushed_bytes < self._size_bytes:
            self.make_flush_before()()
            os.fsync(self._descriptor)
            self._flushed_bytes = self._size_bytes
        self._undo.clear()
        self._undo_behind.clear()

    def flush_behind(self) -> None:
        """See StateStore."""
        if self._flushed_bytes == self._size_bytes or self._syncing.is_busy:
            return
        if self._is_mostly_history():
            try:
                self._compact()
            except OSError as error:
                logger.warning("%s: cannot be compacted: %s", self._path, error.strerror)
            else:
                return
        size_bytes = self._size_bytes
        self._undo_behind = {**self._undo, **self._undo_behind}
        self._undo = {}

        def done(succeeded: bool) -> None:
            if succeeded:
                self._flushed_bytes = size_bytes
                self._undo_behind = {}

        self._syncing.start(self._path, self._descriptor, done, first=self.make_flush_before())

    def lose_unflushed(self) -> None:
        """See StateStore."""
        self._syncing.wait()
        self._undo = {**self._undo, **self._undo_behind}
        self._undo_behind = {}
        super().lose_unflushed()
        os.ftruncate(self._descriptor, self._flushed_bytes)
        self._size_bytes = self._flushed_bytes

    def close(self) -> None:
        """See StateStore."""
        try:
            self.flush()
        finally:
            os.close(self._descriptor)


def _line(change: list[object]) -> bytes:
    text = encode(change)
    return b"%08x %s\n" % (zlib.crc32(text), text)
