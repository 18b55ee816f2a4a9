"""Dead letters of 1 KiB exported and replayed, beside Java's producers and the Dashboard's way on the same broker."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from tests.real.harness.cluster import Cluster

from .measure import Run, java, median, rmqctl, run_process

_COUNT, _MANY = 200_000, 1_000_000
_RETRY_COUNT, _DIRECT_COUNT = 100_000, 2_000
_GROUP, _MANY_GROUP = "BenchDead", "BenchManyDead"
_BROKER = "broker-a"
_ROUNDS = 3


def measure(cluster: Cluster) -> list[tuple[str, str, str, bool]]:
    """Return rows of figures. What rmqctl does is measured as a whole process: its start and its plan included."""
    with tempfile.TemporaryDirectory(prefix="rmqctl-bench-") as folder:
        bench = _Bench(cluster, Path(folder))
        bench.fill()
        return [*bench.rates(), *bench.many()]


class _Bench:
    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._ledger_count = 0

    def fill(self) -> None:
        self._cluster.create_topic("BenchOrders", brokers=(_BROKER,))
        for group, count in ((_GROUP, _COUNT), (_MANY_GROUP, _MANY)):
            self._run("group", "create", group, "--yes")
            for prefix in ("%DLQ%", "%RETRY%"):
                self._cluster.create_topic(f"{prefix}{group}", queue_count=1, brokers=(_BROKER,))
            _java(self._cluster, "letters", f"%DLQ%{group}", count)

    def rates(self) -> list[tuple[str, str, str, bool]]:
        replayed, batched, retried, unwaited, exported, files, bare_files = [], [], [], [], [], [], []
        for number in range(_ROUNDS):
            for topic in (f"BenchOurs{number}", f"BenchTheirs{number}"):
                self._cluster.create_topic(topic, queue_count=8, brokers=(_BROKER,))
            replayed.append(_COUNT / self._replay("--to-topic", f"BenchOurs{number}").wall_s)
            batched.append(_COUNT / _java(self._cluster, "batch", f"BenchTheirs{number}", _COUNT))
            retried.append(_RETRY_COUNT / self._replay("--max", str(_RETRY_COUNT)).wall_s)
            unwaited.append(_RETRY_COUNT / _java(self._cluster, "async", f"%RETRY%{_MANY_GROUP}", _RETRY_COUNT))
            exported.append(_COUNT / self._run("dlq", "export", _GROUP, "--to", "-", "-q").wall_s)
            run, size_bytes = self._export(_GROUP)
            files.append(_COUNT / run.wall_s)
            bare_files.append(_COUNT / self._write_s(size_bytes))
        direct = _DIRECT_COUNT / _java(self._cluster, "direct", f"%DLQ%{_GROUP}", _DIRECT_COUNT, _GROUP)
        ours, batches, to_retry, java_async = map(median, (replayed, batched, retried, unwaited))
        jsonl, to_file, bare = map(median, (exported, files, bare_files))
        return [
            ("dlq replay to a topic, 1 KiB, end to end", f"{ours:,.0f} msg/s", ">= 20,000 msg/s", ours >= 20_000),
            ("dlq replay to a topic: beside Java's batches alone", f"{ours / batches:.2f} ({batches:,.0f} msg/s)",
             ">= 0.6", ours / batches >= 0.6),
            ("dlq replay to the retry topic: beside Java's async sends alone",
             f"{to_retry / java_async:.2f} ({to_retry:,.0f} beside {java_async:,.0f} msg/s)", ">= 1",
             to_retry >= java_async),
            ("dlq replay to a topic: beside the Dashboard's one by one",
             f"{ours / direct:.0f} times ({direct:,.0f} msg/s)", "> 1", ours > direct),
            ("dlq export, JSON lines, 1 KiB, to stdout, end to end", f"{jsonl:,.0f} msg/s", ">= 80,000 msg/s",
             jsonl >= 80_000),
            ("the same to a file that is on the disk", f"{to_file:,.0f} msg/s ({bare:,.0f} for writing it alone)",
             ">= 80,000 msg/s", to_file >= 80_000),
        ]  # fmt: skip

    def many(self) -> list[tuple[str, str, str, bool]]:
        self._cluster.create_topic("BenchMany", queue_count=8, brokers=(_BROKER,))
        runs = {
            "dlq replay": self._replay("--to-topic", "BenchMany", group=_MANY_GROUP),
            "dlq export": self._export(_MANY_GROUP)[0],
        }
        return [
            (f"{what}, {_MANY:,} dead letters: memory", f"{run.rss_mib:.0f} MiB ({_MANY / run.wall_s:,.0f} msg/s)",
             "< 150 MiB", run.rss_mib < 150)
            for what, run in runs.items()
        ]  # fmt: skip

    def _replay(self, *words: str, group: str = _GROUP) -> Run:
        self._ledger_count += 1
        ledger = ("--ledger", str(self._ledger_count), "--yes", "-q")
        return self._run("dlq", "replay", group, *words, *ledger)

    def _export(self, group: str) -> tuple[Run, int]:
        """Return the run and how large the file is."""
        path = self._folder / "letters.jsonl"
        run = self._run("dlq", "export", group, "--to", str(path), "-q")
        size_bytes = path.stat().st_size
        path.unlink()
        return run, size_bytes

    def _write_s(self, size_bytes: int) -> float:
        """Write so many bytes to the same disk, and return how long that takes."""
        chunk, path = os.urandom(1 << 20), self._folder / "bare"
        started_s = time.perf_counter()
        with path.open("wb") as out:
            for _ in range(size_bytes >> 20):
                out.write(chunk)
            out.flush()
            os.fsync(out.fileno())
        seconds = time.perf_counter() - started_s
        path.unlink()
        return seconds

    def _run(self, *words: str) -> Run:
        state = {"RMQCTL_STATE": str(self._folder / "state"), "RMQCTL_CACHE": os.devnull}
        return run_process(rmqctl("-n", self._cluster.namesrv, *words), state)


def _java(cluster: Cluster, mode: str, topic: str, count: int, group: str = "-") -> float:
    """Have Java send, and return how many seconds that took, without the start of the process."""
    given = (cluster.namesrv, mode, topic, str(count), group)
    words = java(cluster.version, cluster.folder, "SendBench", *given, jvm=("-Xmx1g",))
    printed = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600).stdout
    return float(printed.split()[-1])
