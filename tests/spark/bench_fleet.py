"""How fast fleet-whatif tries an estate, beside the same rules in one process of plain Python.

`.venv-spark/bin/python -m tests.spark.bench_fleet`: 2,000 groups, 6 strategies, 3 changes, two cores. Most groups have
8 to 32 queues and 2 to 20 clients, some 64 to 256 queues and 10 to 50 clients, ten 1,000 queues and 100 clients.
"""

from __future__ import annotations

import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.fleet_whatif.fleet import (
    CHANGES,
    STRATEGIES,
    HeldGroup,
    QueueRow,
    parse_change,
    read_group,
    try_group,
)
from rmqctl.pipeline.jobs.fleet_whatif.job import JOB
from rmqctl.pipeline.session import start_session
from rmqctl.pipeline.tables.delta import Table, TableChange
from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS, arrow_schema

_SMALL, _MEDIUM, _LARGE = 1_900, 90, 10
_CORES, _RUNS = 2, 3
_AT = datetime(2026, 11, 22, 10, 30, tzinfo=UTC)
_GOAL_S = 30


def main() -> int:
    """Print what was measured, beside what must be reached; exit 1 when it is not."""
    folder = Path(tempfile.mkdtemp(prefix="rmqctl-bench-"))
    rows = list(estate(random.Random(20261122)))
    try:
        begun_s = time.perf_counter()
        spark = start_session(master=f"local[{_CORES},4]", name="bench")
        started_s = time.perf_counter() - begun_s
        table = pa.Table.from_pylist(rows, arrow_schema(OFFSET_SNAPSHOTS))
        Table(str(folder), OFFSET_SNAPSHOTS).change(lambda _version: TableChange(table))
        options = JobOptions(now_ms=int(_AT.timestamp() * 1000), tables=str(folder))
        taken_s = []
        for _ in range(1 + _RUNS):
            begun_s = time.perf_counter()
            outcome = JOB.run(spark, options)
            taken_s.append(time.perf_counter() - begun_s)
        spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    (written,) = outcome.written
    begun_s = time.perf_counter()
    count = sum(1 for _ in _tried_here(rows))
    plain_s = time.perf_counter() - begun_s
    assert written.row_count == count == (_SMALL + _MEDIUM + _LARGE) * len(STRATEGIES) * len(CHANGES)
    warm_s = statistics.median(taken_s[1:])
    is_reached = warm_s < _GOAL_S
    print(f"      {len(rows):,} queues, {count:,} trials; the session took {started_s:.1f} s to start")
    print(f"      first run: {taken_s[0]:.1f} s")
    runs = ", ".join(f"{each:.1f}" for each in taken_s[1:])
    print(f"{'ok  ' if is_reached else 'MISS'}  warm: {warm_s:.1f} s, the median of {runs}; goal: < {_GOAL_S} s")
    print(f"      plain Python, one process: {plain_s:.1f} s = {plain_s / warm_s:.2f} of that")
    return 0 if is_reached else 1


def estate(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Yield rows of offset_snapshots for all groups, their queues held as averagely gives them."""
    sizes = [(chance.randint(8, 32), chance.randint(2, 20)) for _ in range(_SMALL)]
    sizes += [(chance.randint(64, 256), chance.randint(10, 50)) for _ in range(_MEDIUM)]
    sizes += [(1000, 100)] * _LARGE
    chance.shuffle(sizes)
    for number, (queue_count, client_count) in enumerate(sizes):
        clients = sorted(
            f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(256)}@{chance.randrange(9999)}#{index}"
            for index in range(min(client_count, queue_count))
        )
        broker_count = max(1, queue_count // 8)
        places = sorted((f"broker-{index % broker_count:03}", index // broker_count) for index in range(queue_count))
        for index, (broker_name, queue_id) in enumerate(places):
            yield {
                "cluster_label": "L", "run_id": "bench", "snapshot_ts": _AT, "cluster": "DefaultCluster",
                "consumer_group": f"group-{number}", "topic": f"topic-{number % 700}", "broker_name": broker_name,
                "queue_id": queue_id,
                "lag_messages": int(chance.paretovariate(1.2) * 10),
                "client_id": clients[index * len(clients) // queue_count], "is_held": True,
                "dt": "2026-11-22",
            }  # fmt: skip


def _tried_here(rows: list[dict[str, Any]]) -> Iterator[Any]:
    """Yield the same rows of results, without Spark and Arrow."""
    by_group: dict[str, list[QueueRow]] = {}
    for row in rows:
        mq = MessageQueue(row["topic"], row["broker_name"], row["queue_id"])
        found = QueueRow(mq, row["lag_messages"], row["client_id"], row["is_held"])
        by_group.setdefault(row["consumer_group"], []).append(found)
    changes = [parse_change(text) for text in CHANGES]
    for queues in by_group.values():
        group = read_group(queues)
        assert isinstance(group, HeldGroup)
        yield from try_group(group, STRATEGIES, changes)


if __name__ == "__main__":
    sys.exit(main())
