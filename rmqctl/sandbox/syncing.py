"""fsync beside the event loop: a slow disk must not hold up what clients wait for."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger("rmqctl.sandbox")


class Syncing:
    """One file at a time. What it has not reported as done may be lost with the machine's power."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the last fsync still runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(
        self, path: Path, descriptor: int, done: Callable[[bool], None], *, first: Callable[[], None] | None = None
    ) -> None:
        """Begin an fsync; `done` is called in another thread with whether it went well.

        `first` is called there before, and may raise OSError: nothing is synced then.
        """
        self.wait()
        self._thread = threading.Thread(target=_sync, args=(path, descriptor, done, first), name="rmqctl-fsync")
        self._thread.start()

    def wait(self) -> None:
        """Wait until the last one is done; before its file is closed, cut or removed."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _sync(path: Path, descriptor: int, done: Callable[[bool], None], first: Callable[[], None] | None) -> None:
    try:
        if first is not None:
            first()
        os.fsync(descriptor)
    except OSError as error:
        logger.warning("%s: what was written may not survive a power cut: %s", path, error.strerror)
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
