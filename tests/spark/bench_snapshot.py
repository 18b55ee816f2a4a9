"""What a snapshot from cron costs, beside the same in a session of Spark.

`.venv-spark/bin/python -m tests.spark.bench_snapshot`: a real RocketMQ 5.4.0 with two brokers and 200 queues of groups;
each command is a process. CPU time includes that of the JVM.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rmqctl.pipeline.tables.delta import Table
from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS
from tests.real.harness.cluster import Cluster

_GROUPS, _QUEUES_PER_BROKER = 5, 20
_ROWS = _GROUPS * _QUEUES_PER_BROKER * 2
_RUNS = 5
_CRON_S = 300
_GOAL_S, _GOAL_SHARE = 1.5, 0.01
# A JVM outlives the process that has started it: with PR_SET_CHILD_SUBREAPER (36), this one can wait for it.
_MEASURE = """
import ctypes, os, resource, subprocess, sys, time
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
begun_s = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
taken_s = time.perf_counter() - begun_s
try:
    while True:
        os.wait()
except ChildProcessError:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(taken_s, used.ru_utime + used.ru_stime)
"""


def main() -> int:
    """Print what was measured, beside what must be reached; exit 1 when it is not."""
    with tempfile.TemporaryDirectory(prefix="rmqctl-bench-") as folder:
        cluster = Cluster("5.4.0", Path(folder, "home"), broker_count=2)
        try:
            _fill(cluster.wait())
            return _compare(cluster, str(Path(folder, "tables")))
        finally:
            cluster.stop()


def _fill(cluster: Cluster) -> None:
    cluster.create_topic("Bench", queue_count=_QUEUES_PER_BROKER)
    cluster.java.produce("Bench", _ROWS)
    for number in range(_GROUPS):
        cluster.java.consume(f"bench-{number}", f"Bench{number}", "Bench")
        cluster.java.wait_consumed(f"bench-{number}", _ROWS)
        cluster.java.persist(f"bench-{number}")
    cluster.close_java()


def _compare(cluster: Cluster, tables: str) -> int:
    chosen = ("--topic", "Bench", "-n", cluster.namesrv)
    snapshot = ("pipeline", "run", "snapshot", "--group", "Bench*", "--tables", tables, *chosen)
    _measured(*snapshot)  # makes the table
    taken = {
        "snapshot": [_measured(*snapshot) for _ in range(_RUNS)],
        "the same in Spark (--master local[*])": [_measured(*snapshot, "--master", "local[*]") for _ in range(_RUNS)],
        "offset show": [_measured("offset", "show", "Bench*", *chosen) for _ in range(_RUNS)],
    }
    version = Table(tables, OFFSET_SNAPSHOTS).version()
    assert version is not None
    assert [file.row_count for file in version.files] == [_ROWS] * (1 + 2 * _RUNS)
    print(f"{_ROWS} rows; the median of {_RUNS} runs each")
    for name, runs in taken.items():
        seconds, cpu_s = (statistics.median(each) for each in zip(*runs, strict=True))
        share = f"{cpu_s / _CRON_S:.2%} of a core, every five minutes"
        print(f"      {name}: {seconds:.2f} s, {cpu_s:.2f} s of CPU: {share}")
    worst_s, worst_cpu_s = (max(each) for each in zip(*taken["snapshot"], strict=True))
    is_reached = worst_s < _GOAL_S and worst_cpu_s < _GOAL_SHARE * _CRON_S
    print(f"{'ok  ' if is_reached else 'MISS'}  snapshot: at most {worst_s:.2f} s, {worst_cpu_s:.2f} s of CPU")
    print(f"      goal: < {_GOAL_S} s, and < {_GOAL_SHARE:.0%} of a core")
    return 0 if is_reached else 1


def _measured(*words: str) -> tuple[float, float]:
    """Run the program, and return its time and its CPU time in seconds."""
    command = [sys.executable, "-c", _MEASURE, sys.executable, "-m", "rmqctl", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    seconds, cpu_s = done.stdout.split()
    return float(seconds), float(cpu_s)


if __name__ == "__main__":
    sys.exit(main())
