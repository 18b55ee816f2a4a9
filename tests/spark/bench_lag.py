"""How fast the job lag is, and when Spark is not needed for it: the same facts by DuckDB, Polars and plain Python.

`.venv-spark/bin/python -m tests.spark.bench_lag [GROUPS]`: 2,000 groups of 25 queues, 100 snapshots, one every
5 minutes (5,000,000 rows), two cores. Everything is run in turns, so that ratios of one run hold also on a busy
machine; DuckDB and Polars are brought into a folder of their own for it. Spark's figure is the whole job: it reads,
judges, writes the table lag_trend and makes the report. The others only make facts: Spark's window functions into
Parquet too, DuckDB and Polars in memory.
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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.lag.job import JOB
from rmqctl.pipeline.session import start_session
from rmqctl.pipeline.tables.delta import Table, TableChange
from rmqctl.pipeline.tables.schemas import LAG_TREND, OFFSET_SNAPSHOTS
from rmqctl.rules.health import Observation, compute_trend, facts_of, judge
from rmqctl.text.times import iso_time

from .samples import rows_of

_QUEUES, _SNAPSHOTS, _STEP_MS = 25, 100, 300_000
_START_MS, _HOUR_MS = 1_795_305_600_000, 3_600_000  # 2026-11-22T00:00Z
_CORES, _RUNS = 2, 3
_WARM_S, _COLD_S = 8, 25
_SAMPLE_QUEUES = 300
_OTHERS = {"duckdb": "2.0.0", "polars": "2.1.0"}

_COLD = """
import sys
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.lag.job import JOB
from rmqctl.pipeline.session import start_session
JOB.run(start_session(master=sys.argv[2], name="bench"), JobOptions(now_ms=int(sys.argv[3]), tables=sys.argv[1]))
"""


def main() -> int:
    """Print what was measured, beside what must be reached; exit 1 when it is not."""
    group_count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    folder = Path(tempfile.mkdtemp(prefix="rmqctl-bench-"))
    try:
        _fill(folder, group_count)
        others = _others(folder / "site")
        cold_s = [_seconds(partial(_run_cold, folder)) for _ in range(2)]
        spark = start_session(master=f"local[{_CORES},4]", name="bench")
        ways: dict[str, Callable[[], Any]] = {"spark": lambda: JOB.run(spark, _options(folder))}
        ways |= {name: partial(way, folder) for name, way in others.items()}
        ways["windows"] = partial(_by_window_functions, spark, folder)
        for _ in range(2):
            results = {name: way() for name, way in ways.items()}
        taken = [{name: _seconds(way) for name, way in ways.items()} for _ in range(_RUNS)]
        plain_s = _plain_s(spark, folder, group_count)
        wanted = _figures(spark, folder)
        spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = group_count * _QUEUES * _SNAPSHOTS
    print(f"{rows:,} rows of snapshots, {results['spark'].written[0].row_count:,} queues and windows")
    spark_s = [run["spark"] for run in taken]
    print(_line("Spark, cold: session, job", cold_s, f"< {_COLD_S} s"))
    print(_line("Spark, warm: job", spark_s, f"< {_WARM_S} s"))
    named = {"windows": "Spark, warm: facts by window functions"}
    named |= {name: f"{name} {_OTHERS[name]}: facts alone" for name in others}
    for name, what in named.items():
        ratio = statistics.median(run[name] / run["spark"] for run in taken)
        agrees = "agrees" if _agree(results[name], wanted) else f"DIFFERS: {results[name]}, not {wanted}"
        print(_line(what, [run[name] for run in taken], f"{ratio:.2f} of the job; {agrees}"))
    print(f"plain Python: facts and verdicts of {_SAMPLE_QUEUES} queues, extrapolated{plain_s:10.1f} s")
    return 0 if min(cold_s) < _COLD_S and min(spark_s) < _WARM_S else 1


def _line(what: str, taken_s: list[float], said: str) -> str:
    return f"{what:<40} min {min(taken_s):6.2f} s  median {statistics.median(taken_s):6.2f} s  {said}"


def _seconds(way: Callable[[], Any]) -> float:
    begun_s = time.perf_counter()
    way()
    return time.perf_counter() - begun_s


def _options(folder: Path) -> JobOptions:
    return JobOptions(now_ms=_START_MS + 24 * _HOUR_MS, tables=str(folder))


def _run_cold(folder: Path) -> None:
    command = [sys.executable, "-c", _COLD, str(folder), f"local[{_CORES},4]", str(_START_MS + 24 * _HOUR_MS)]
    subprocess.run(command, check=True, capture_output=True)


def _fill(folder: Path, group_count: int) -> None:
    """Write the table as compaction leaves it, a file an hour: 70 % of queues keep up, some lag, 2 % stand still."""
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
    hours: dict[int, list[pa.Table]] = {}
    for number in range(_SNAPSHOTS):
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
        }
        hours.setdefault(at_ms // _HOUR_MS * _HOUR_MS, []).append(pa.table(columns))
    for tables in hours.values():
        rows = pa.concat_tables(tables)
        store = Table(str(folder), OFFSET_SNAPSHOTS)
        store.change(lambda _version, rows=rows: TableChange(rows))


# The same facts elsewhere

# Counts, sums and how many there are of each: of what all ways make.
_FIGURES = ("count(*)", "sum(lag_max)", "sum(behind_last)", "sum(slope_msgs_per_s)", "sum(produce_rate)")


def _figures(spark: Any, folder: Path) -> list[float]:
    row = rows_of(spark, folder, LAG_TREND).selectExpr(*_FIGURES).collect()[0]
    return [float(value) for value in row]


def _agree(found: list[float], wanted: list[float]) -> bool:
    return bool(np.allclose(found, wanted, rtol=1e-6))


def _others(site: Path) -> dict[str, Callable[[Path], list[float]]]:
    """Return what can be had of the others."""
    os.environ["POLARS_MAX_THREADS"] = str(_CORES)
    ways = {"duckdb": _by_duckdb, "polars": _by_polars}
    wanted = [f"{name}=={version}" for name, version in _OTHERS.items()]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(site), *wanted]
    if subprocess.run(pip, check=False, capture_output=True).returncode != 0:
        print(f"left out, for they can't be had: {', '.join(wanted)}")
        return {}
    sys.path.insert(0, str(site))
    return ways


# The facts about the growth of the lag, in both dialects.
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

    path = folder / OFFSET_SNAPSHOTS / "*" / "*.parquet"
    with duckdb.connect(config={"threads": _CORES}) as database:
        database.execute(f"CREATE TEMP TABLE facts AS {_SQL.format(path=path, eighth=_EIGHTH, growth=_GROWTH)}")
        row = database.execute(f"SELECT {', '.join(_FIGURES)} FROM facts").fetchone()
    return [float(value) for value in row]


_SPARK_SQL = """
WITH looks AS (SELECT *, unix_millis(snapshot_ts) AS at_ms, unix_millis(snapshot_ts) DIV 3600000 AS hour
  FROM {snapshots}),
ranked AS (SELECT *, lead(at_ms) OVER q AS next_ms FROM looks WINDOW q AS (
  PARTITION BY consumer_group, topic, broker_name, queue_id, hour ORDER BY at_ms, consumer_offset, max_offset)),
anew AS (SELECT *, max_offset < lag(max_offset) IGNORE NULLS OVER q AS is_anew FROM ranked
  WHERE next_ms IS NULL OR next_ms <> at_ms
  WINDOW q AS (PARTITION BY consumer_group, topic, broker_name, queue_id, hour ORDER BY at_ms)),
ended AS (SELECT *, max(CASE WHEN is_anew THEN at_ms END) OVER (
  PARTITION BY consumer_group, topic, broker_name, queue_id, hour) AS anew_ms FROM anew),
judged AS (SELECT *, CASE WHEN consumer_offset <= max_offset THEN max_offset - consumer_offset
  WHEN consumer_offset IS NULL AND is_none_stored AND min_offset = max_offset THEN 0 END AS behind,
  coalesce(consumer_offset > max_offset, false) AS beyond FROM ended WHERE anew_ms IS NULL OR at_ms >= anew_ms),
known AS (SELECT *, last_value(consumer_offset) IGNORE NULLS OVER whole AS at_end,
  min(CASE WHEN behind IS NOT NULL THEN at_ms END) OVER whole AS from_ms,
  max(CASE WHEN behind IS NOT NULL THEN at_ms END) OVER whole AS to_ms,
  (at_ms - first_value(at_ms) OVER whole) / 1000 AS s,
  consumer_offset - first_value(consumer_offset) OVER whole AS consumed,
  max_offset - first_value(max_offset) OVER whole AS produced,
  client_id <> lag(client_id) IGNORE NULLS OVER q AS is_other FROM judged
  WINDOW q AS (PARTITION BY consumer_group, topic, broker_name, queue_id, hour ORDER BY at_ms),
    whole AS (PARTITION BY consumer_group, topic, broker_name, queue_id, hour ORDER BY at_ms
              ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)),
placed AS (SELECT *, greatest(1, ceil({eighth})) AS eighth FROM known),
facts AS (SELECT consumer_group, topic, broker_name, queue_id, hour, count(*) AS sample_count,
  count(behind) AS known_count, min(at_ms) FILTER (WHERE behind IS NOT NULL) AS first_ms,
  max(at_ms) FILTER (WHERE behind IS NOT NULL) AS last_ms, min(behind) AS behind_lowest,
  max_by(behind, at_ms) FILTER (WHERE behind IS NOT NULL) AS behind_last,
  {growth}, max(consumer_offset) AS offset_highest, max(at_end) AS offset_last,
  min(consumer_offset) <> max(consumer_offset) AS has_moved,
  max(greatest(0, min_offset - consumer_offset)) FILTER (WHERE NOT beyond) AS lost_highest,
  count_if(is_held) AS held_count, count_if(NOT is_held) AS unheld_count,
  max(at_ms) FILTER (WHERE behind = 0 OR consumer_offset <> at_end) AS moved_at_ms,
  bool_or(is_anew) AS has_max_gone_back, max(lag_messages) AS lag_max, avg(lag_messages) AS lag_avg,
  regr_slope(produced, s) AS produce_rate, regr_slope(produced - consumed, s) AS slope_msgs_per_s,
  count_if(is_other) AS owner_change_count FROM placed GROUP BY ALL)
SELECT * FROM facts
"""


def _by_window_functions(spark: Any, folder: Path) -> list[float]:
    table = rows_of(spark, folder, OFFSET_SNAPSHOTS)
    sql = _SPARK_SQL.replace("{eighth}", _EIGHTH).replace("{growth}", _GROWTH)
    spark.sql(sql, snapshots=table).write.mode("overwrite").parquet(f"{folder}/by_windows")
    row = spark.read.parquet(f"{folder}/by_windows").selectExpr(*_FIGURES).collect()[0]
    return [float(value) for value in row]


def _by_polars(folder: Path) -> list[float]:
    import polars as pl

    c = pl.col
    window = ["consumer_group", "topic", "broker_name", "queue_id", "start_ms"]
    at_ms = c("snapshot_ts").dt.epoch("ms")
    looks = (
        pl.scan_parquet(folder / OFFSET_SNAPSHOTS / "**" / "*.parquet")
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
    sums = [c(name).sum() for name in ("lag_max", "behind_last", "slope_msgs_per_s", "produce_rate")]
    return [float(value) for value in facts.collect().select(pl.len(), *sums).row(0)]


def _plain_s(spark: Any, folder: Path, group_count: int) -> float:
    """Return how long the rules themselves would take, by some queues; the rows are in memory already."""
    table = rows_of(spark, folder, OFFSET_SNAPSHOTS)
    some = [f"orders-service-{number:05}" for number in range(_SAMPLE_QUEUES // _QUEUES)]
    at_ms, last_ms = "unix_millis(snapshot_ts) AS at_ms", "unix_millis(last_consume_ts) AS last_ms"
    rows = table.where(table.consumer_group.isin(*some)).selectExpr("*", at_ms, last_ms).toArrow().to_pylist()
    begun_s = time.perf_counter()
    queues: dict[tuple[Any, ...], list[Observation]] = {}
    for row in rows:
        key = (row["consumer_group"], row["topic"], row["broker_name"], row["queue_id"], row["at_ms"] // _HOUR_MS)
        queues.setdefault(key, []).append(
            Observation(
                row["at_ms"], row["consumer_offset"], row["max_offset"], row["min_offset"], row["is_held"],
                row["last_ms"], row["is_none_stored"],
            )
        )  # fmt: skip
    for looks in queues.values():
        judge(facts_of(looks))
        compute_trend(looks)
    return (time.perf_counter() - begun_s) * group_count * _QUEUES / _SAMPLE_QUEUES


if __name__ == "__main__":
    sys.exit(main())
