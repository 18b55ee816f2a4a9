"""From the table of offsets to facts per queue and window: frames in, frames out, without reading or writing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqctl.pipeline.tables.frames import day_column, of_queues
from rmqctl.pipeline.tables.hours import day_of
from rmqctl.pipeline.tables.schemas import LAG_TREND, columns_of

from .groups import GoneTopic
from .standing import Standing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from .queue_windows import Windows

# The columns that identify a queue of a group, except its cluster, which can be unknown in one snapshot.
QUEUE_KEY = ("cluster_label", "consumer_group", "topic", "broker_name", "queue_id")
_TIMES = {"window_start": "window_start_ms", "window_end": "window_end_ms", "still_from_ts": "still_from_ms"}
_MS_PER_S = 1000
# Samples that one task has in memory at a time, about 200 bytes each.
_TASK_ROWS = 1_000_000
# Fewer samples are not worth a task.
_SMALL_ROWS = 200_000


def taken_between(snapshots: DataFrame, since_ms: int, until_ms: int) -> DataFrame:
    """Return rows of offset_snapshots from since_ms (inclusive) to until_ms (exclusive)."""
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    since, until = (F.timestamp_millis(F.lit(at_ms)) for at_ms in (since_ms, until_ms))
    rows = snapshots.where((F.col("snapshot_ts") >= since) & (F.col("snapshot_ts") < until))
    return rows.where(F.col("dt").between(day_of(since_ms), day_of(until_ms - 1)))


def find_gone(snapshots: DataFrame) -> list[GoneTopic]:
    """Return the groups and topics that are gone at the end of these rows."""
    from pyspark.sql import functions as F  # noqa: N812

    at_ms = F.unix_millis(F.max("snapshot_ts")).alias("at_ms")
    key = ("cluster_label", "consumer_group", "topic")
    found = snapshots.where("broker_name is null").groupBy(*key).agg(at_ms).collect()
    if not found:
        return []
    groups = {row.consumer_group for row in found}
    of_groups = of_queues(snapshots).where(F.col("consumer_group").isin(*groups))
    cluster = F.max_by("cluster", "snapshot_ts").alias("cluster")
    seen = {tuple(row[:3]): row for row in of_groups.groupBy(*key).agg(at_ms, cluster).collect()}
    return list(_still_gone(found, seen))


def _still_gone(found: Sequence[Row], seen: Mapping[tuple[Any, ...], Row]) -> Iterator[GoneTopic]:
    for label, group, topic, at_ms in found:
        last = [row for key, row in seen.items() if key[:2] == (label, group) and topic in (None, key[2])]
        newest = max(last, key=lambda row: row.at_ms, default=None)
        if newest is None or newest.at_ms < at_ms:
            cluster, last_ms = (None, None) if newest is None else (newest.cluster, newest.at_ms)
            yield GoneTopic(label, cluster, group, topic, last_ms, at_ms)


def sample_columns(snapshots: DataFrame, *more: Column) -> DataFrame:
    """Select the columns of offset_snapshots that queue_samples reads, and more columns."""
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    from .queue_samples import BETWEEN_NAMES, NAMES

    names = F.concat_ws(BETWEEN_NAMES, *(F.coalesce(name, F.lit("")) for name in NAMES)).alias("names")
    return snapshots.select(
        names, "queue_id", F.unix_millis("snapshot_ts").alias("at_ms"), "consumer_offset", "max_offset", "min_offset",
        "lag_messages", F.unix_millis("last_consume_ts").alias("last_ms"), "is_held", "is_none_stored",
        standing_column().alias("standing"),
        *more,
    )  # fmt: skip


def standing_column() -> Column:
    """Return the number of the Standing of each row of offset_snapshots."""
    from pyspark.sql import functions as F  # noqa: N812

    return (
        F.when(~F.col("is_configured"), Standing.GONE.value)
        .when(~F.col("is_subscribed"), Standing.LEFT.value)
        .otherwise(Standing.CONSUMES.value)
    )


class TaskDivision(NamedTuple):
    """How work is divided: into time ranges of one length, each split by queue into part_count parts.

    Each part is a task, which has all rows of a queue in its windows, and writes one file per hour.
    """

    stretch_ms: int
    stretch_count: int = 1
    part_count: int = 1


def share_out(row_count: int, unit_ms: int, unit_count: int, core_count: int) -> TaskDivision:
    """Return tasks for time units that must stay whole: enough for all cores, none too large, few small ones."""
    most_count = max(1, row_count // _SMALL_ROWS)
    together = -(-unit_count // most_count)
    stretch_count = -(-unit_count // together)
    part_count = max(-(-row_count // (stretch_count * _TASK_ROWS)), -(-min(core_count, most_count) // stretch_count))
    return TaskDivision(unit_ms * together, stretch_count, part_count)


def window_facts(
    snapshots: DataFrame, windows: Windows, tasks: TaskDivision, names: Sequence[str] | None = None
) -> DataFrame:
    """Return one row per queue and window from rows of offset_snapshots, with the columns queue_windows.MADE.

    `names` limits the columns. Rows are shuffled once.
    """
    from pyspark.sql import functions as F  # noqa: N812

    from .queue_windows import MADE, facts_of_batches

    at_ms = F.unix_millis("snapshot_ts")
    stretch = F.floor((at_ms - windows.offset_ms) / F.lit(tasks.stretch_ms)) % tasks.stretch_count
    part = F.pmod(F.hash(*QUEUE_KEY), F.lit(tasks.part_count)) if tasks.part_count > 1 else F.lit(0)
    place = (stretch * tasks.part_count + part).cast("int").alias("place")
    placed = (
        sample_columns(snapshots, place).repartitionById(tasks.stretch_count * tasks.part_count, "place").drop("place")
    )
    kinds = dict(part.split(" ") for part in MADE.split(", "))
    made = tuple(kinds if names is None else names)
    return placed.mapInArrow(
        partial(facts_of_batches, windows=windows, names=made), ", ".join(f"{name} {kinds[name]}" for name in made)
    )


def trend_rows(snapshots: DataFrame, windows: Windows, tasks: TaskDivision) -> DataFrame:
    """Return the rows of the table lag_trend."""
    from pyspark.sql import functions as F  # noqa: N812

    made = {name: F.timestamp_millis(source) for name, source in _TIMES.items()}
    made["window_s"] = F.lit(windows.length_ms // _MS_PER_S)
    made["dt"] = day_column(F.col("window_start_ms"))
    columns = columns_of(LAG_TREND)
    names = [*_TIMES.values(), *(name for name in columns if name not in made)]
    # The column shows since when a queue may be stuck, which the table does not have: it is not read or shuffled.
    snapshots = snapshots.withColumn("last_consume_ts", F.lit(None).cast("timestamp"))
    facts = window_facts(snapshots, windows, tasks, names)
    return facts.select(*(made.get(name, F.col(name)).cast(kind).alias(name) for name, kind in columns.items()))
