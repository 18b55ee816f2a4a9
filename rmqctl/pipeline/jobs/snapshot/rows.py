"""Rows of the table of offsets, built from answers of brokers or from recorded samples, and the runs in it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqctl.admin.offsets.reading import GroupProgress
from rmqctl.errors import UsageError
from rmqctl.model.progress import QueueProgress, Unknown
from rmqctl.observe.recording import RecordedSample
from rmqctl.observe.sampled_progress import is_held, is_none_stored, sample_progress
from rmqctl.pipeline.tables.files import TableFiles
from rmqctl.pipeline.tables.hours import Hour, hour_of
from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS, PARTITIONS, SCHEMAS, replace_partitions
from rmqctl.rules.totals import total

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = SCHEMAS[OFFSET_SNAPSHOTS]
# The part of an hour into which compaction merges all others.
MERGED = "merged"
# The columns that identify a row, however often it is in the table.
KEYS = ("run_id", "consumer_group", "topic", "broker_name", "queue_id")

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_MS = 253_402_300_799_999  # the last ms of the year 9999


class TablePart(NamedTuple):
    """A part of the table."""

    hour: Hour
    part: str


class SnapshotRun(NamedTuple):
    """A run: its id, and the moment that all of its rows describe."""

    run_id: str
    at_ms: int


def default_run_id(now_ms: int) -> str:
    """Return the default run id of a time, for example 20261122T105200Z."""
    return f"{datetime.fromtimestamp(now_ms // 1000, UTC):%Y%m%dT%H%M%SZ}"


def check_run_id(run_id: str) -> None:
    """Raise UsageError for an invalid run id; a run id names a folder."""
    if run_id == MERGED:
        raise UsageError(f"The run id {MERGED} is reserved for the parts that --compact writes.")
    if _RUN_ID.fullmatch(run_id) is None:
        raise UsageError(
            f"Invalid run id {run_id!r}.",
            hint="Use up to 64 ASCII letters, digits, dots, - and _, starting with a letter or a digit.",
        )


def sample_run(recorded: RecordedSample) -> SnapshotRun:
    """Return the run of a recorded sample: always the same one, in any file and however often it is imported."""
    sample = recorded.sample
    identity = "\0".join((recorded.cluster or "", sample.group, str(sample.at_ms)))
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    at = datetime.fromtimestamp(sample.at_ms // 1000, UTC)
    return SnapshotRun(f"{at:%Y%m%dT%H%M%S}.{sample.at_ms % 1000:03}Z-{digest[:16]}", sample.at_ms)


def recording_part(run_ids: Iterable[str]) -> str:
    """Return the part for an hour's samples of recordings: the same samples always have the same part."""
    return f"recording-{hashlib.sha256(' '.join(sorted(run_ids)).encode()).hexdigest()[:16]}"


# Rows


def progress_rows(
    progress: GroupProgress, run: SnapshotRun, part: str, clusters: Mapping[str, str]
) -> list[tuple[Any, ...]]:
    """Return a group's rows, with values in the table's column order; `clusters` are by broker name."""
    return [_row(progress.group, row, run, part, clusters.get(row.mq.broker_name)) for row in progress.rows]


def sample_rows(recorded: RecordedSample, part: str) -> list[tuple[Any, ...]]:
    """Return the rows of a sample, with values in the table's column order."""
    run, group = sample_run(recorded), recorded.sample.group
    return [_row(group, row, run, part, recorded.cluster) for row in sample_progress(recorded)]


def _row(group: str, row: QueueProgress, run: SnapshotRun, part: str, cluster: str | None) -> tuple[Any, ...]:
    return (
        run.run_id,
        run.at_ms * 1000,
        _text(cluster),
        _text(group),
        _text(row.mq.topic),
        _text(row.mq.broker_name),
        row.mq.queue_id,
        row.min_offset,
        row.max_offset,
        row.consumer_offset,
        row.lag,
        _micros(row.last_timestamp_ms),
        _text(row.client_ids[0]) if len(row.client_ids) == 1 else None,
        is_held(row),
        is_none_stored(row),
        *hour_of(run.at_ms),
        part,
    )


def _text(text: str | None) -> str | None:
    """Return a name that a table can store: half a surrogate pair becomes a question mark, as in Java."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _micros(at_ms: int | None) -> int | None:
    """Return a time in us, None for a value before 1970 or after the year 9999."""
    return at_ms * 1000 if at_ms is not None and 0 <= at_ms <= _MAX_MS else None


def arrow_rows(rows: Sequence[tuple[Any, ...]]) -> pyarrow.Table:
    """Return rows as an Arrow table with the table's own types."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
    }
    fields = [pa.field(name, types[kind]) for name, kind in (column.split() for column in SCHEMA.split(", "))]
    columns = zip(*rows, strict=True) if rows else [()] * len(fields)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def summary_row(
    group: str, state: str, queues: Sequence[QueueProgress], hidden: Unknown | None = None
) -> dict[str, Any]:
    """Summarise a group; `hidden` is the reason why some queues may have no row."""
    lag = total(((row.lag, str(row.reasons.get("lag"))) for row in queues), hidden=hidden, nothing="NEVER_COMMITTED")
    return {
        "group": group,
        "state": state,
        "queueCount": len(queues),
        "lag": lag.value,
        "lagAtLeast": lag.at_least,
        "unknownCount": sum(row.lag is None for row in queues),
    }


def most_behind(rows: Iterable[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Return at most limit summaries, the largest lag first."""
    return sorted(rows, key=lambda row: (-row["lagAtLeast"], -row["unknownCount"], row["group"]))[:limit]


# The table


def read_snapshots(spark: SparkSession, path: str, hour: Hour | None = None) -> DataFrame | None:
    """Return the table's rows, or those of an hour; None when they do not exist yet."""
    from pyspark.errors import AnalysisException

    folder = path if hour is None else f"{path}/dt={hour.dt}/hr={hour.hr}"
    files = TableFiles.of(spark, path)
    if files is not None and not files.exists(folder):
        # Spark would detect that too, but write a page to its log.
        return None
    try:
        frame = spark.read.schema(SCHEMA).option("basePath", path).parquet(folder)
        # Spark Connect checks a path only on first use.
        _ = frame.columns
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        return None
    return frame


def find_run(spark: SparkSession, path: str, run_id: str, hour: Hour | None = None) -> list[TablePart]:
    """Return the parts with rows of a run, in the whole table or in an hour."""
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    frame = read_snapshots(spark, path, hour)
    if frame is None:
        return []
    frame = frame.where(F.col("part").isin(run_id, MERGED)).where(F.col("run_id") == run_id)
    return sorted(
        TablePart(Hour(row.dt, row.hr), row.part) for row in frame.select("dt", "hr", "part").distinct().collect()
    )


def find_run_ids(spark: SparkSession, path: str, hours: Collection[Hour]) -> set[str]:
    """Return the ids of all runs on the days of some hours."""
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    frame = read_snapshots(spark, path)
    if frame is None:
        return set()
    frame = frame.where(F.col("dt").isin(sorted({hour.dt for hour in hours})))
    return {row.run_id for row in frame.select("run_id").distinct().collect()}


def write_rows(spark: SparkSession, path: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Write rows, replacing those of the same parts; one file per part."""
    replace_partitions(spark.createDataFrame(arrow_rows(rows)).coalesce(1), path, PARTITIONS[OFFSET_SNAPSHOTS])
