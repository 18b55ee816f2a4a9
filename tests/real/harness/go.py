"""The Go client's push consumer for tests: built once, outside the clone, and run as a process; see go/main.go."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from .cluster import Reachable
from .jars import cached

GO_DIR = Path(__file__).parent.parent / "go"


def missing_go() -> str | None:
    """Say what to install when Go is missing, or None when it is there."""
    return None if shutil.which("go") else "tests of Go consumers need go: install Go 1.21 or newer"


def go_consumer() -> Path:
    """Return the consumer's program, building it when it is not there yet."""
    sources = [GO_DIR / name for name in ("go.mod", "go.sum", "main.go")]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]

    def build(folder: Path) -> None:
        subprocess.run(
            ["go", "build", "-mod=readonly", "-buildvcs=false", "-o", str(folder / "consumer"), "."],
            cwd=GO_DIR, env={**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}, check=True, timeout=250,
        )  # fmt: skip

    return cached(f"go-consumer-{digest}", build) / "consumer"


class Consumed(NamedTuple):
    """One message that was given to a listener."""

    body: str
    broker_name: str
    queue_id: int
    queue_offset: int


class GoConsumer:
    """A push consumer that runs until it is stopped. What it prints, and its log, are files in the cluster's folder."""

    def __init__(
        self,
        cluster: Reachable,
        name: str,
        group: str,
        topic: str,
        *,
        orderly: bool = False,
        workers: int = 1,
        pause_ms: int = 0,
    ) -> None:
        """`workers` messages are consumed at once, `pause_ms` is how long the listener takes for one."""
        self._printed, self._log = (cluster.folder / f"go-{name}.{ending}" for ending in ("jsonl", "log"))
        words = [
            "-namesrv", cluster.namesrv, "-group", group, "-topics", topic, "-instance", name, "-log", str(self._log),
            f"-orderly={orderly}", "-workers", str(workers), "-pause", f"{pause_ms}ms",
        ]  # fmt: skip
        with self._printed.open("wb") as printed, (cluster.folder / f"go-{name}-stderr.log").open("wb") as stderr:
            self.process = subprocess.Popen(
                [str(go_consumer()), *words], stdin=subprocess.DEVNULL, stdout=printed, stderr=stderr,
                # Where clients keep what they keep in files.
                cwd=cluster.folder, env={**os.environ, "HOME": str(cluster.folder)}, start_new_session=True,
            )  # fmt: skip

    def consumed(self) -> list[Consumed]:
        """Return what the listener was given so far, in order."""
        lines = self._printed.read_text().splitlines(keepends=True)
        rows = [json.loads(line) for line in lines if line.endswith("\n")]
        return [Consumed(row["body"], row["brokerName"], row["queueId"], row["queueOffset"]) for row in rows]

    def wait_consumed(self, count: int, timeout_s: float = 60) -> None:
        """Wait until the listener was given so many messages."""
        give_up_at = time.monotonic() + timeout_s
        while (seen := self._printed.read_bytes().count(b"\n")) < count:
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"{seen} of {count} messages in {timeout_s} s:\n{self._log_tail()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Let it store its offsets and leave."""
        self.process.terminate()
        self.process.wait(timeout=20)

    def kill(self) -> None:
        """End it at once."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=20)

    def _log_tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:]) if self._log.exists() else ""
