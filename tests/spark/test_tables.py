"""Tables under what happens to them: jobs of two clusters at the same moment, processes that are killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rmqctl.client.access import Access
from rmqctl.pipeline.jobs.definition import JobOptions, JobResult
from rmqctl.pipeline.jobs.dlq_report.job import JOB as DLQ_REPORT
from rmqctl.pipeline.jobs.fleet_whatif.job import JOB as FLEET_WHATIF
from rmqctl.pipeline.jobs.lag.job import JOB as LAG
from rmqctl.pipeline.jobs.snapshot.job import JOB as SNAPSHOT
from rmqctl.pipeline.tables.delta import Table
from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.spark.samples import rows_of
from tests.spark.smoke.smoke_data import create_topic, leave, put
from tests.spark.smoke.test_tables import snapshot

_ROUNDS, _KILLS = 20, 30


@pytest.fixture
def clusters() -> Iterator[list[Access]]:
    """Two clusters with the same names: of brokers, groups, topics and dead letters."""
    with ThreadedSandbox(brokers=2) as one, ThreadedSandbox(brokers=2) as two:
        for sandbox, count in ((one, 5), (two, 9)):
            create_topic(sandbox, "Orders", queue_count=2)
            create_topic(sandbox, "%DLQ%Pay", queue_count=1)
            put(sandbox, "Orders", "broker-a:0", [f"m{number}" for number in range(count)])
            put(sandbox, "%DLQ%Pay", "broker-a:0", [f"d{number}" for number in range(count)])
            leave(sandbox, "Pay", "Orders", {"broker-a:0": 2, "broker-a:1": 0})
        yield [Access(name_servers=each.addr, timeout_s=60) for each in (one, two)]


def _at_once(works: list[Callable[[], JobResult]]) -> list[JobResult]:
    gate = threading.Barrier(len(works))
    found: dict[int, Any] = {}

    def run(number: int) -> None:
        gate.wait()
        try:
            found[number] = works[number]()
        except Exception as error:  # noqa: BLE001 -- is raised below
            found[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outcome in found.values():
        if isinstance(outcome, Exception):
            raise outcome
    return [found[number] for number in range(len(works))]


def test_jobs_of_two_clusters_at_the_same_moment(spark: SparkSession, clusters: list[Access], tmp_path: Path) -> None:
    def options(access: Access | None = None, **more: Any) -> JobOptions:
        return JobOptions(now_ms=time.time_ns() // 1_000_000, access=access, tables=str(tmp_path), **more)

    labels = [options(access).label() for access in clusters]
    taken: Counter[tuple[str, str]] = Counter()
    for number in range(_ROUNDS):
        works: list[Callable[[], JobResult]] = [
            lambda access=access, run_id=run_id: SNAPSHOT.run(spark, options(access, run_id=run_id))  # type: ignore[misc]
            for access in clusters
            # One more that names its run, twice.
            for run_id in (None, f"named-{number}", f"named-{number}")
        ]
        works += [lambda access=access: DLQ_REPORT.run(spark, options(access)) for access in clusters]  # type: ignore[misc]
        if number:
            works += [lambda: LAG.run(spark, options()), lambda: FLEET_WHATIF.run(spark, options())]
        for outcome in _at_once(works)[:6]:
            if not outcome.facts["isThere"]:
                taken[outcome.facts["clusterLabel"], outcome.facts["runId"]] += outcome.facts["queueCount"]
        rows = rows_of(spark, tmp_path, OFFSET_SNAPSHOTS).groupBy("cluster_label", "run_id").count().collect()
        assert {(row.cluster_label, row.run_id): row["count"] for row in rows} == taken
        assert len(taken) == 4 * (number + 1)
    letters = rows_of(spark, tmp_path, "dead_letters").groupBy("cluster_label").count().collect()
    assert {row.cluster_label: row["count"] for row in letters} == dict(zip(labels, (5, 9), strict=True))
    LAG.run(spark, options())
    trend = rows_of(spark, tmp_path, "lag_trend").where(
        "queue_id = 0 and broker_name = 'broker-a' and topic = 'Orders'"
    )
    assert {(row.cluster_label, row.lag_last) for row in trend.collect()} == set(zip(labels, (3, 7), strict=True))
    tried = rows_of(spark, tmp_path, "alloc_whatif")
    keys = ("cluster_label", "consumer_group", "run_id", "strategy", "change")
    assert tried.select(*keys).distinct().count() == tried.count() > 0


_WORKER = """
import sys
from pathlib import Path
from rmqctl.pipeline.tables.delta import Table
from tests.spark.smoke.test_tables import snapshot

folder, number = Path(sys.argv[1]), sys.argv[2]
table = Table(str(folder), "offset_snapshots")
for step in range(1000):
    print(f"begin {number}-{step}", flush=True)
    snapshot(folder, "L", f"{number}-{step}")
    snapshot(folder, "L", f"{number}-{step}", "overwrite")
    print(f"end {number}-{step}", flush=True)
    if step % 3 == 0:
        table.compact("2027-01-01")
    if step % 5 == 0:
        table.vacuum(0)
"""


def test_processes_that_are_killed_lose_and_double_nothing(tmp_path: Path) -> None:
    """Each process is killed somewhere in its commits, compactions and vacuums; the table is read between."""
    chance = random.Random(20261129)
    snapshot(tmp_path, "L", "first")
    ended, begun = {"first"}, {"first"}
    for number in range(_KILLS):
        with subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(tmp_path), str(number)], stdout=subprocess.PIPE, text=True,
            cwd=Path.cwd(),
        ) as worker:  # fmt: skip
            assert worker.stdout is not None
            begun.add(worker.stdout.readline().split()[1])
            lines: list[str] = []
            # On a busy machine, 0.6 s can be too short for every first commit.
            while number % 5 == 0 and not (lines and lines[-1].startswith("end")):
                lines.append(worker.stdout.readline().strip())
            time.sleep(chance.uniform(0.0, 0.6))
            worker.send_signal(signal.SIGKILL)
            for line in (*lines, *worker.stdout.read().splitlines()):
                word, _, run_id = line.partition(" ")
                (ended if word == "end" else begun).add(run_id)
        version = Table(str(tmp_path), OFFSET_SNAPSHOTS).version()
        assert version is not None
        runs: Counter[str] = Counter()
        for file in version.files:
            runs.update(pq.read_table(file.path, columns=["run_id"]).column("run_id").to_pylist())
        assert ended <= runs.keys() <= begun
        # Whole, and once.
        assert set(runs.values()) <= {4}
    assert len(ended) > 1
