"""How fast the job lag is, next to DuckDB and Polars, which make the same facts of the same files; and its memory.

`.venv-spark/bin/python -m tests.spark.bench_lag`: a snapshot every 5 minutes, of 200 queues for a day and of 1,675
queues for a month. Everything is run in turns on two cores, so that ratios of one run hold also on a busy machine;
DuckDB and Polars are installed into a folder of their own for it. Ours is the whole job: it reads, judges, and writes
the table lag_trend. The others only make facts, in memory.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.lag.job import JOB
from rmqctl.pipeline.tables.delta import Table, TableChange
from rmqctl.pipeline.tables.frames import require_version
from rmqctl.pipeline.tables.schemas import LAG_TREND, OFFSET_SNAPSHOTS
from rmqctl.text.times import iso_time

_STEP_MS, _HOUR_MS, _DAY_MS = 300_000, 3_600_000, 86_400_000
_START_MS = 1_795_305_600_000  # 2026-11-22T00:00Z
_QUEUES, _DAY_SNAPSHOTS = 25, _DAY_MS // _STEP_MS
_CORES = 2
_OTHERS = {"duckdb": "2.0.0", "polars": "2.1.0"}
# Goals: the day in this many times DuckDB's time, the month in seconds, and its memory in that of half of it.
_MOST_RATIO, _MOST_S, _MOST_GROWTH = 3.0, 60.0, 1.3

_ALONE = """
import sys
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.lag.job import JOB
JOB.run(None, JobOptions(now_ms=int(sys.argv[2]), tables=sys.argv[1], since=sys.argv[3]))
# ru_maxrss would begin with that of the process that started this one.
(peak,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) // 1024)
"""


class _Scene(NamedTuple):
    name: str
    group_count: int
    day_count: int
    run_count: int

    @property
    def now_ms(self) -> int:
        return _START_MS + self.day_count * _DAY_MS

    def options(self, folder: Path) -> JobOptions:
        return JobOptions(now_ms=self.now_ms, tables=str(folder), since=f"{self.day_count}d", window="1h")


_DAY, _MONTH = _Scene("day", 8, 1, 9), _Scene("month", 67, 30, 2)


def main() -> int:
    """Print what was measured and the goals; exit with 1 when one is not reached."""
    root = Path(tempfile.mkdtemp(prefix="rmqctl-bench-"))
    try:
        others = _others(root / "site")
        day, month = (_measure(scene, root / scene.name, others) for scene in (_DAY, _MONTH))
        half, whole = (_peak_mb(_MONTH, root / "month", f"{days}d") for days in (15, 30))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    ratio = _ratio(day, "duckdb") if "duckdb" in others else None
    print(f"day: {'DuckDB is missing' if ratio is None else f'{ratio:.2f} times DuckDB'}; goal {_MOST_RATIO}")
    print(f"month: {min(day_s := month['lag']):.1f} to {max(day_s):.1f} s; goal {_MOST_S:.0f} s")
    print(f"memory: {half} MB for 15 days, {whole} MB for 30; goal {_MOST_GROWTH} times")
    is_reached = ratio is not None and ratio <= _MOST_RATIO
    return 0 if is_reached and max(month["lag"]) < _MOST_S and whole <= half * _MOST_GROWTH else 1


def _measure(scene: _Scene, folder: Path, others: dict[str, Callable[[Path], list[float]]]) -> dict[str, list[float]]:
    """Return the seconds of each run by its way; every way has had a run before."""
    _fill(folder, scene.group_count, scene.day_count * _DAY_SNAPSHOTS)
    ways: dict[str, Callable[[], Any]] = {"lag": lambda: JOB.run(None, scene.options(folder))}
    ways |= {name: lambda way=way: way(folder) for name, way in others.items()}
    results = {name: way() for name, way in ways.items()}
    taken = [{name: _seconds(way) for name, way in ways.items()} for _ in range(scene.run_count)]
    found = {name: [run[name] for run in taken] for name in ways}
    wanted = _figures(folder)
    print(f"{scene.name}: {results['lag'].facts['snapshotRowCount']:,} rows, {wanted[0]:,.0f} queues and windows")
    for name, seconds in found.items():
        is_equal = name == "lag" or np.allclose(results[name], wanted, rtol=1e-6)
        said = f"lag takes {_ratio(found, name):.2f} times as long" if name != "lag" else "the whole job"
        differs = "" if is_equal else f"; DIFFERS: {results[name]}, not {wanted}"
        print(f"  {name:<8} min {min(seconds):6.2f} s  median {statistics.median(seconds):6.2f} s  {said}{differs}")
    return found


def _ratio(found: dict[str, list[float]], name: str) -> float:
    return statistics.median(ours / theirs for ours, theirs in zip(found["lag"], found[name], strict=True))


def _seconds(way: Callable[[], Any]) -> float:
    begun_s = time.perf_counter()
    way()
    return time.perf_counter() - begun_s


def _peak_mb(scene: _Scene, folder: Path, since: str) -> int:
    command = [sys.executable, "-c", _ALONE, str(folder), str(scene.now_ms), since]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _fill(folder: Path, group_count: int, snapshot_count: int) -> None:
    """Write a snapshot every 5 minutes, as cron and optimize leave them: a file per day, and one each on the last day.

    70 % of queues keep up, some lag, 2 % do not move.
    """
    made = np.random.default_rng(20261122)
    count = group_count * _QUEUES
    group, queue = np.divmod(np.arange(count), _QUEUES)
    names = {
        "cluster": (np.zeros(count), ["prod"]),
        "consumer_group": (group, [f"orders-service-{number:05}" for number in range(group_count)]),
        "topic": (group % 300, [f"orders.events.{number:03}" for number in range(300)]),
        "broker_name": (queue // 5, [f"broker-{number}" for number in range(5)]),
        "client_id": (
            group * 5 + queue // 5,
            [f"10.0.{n // 250}.{n % 250}@{4000 + n}#81" for n in range(group_count * 5)],
        ),
    }
    rate, kind = made.integers(0, 5, count) * _STEP_MS // 1000, made.random(count)
    end = made.integers(10**6, 10**9, count)
    offset = end - made.integers(0, 5000, count)
    of_day: list[pa.Table] = []
    store = Table(str(folder), OFFSET_SNAPSHOTS)
    for number in range(snapshot_count):
        at_ms = _START_MS + number * _STEP_MS
        end = end + made.poisson(rate)
        slow = np.minimum(end, offset + made.poisson(rate * 1.02))
        offset = np.where(kind < 0.02, offset, np.where(kind < 0.7, end - made.integers(0, 30, count), slow))
        columns: dict[str, Any] = {
            "cluster_label": ["L"] * count,
            "run_id": [f"run-{number}"] * count,
            "dt": [(iso_time(at_ms) or "")[:10]] * count,
            "snapshot_ts": pa.array(np.full(count, at_ms * 1000), pa.timestamp("us", tz="UTC")),
            **{
                name: pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), words).cast(pa.string())
                for name, (codes, words) in names.items()
            },
            "queue_id": (queue % 5).astype(np.int32),
            "min_offset": np.zeros(count, np.int64),
            "max_offset": end,
            "consumer_offset": offset,
            "lag_messages": end - offset,
            "last_consume_ts": pa.array(np.full(count, (at_ms - 5000) * 1000), pa.timestamp("us", tz="UTC")),
            "is_held": np.ones(count, np.bool_),
            "is_none_stored": np.zeros(count, np.bool_),
            "is_subscribed": np.ones(count, np.bool_),
            "is_configured": np.ones(count, np.bool_),
        }
        of_day.append(pa.table(columns))
        if number >= snapshot_count - _DAY_SNAPSHOTS or len(of_day) == _DAY_SNAPSHOTS:
            rows = pa.concat_tables(of_day)
            store.change(lambda _version, rows=rows: TableChange(rows))
            of_day = []


# The same facts elsewhere

# Counts, sums and how many there are of each: of what all ways make.
_SUMS = ("lag_max", "behind_last", "slope_msgs_per_s", "produce_rate")


def _figures(folder: Path) -> list[float]:
    rows = require_version(Table(str(folder), LAG_TREND)).arrow(_SUMS)
    return [float(rows.num_rows), *(float(pc.sum(rows.column(name)).as_py()) for name in _SUMS)]


def _others(site: Path) -> dict[str, Callable[[Path], list[float]]]:
    """Install the others, and return their ways to make the facts."""
    os.environ["POLARS_MAX_THREADS"] = str(_CORES)
    ways = {"duckdb": _by_duckdb, "polars": _by_polars}
    wanted = [f"{name}=={version}" for name, version in _OTHERS.items()]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(site), *wanted]
    if subprocess.run(pip, check=False, capture_output=True).returncode != 0:
        print(f"not installed: {', '.join(wanted)}")
        return {}
    sys.path.insert(0, str(site))
    return ways


# The facts about the growth of the lag.
_EIGHTH = "8 * (at_ms - from_ms) / greatest(1, to_ms - from_ms)"
_GROWTH = ", ".join(
    [f"min(behind) FILTER (WHERE eighth = {number}) AS low_{number}" for number in range(1, 9)]
    + [f"count(behind) FILTER (WHERE eighth {half} 4) AS {name}" for name, half in (("early", "<="), ("later", ">"))]
    + ["max(max_offset) - min(max_offset) AS arrived"]
)

_SQL = """
WITH looks AS (
  SELECT *, epoch_ms(snapshot_ts) AS at_ms, at_ms - at_ms % 3600000 AS start_ms FROM read_parquet('{path}')
  QUALIFY row_number() OVER (PARTITION BY consumer_group, topic, broker_name, queue_id, at_ms
                             ORDER BY consumer_offset DESC, max_offset DESC) = 1),
anew AS (SELECT *, max_offset < lag(max_offset IGNORE NULLS) OVER q AS is_anew FROM looks
  WINDOW q AS (PARTITION BY consumer_group, topic, broker_name, queue_id, start_ms ORDER BY at_ms)),
same AS (SELECT * FROM anew QUALIFY at_ms >= coalesce(max(CASE WHEN is_anew THEN at_ms END) OVER (
  PARTITION BY consumer_group, topic, broker_name, queue_id, start_ms), at_ms)),
judged AS (SELECT *, CASE WHEN consumer_offset <= max_offset THEN max_offset - consumer_offset
  WHEN consumer_offset IS NULL AND is_none_stored AND min_offset = max_offset THEN 0 END AS behind,
  coalesce(consumer_offset > max_offset, false) AS beyond FROM same),
known AS (SELECT *, last_value(consumer_offset IGNORE NULLS) OVER whole AS at_end,
  min(CASE WHEN behind IS NOT NULL THEN at_ms END) OVER whole AS from_ms,
  max(CASE WHEN behind IS NOT NULL THEN at_ms END) OVER whole AS to_ms,
  (at_ms - first_value(at_ms) OVER whole) / 1000 AS s,
  consumer_offset - first_value(consumer_offset) OVER whole AS consumed,
  max_offset - first_value(max_offset) OVER whole AS produced,
  client_id <> lag(client_id IGNORE NULLS) OVER q AS is_other FROM judged
  WINDOW q AS (PARTITION BY consumer_group, topic, broker_name, queue_id, start_ms ORDER BY at_ms),
    whole AS (PARTITION BY consumer_group, topic, broker_name, queue_id, start_ms ORDER BY at_ms
              ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)),
placed AS (SELECT *, greatest(1, ceil({eighth})) AS eighth FROM known),
facts AS (SELECT consumer_group, topic, broker_name, queue_id, start_ms, count(*) AS sample_count,
  count(behind) AS known_count, min(at_ms) FILTER (behind IS NOT NULL) AS first_ms,
  max(at_ms) FILTER (behind IS NOT NULL) AS last_ms, min(behind) AS behind_lowest,
  arg_max(behind, at_ms) AS behind_last,
  {growth}, max(consumer_offset) AS offset_highest, any_value(at_end) AS offset_last,
  min(consumer_offset) <> max(consumer_offset) AS has_moved,
  max(greatest(0, min_offset - consumer_offset)) FILTER (NOT beyond) AS lost_highest, count_if(is_held) AS held_count,
  count_if(NOT is_held) AS unheld_count,
  max(at_ms) FILTER (behind = 0 OR consumer_offset <> at_end) AS moved_at_ms, bool_or(is_anew) AS has_max_gone_back,
  max(lag_messages) AS lag_max, avg(lag_messages) AS lag_avg, regr_slope(produced, s) AS produce_rate,
  regr_slope(produced - consumed, s) AS slope_msgs_per_s, count_if(is_other) AS owner_change_count
  FROM placed GROUP BY ALL)
SELECT * FROM facts
"""


def _by_duckdb(folder: Path) -> list[float]:
    import duckdb

    path = folder / OFFSET_SNAPSHOTS / "dt=*" / "*.parquet"
    with duckdb.connect(config={"threads": _CORES}) as database:
        database.execute(f"CREATE TEMP TABLE facts AS {_SQL.format(path=path, eighth=_EIGHTH, growth=_GROWTH)}")
        row = database.execute(f"SELECT count(*), {', '.join(f'sum({name})' for name in _SUMS)} FROM facts").fetchone()
    return [float(value) for value in row]


def _by_polars(folder: Path) -> list[float]:
    import polars as pl

    c = pl.col
    window = ["consumer_group", "topic", "broker_name", "queue_id", "start_ms"]
    at_ms = c("snapshot_ts").dt.epoch("ms")
    looks = (
        pl.scan_parquet(folder / OFFSET_SNAPSHOTS / "dt=*" / "*.parquet")
        .with_columns(at_ms=at_ms, start_ms=at_ms - at_ms % _HOUR_MS)
        .sort("at_ms")
    )
    behind = pl.when(c("consumer_offset") <= c("max_offset")).then(c("max_offset") - c("consumer_offset"))
    is_elsewhere = (c("behind") == 0) | (c("consumer_offset") != c("consumer_offset").last())
    seconds = (c("at_ms") - c("at_ms").first()) / 1000
    span_ms = (c("at_ms").last() - c("at_ms").first()).clip(1)
    eighth = (8 * (c("at_ms") - c("at_ms").first()) / span_ms).ceil().clip(1)

    def slope(values: Any) -> Any:
        return pl.cov(values - values.first(), seconds) / seconds.var()

    facts = looks.with_columns(behind=behind).group_by(window).agg(
        pl.len().alias("sample_count"), c("behind").count().alias("known_count"), c("at_ms").first().alias("first_ms"),
        c("at_ms").last().alias("last_ms"), c("behind").min().alias("behind_lowest"),
        c("behind").last().alias("behind_last"), (c("max_offset").last() - c("max_offset").first()).alias("arrived"),
        *(c("behind").filter(eighth == number).min().alias(f"low_{number}") for number in range(1, 9)),
        (eighth <= 4).sum().alias("early"), (eighth > 4).sum().alias("later"),
        c("consumer_offset").max().alias("offset_highest"), c("consumer_offset").last().alias("offset_last"),
        (c("consumer_offset").n_unique() > 1).alias("has_moved"),
        (c("min_offset") - c("consumer_offset")).max().alias("lost_highest"), c("is_held").sum().alias("held_count"),
        c("at_ms").filter(is_elsewhere).last().alias("moved_at_ms"),
        (c("max_offset").diff() < 0).any().alias("has_max_gone_back"), c("lag_messages").max().alias("lag_max"),
        c("lag_messages").mean().alias("lag_avg"), slope(c("behind")).alias("slope_msgs_per_s"),
        slope(c("max_offset")).alias("produce_rate"),
        (c("client_id") != c("client_id").shift()).sum().alias("owner_change_count"),
    )  # fmt: skip
    sums = [c(name).sum() for name in _SUMS]
    return [float(value) for value in facts.collect().select(pl.len(), *sums).row(0)]


if __name__ == "__main__":
    sys.exit(main())
