"""fsync in the background: a slow disk must not delay the answers to clients."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger("rmqctl.sandbox")


class FileSync:
    """Syncs one file at a time. Data that is not reported as done may be lost in a power cut."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the last fsync still runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(
        self, path: Path, descriptor: int, done: Callable[[bool], None], *, first: Callable[[], None] | None = None
    ) -> None:
        """Start an fsync; `done` is called in another thread with whether it succeeded.

        `first` is called there before the fsync; if it raises OSError, nothing is synced.
        """
        self.wait()
        self._thread = threading.Thread(target=_sync, args=(path, descriptor, done, first), name="rmqctl-fsync")
        self._thread.start()

    def wait(self) -> None:
        """Wait until the last fsync is done; call it before its file is closed, cut or removed."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _sync(path: Path, descriptor: int, done: Callable[[bool], None], first: Callable[[], None] | None) -> None:
    try:
        if first is not None:
            first()
        os.fsync(descriptor)
    except OSError as error:
        logger.warning("%s: written data may not survive a power cut: %s", path, error.strerror)
        done(False)
    else:
        done(True)


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a power cut: an fsync of a new file does not do that. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
