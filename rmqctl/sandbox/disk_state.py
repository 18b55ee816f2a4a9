"""A broker's tables on disk: one file of text lines that is only appended to.

The first line names the format and says how many of the following lines were there when the file was made; those were
flushed before it got its name. Each other line is a CRC and a change: `["topics","T",{...}]`, or without a value for
an entry that is gone. A change is one write to the file, so that it survives the death of the process; an fsync, which
makes it survive a power cut as well, comes every flushConsumerOffsetInterval. When most of the lines are history, a new
file takes the place of the old one.
"""

from __future__ import annotations

import logging
import os
import zlib
from pathlib import Path

import msgspec

from rmqctl.errors import RmqctlError
from rmqctl.protocol.codes import ResponseCode

from .disk_log import write_at
from .request import RefusalError
from .state import StateStore, Undo, decode, encode
from .syncing import Syncing, sync_folder

logger = logging.getLogger("rmqctl.sandbox")

FILE_NAME = "state"
_MAGIC = b"rmqctl sandbox state 1 "
# A file is made anew when it has grown to this, and to several times what it would be then.
_SMALL_BYTES = 1 << 20
_GROWTH = 4


class DiskState(StateStore):
    """Tables in a file. Raises RmqctlError for one that is not ours or is damaged in its older part, OSError."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._path = folder / FILE_NAME
        self._syncing = Syncing()
        self._flushed_bytes = self._size_bytes = self._compact_bytes = 0
        self._descriptor = -1
        # What an fsync that still runs, or failed, would have to undo.
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
            logger.warning(
                "%s: damaged at byte %d: the last %d bytes are cut off; changes of topics, groups or offsets in them "
                "are lost", self._path, at, len(data) - at,
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
        """Take the changes out of a file's bytes; return where the first one that can't be read begins."""
        end = data.find(b"\n")
        count_text = data[len(_MAGIC) : end]
        if not data.startswith(_MAGIC) or not count_text.isdigit():
            raise RmqctlError(
                f"{self._path} is not a sandbox's state, or of another format.",
                hint="Give the sandbox a folder of its own.",
            )
        at, number, must_be_whole = end + 1, 0, int(count_text)
        while (end := data.find(b"\n", at)) >= 0 and self._take(data[at:end]):
            at, number = end + 1, number + 1
        if number < must_be_whole:
            raise RmqctlError(
                f"{self._path} is damaged at byte {at}, in the part that was written long ago.",
                hint="Bring the folder back from a copy, or give the sandbox a new one.",
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
        """Write a file of what there is now, and let it take the old one's place."""
        self.make_flush_before()()
        entries = self._entries()
        data = b"%s%d\n" % (_MAGIC, len(entries)) + b"".join(
            _line([table, key, msgspec.Raw(value)]) for table, key, value in entries
        )
        path = self._path.with_suffix(".new")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            write_at(descriptor, data, 0)
            os.fsync(descriptor)
            path.replace(self._path)
        except OSError:
            os.close(descriptor)
            path.unlink(missing_ok=True)  # a full disk has better use for it
            raise
        # From here on the old file has no name: what is written to it would be lost with the process.
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
                logger.warning("%s: can't be made smaller: %s", self._path, error.strerror)
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
