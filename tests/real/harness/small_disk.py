"""A broker whose store is on a small disk of its own, which can be filled: a tmpfs that no other process sees."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from .cluster import Broker, Cluster

_DISK_MIB = 512
# A broker takes nothing beyond 90 %. At 100 % a write to a mapped file would end its JVM.
_FULL_PERCENT = 95


def missing_namespaces() -> str | None:
    """Return why a process can't have a disk of its own here, None where it can."""
    words = ["unshare", "--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs none /tmp"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return f"unshare can't be run: {error.strerror}"
    return None if done.returncode == 0 else f"no namespace with a disk of its own: {done.stderr.strip()}"


class _SmallDiskBroker(Broker):
    """A broker in a mount namespace of its own, with its store on a tmpfs."""

    def start(self) -> None:
        """Start the broker on an empty disk."""
        self.store.mkdir(exist_ok=True)
        mount = f'mount -t tmpfs -o size={_DISK_MIB}m none {self.store} && exec "$@"'
        self.start_within(("unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh"))


class SmallDiskCluster(Cluster):
    """A cluster of one broker on a small disk, in a mount namespace. Its messages are gone when the broker ends."""

    def __init__(self, version: str, folder: Path) -> None:
        # It would delete old files when the disk is nearly full.
        super().__init__(version, folder, settings={"cleanFileForciblyEnable": "false"}, broker_type=_SmallDiskBroker)

    def fill(self) -> None:
        """Fill the disk up to where the broker stores nothing more, from its next look at the disk on."""
        disk = os.statvfs(self._ballast.parent)
        size_bytes = (disk.f_bavail - disk.f_blocks * (100 - _FULL_PERCENT) // 100) * disk.f_frsize
        with self._ballast.open("wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, size_bytes)

    def free(self) -> None:
        """Make room again. The broker notices at its next look."""
        self._ballast.unlink()

    @property
    def _ballast(self) -> Path:
        (broker,) = self.brokers.values()
        assert broker.java is not None
        # The disk as the broker sees it.
        return Path(f"/proc/{broker.java.process.pid}/root{broker.store}/ballast")
