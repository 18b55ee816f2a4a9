"""The commit log on disk: segment files named by their first offset, in RocketMQ's record format.

Each append is one write to the file, so it survives the death of the process. flush() makes it survive a power cut as
well, by an fsync: every flushIntervalCommitLog, or before each answer with flushDiskType=SYNC_FLUSH.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rmqctl.errors import RmqctlError

from .commit_log import CommitLog, Segment
from .fsync import FileSync, sync_folder

DISK_SEGMENT_BYTES = 32 * 1024 * 1024

_FILE = re.compile(r"\d{20}")


class FileSegment:
    """A segment that is a file."""

    keeps_entries = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.base = int(path.name)
        self._entries_path = path.with_suffix(".entries")
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.size_bytes = os.fstat(self.descriptor).st_size

    @property
    def name(self) -> str:
        """See Segment."""
        return str(self.path)

    def append(self, data: bytes) -> None:
        """See Segment."""
        write_at(self.descriptor, data, self.size_bytes)
        self.size_bytes += len(data)

    def read(self, at: int, size_bytes: int) -> bytes:
        """See Segment."""
        return os.pread(self.descriptor, size_bytes, at)

    def truncate(self, size_bytes: int) -> None:
        """See Segment."""
        os.ftruncate(self.descriptor, size_bytes)
        self.size_bytes = size_bytes
        self._entries_path.unlink(missing_ok=True)

    def flush(self) -> None:
        """See Segment."""
        os.fsync(self.descriptor)

    def remove(self) -> None:
        """See Segment."""
        self.close()
        self._entries_path.unlink(missing_ok=True)
        self.path.unlink()
        # Otherwise a power cut could bring back a file that the tables have dropped, with a gap after it.
        sync_folder(self.path.parent)

    def close(self) -> None:
        """See Segment."""
        os.close(self.descriptor)

    def save_entries(self, content: bytes) -> None:
        """See Segment. It is not synced: a start recognizes a torn file."""
        try:
            write_file(self._entries_path, content)
        except OSError:
            with suppress(OSError):
                self._entries_path.unlink(missing_ok=True)  # free the space on a full disk

    def read_entries(self) -> bytes:
        """See Segment."""
        try:
            return self._entries_path.read_bytes()
        except OSError:
            return b""

    def keep_end(self, at: int) -> str:
        """See Segment."""
        return str(keep_bytes(self.path, self.read(at, self.size_bytes - at)))


class DiskLog(CommitLog):
    """The log in a folder. The contents of its files are checked in recovery.py, not here.

    Raises RmqctlError when a file in the middle is missing or has the wrong size, OSError.
    """

    def __init__(self, folder: Path, segment_bytes: int = DISK_SEGMENT_BYTES) -> None:
        self._syncing = FileSync()
        # A thread reports its flush while this thread may have flushed more.
        self._noting = threading.Lock()
        folder.mkdir(mode=0o700, exist_ok=True)

        def make(base: int) -> Segment:
            segment = FileSegment(folder / f"{base:020}")
            try:
                sync_folder(folder)
            except OSError:
                segment.close()
                raise
            return segment

        super().__init__(segment_bytes, make, _open_all(folder))
        # Data that a killed process wrote may not be on the disk yet.
        self.flushed = self.segments[-1].base

    def _note_flushed(self, end: int) -> None:
        with self._noting:
            super()._note_flushed(end)

    def make_flush(self) -> Callable[[], None]:
        """See CommitLog. The file may be closed before the function is called."""
        segment, end = self.segments[-1], self.end
        if self.flushed == end or not isinstance(segment, FileSegment):
            return lambda: None
        descriptor = os.dup(segment.descriptor)

        def flush() -> None:
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._note_flushed(end)

        return flush

    def flush_behind(self) -> None:
        """See CommitLog."""
        segment, end = self.segments[-1], self.end
        if self.flushed == end or self._syncing.is_busy or not isinstance(segment, FileSegment):
            return

        def done(succeeded: bool) -> None:
            if succeeded:
                self._note_flushed(end)

        self._syncing.start(segment.path, segment.descriptor, done)

    def flush(self) -> None:
        """See CommitLog."""
        self._syncing.wait()
        super().flush()

    def truncate(self, end: int) -> None:
        """See CommitLog."""
        self._syncing.wait()
        super().truncate(end)

    def drop_before(self, commit_log_offset: int) -> None:
        """See CommitLog."""
        if self.has_segment_before(commit_log_offset):
            self._syncing.wait()
            super().drop_before(commit_log_offset)

    def close(self) -> None:
        """See CommitLog."""
        self._syncing.wait()
        super().close()


def find_segments(folder: Path) -> list[Path]:
    """Return the files of a log, oldest first. Raises OSError."""
    return sorted(path for path in folder.glob("*") if _FILE.fullmatch(path.name))


def _open_all(folder: Path) -> list[Segment]:
    segments: list[Segment] = []
    try:
        for path in find_segments(folder):
            segments.append(FileSegment(path))
            _check_neighbours(folder, segments[-2:])
    except (RmqctlError, OSError):
        for opened in segments:
            opened.close()
        raise
    return segments


def _check_neighbours(folder: Path, segments: list[Segment]) -> None:
    end, newer = segments[0].base + segments[0].size_bytes, segments[-1]
    if len(segments) == 2 and newer.base != end:
        raise RmqctlError(
            f"{folder}: {abs(newer.base - end)} bytes before {newer.base:020} are "
            f"{'missing' if newer.base > end else 'duplicated'}.",
            hint="Restore the folder from a backup, or use a new folder.",
        )


def write_at(descriptor: int, data: bytes, at: int) -> None:
    """Write bytes at the end of the file, all or none; `at` is the size of the file. Raises OSError."""
    left, position = memoryview(data), at
    try:
        while left:
            written = os.pwrite(descriptor, left, position)
            left, position = left[written:], position + written
    except OSError:
        if position > at:
            # A full disk accepted a part. If the truncation fails as well, the next write overwrites that part.
            try:
                os.ftruncate(descriptor, at)
            except OSError:
                pass
        raise


def write_file(path: Path, data: bytes, *, is_synced: bool = False) -> None:
    """Write a file that only its owner can read, replacing its contents. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_at(descriptor, data, 0)
        if is_synced:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def keep_bytes(path: Path, data: bytes) -> Path:
    """Save the damaged end of a file in a new one next to it, `NAME.damaged-N`; return its path. Raises OSError."""
    number = 1
    while (kept := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    part = kept.with_name(f"{kept.name}.new")
    try:
        write_file(part, data, is_synced=True)
        part.replace(kept)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return kept
