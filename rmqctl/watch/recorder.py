"""Appends samples to a recording of bounded size, which continues after a restart.

FILE has the newest samples. When it is full it becomes FILE.1.gz, and the oldest of `keep_count` such files is deleted.
`rmqctl pipeline run snapshot --recording` reads all of them.
"""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

from rmqctl.errors import BusyError, RmqctlError, UsageError
from rmqctl.net.file_lock import lock_file
from rmqctl.observe.recording import RecordedSample, read_recording, write_sample

_TAIL_BYTES = 64 << 20


class Recorder:
    """Writes a recording. One process writes a file at a time: it holds a lock on it.

    Raises UsageError for a file that cannot be used, BusyError when another process writes it.
    """

    def __init__(self, path: str, *, most_bytes: int, keep_count: int) -> None:
        self._path = Path(path)
        self._full = self._path.with_name(f"{self._path.name}.full")
        self._most_bytes, self._keep_count = most_bytes, keep_count
        self._packing: Thread | None = None
        try:
            self._descriptor = self._open()
            self._size = _end_of_last_line(self._descriptor)
            os.ftruncate(self._descriptor, self._size)
            if self._full.exists():
                # An earlier run was ended while it compressed this file.
                self._pack()
        except OSError as error:
            raise UsageError(f"Cannot write --record {path}: {(error.strerror or str(error)).lower()}.") from None

    def close(self) -> None:
        """Wait until a full file is compressed, and release the lock."""
        if self._packing is not None:
            self._packing.join()
        os.close(self._descriptor)

    def recent(self, since_ms: int) -> Iterator[RecordedSample]:
        """Yield the samples of FILE from `since_ms` on. Raises UsageError for a file that is not a recording."""
        with self._path.open("rb") as file:
            start = max(0, self._size - _TAIL_BYTES)
            file.seek(start)
            if start:
                file.readline()
            for recorded in read_recording(file, str(self._path)):
                if recorded.sample.at_ms >= since_ms:
                    yield recorded

    def write(self, samples: Iterable[RecordedSample]) -> None:
        """Append the samples of one round. Raises RmqctlError when the file cannot be written."""
        lines = [write_sample(each.sample, cluster=each.cluster, details=each.details) + "\n" for each in samples]
        data = "".join(lines).encode()
        try:
            if self._size and self._size + len(data) > self._most_bytes:
                self._rotate()
            written = 0
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
            self._size += len(data)
        except OSError as error:
            # A half-written round would make the line after it unreadable.
            os.ftruncate(self._descriptor, self._size)
            raise RmqctlError(f"Cannot write {self._path}: {(error.strerror or str(error)).lower()}.") from None

    def _open(self) -> int:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            lock_file(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            raise BusyError(
                f"Another process writes {self._path}.", hint="Record to another file, or stop that process."
            ) from None
        return descriptor

    def _rotate(self) -> None:
        if self._packing is not None:
            self._packing.join()
        if self._full.exists():
            # It was not compressed, for example because the disk was full.
            self._compress()
        self._path.replace(self._full)
        os.close(self._descriptor)
        self._descriptor, self._size = self._open(), 0
        self._pack()

    def _pack(self) -> None:
        def pack() -> None:
            with suppress(OSError):  # the next rotation tries again, and reports it
                self._compress()

        self._packing = Thread(target=pack)
        self._packing.start()

    def _compress(self) -> None:
        """Compress the full file, and move the older ones; the oldest is deleted."""
        if self._keep_count == 0:
            self._full.unlink()
            return
        half = self._packed(0)
        with self._full.open("rb") as full, gzip.open(half, "wb", compresslevel=3) as packed:
            shutil.copyfileobj(full, packed, 1 << 20)
        for number in range(self._keep_count, 0, -1):
            if (older := self._packed(number - 1)).exists():
                older.replace(self._packed(number))
        self._full.unlink()

    def _packed(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}.gz")


def _end_of_last_line(descriptor: int) -> int:
    """Return the size of a file without a last line that was not written completely."""
    size = os.fstat(descriptor).st_size
    while size:
        start = max(0, size - (1 << 16))
        at = os.pread(descriptor, size - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        size = start
    return 0
