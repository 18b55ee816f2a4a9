"""What the page of the job draws of a group: each of its snapshots, and its queues in each window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.report.lag_series import GroupSeries, LagPoint, LagWindow

from .facts import QUEUE_KEY, standing_column
from .groups import WORDS, queue_of
from .standing import UNCONSUMED, Standing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_UNCONSUMED = {word for word, _ in UNCONSUMED.values()}


def snapshot_sums(snapshots: DataFrame) -> list[dict[str, Any]]:
    """Return one row per group, cluster and snapshot, from rows of queues in offset_snapshots; ordered by time.

    `lag` is that of `offset show`: null when that of a queue is unknown. An offset that is lower than in the snapshot
    before was set back, unless the queue was created again; an owner counts as changed when both are known.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    in_time = Window.partitionBy(*QUEUE_KEY).orderBy("snapshot_ts", "run_id")
    earlier = in_time.rowsBetween(Window.unboundedPreceding, -1)

    def before(name: str) -> Any:
        return F.last(name, ignorenulls=True).over(earlier)

    is_empty = F.col("is_none_stored") & F.col("consumer_offset").isNull() & F.expr("min_offset = max_offset")
    rows = snapshots.select(
        *QUEUE_KEY, "cluster", "run_id", "snapshot_ts", standing_column().alias("standing"),
        F.coalesce("lag_messages", F.when(F.expr("consumer_offset = max_offset") | is_empty, 0)).alias("lag"),
        (
            (F.col("consumer_offset") < before("consumer_offset"))
            & ~F.coalesce(F.col("max_offset") < before("max_offset"), F.lit(False))
        ).alias("is_set_back"),
        (F.col("client_id") != before("client_id")).alias("is_handed_over"),
        F.lag("run_id").over(in_time).alias("earlier_run_id"),
    )  # fmt: skip
    # A queue counts once per snapshot: its first row there has what changed.
    is_first = ~F.col("run_id").eqNullSafe(F.col("earlier_run_id"))
    rows = rows.where(is_first & (F.col("standing") == Standing.CONSUMES.value))
    sums = rows.groupBy("cluster_label", "cluster", "consumer_group", "run_id").agg(
        F.unix_millis(F.min("snapshot_ts")).alias("at_ms"),
        F.when(F.count("lag") == F.count(F.lit(1)), F.sum("lag")).alias("lag"),
        F.count_if("is_set_back").alias("set_back_count"),
        F.count_if("is_handed_over").alias("owner_change_count"),
    )
    found: list[dict[str, Any]] = sums.toArrow().to_pylist()
    return sorted(found, key=lambda row: row["at_ms"])


def group_series(
    sums: Iterable[Mapping[str, Any]], facts: Iterable[Mapping[str, Any]], since_ms: int, until_ms: int
) -> GroupSeries:
    """Return what is drawn of one group, from its rows of snapshot_sums and of queue_windows.MADE.

    A window has the worst health of its queues. None ends after `until_ms`; the first is left out if it begins before
    `since_ms`, because some of its snapshots were not read.
    """
    of_run: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in sums:
        of_run[row["run_id"]].append(row)
    words: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    queues: defaultdict[MessageQueue, dict[int, tuple[int | None, str]]] = defaultdict(dict)
    rows = list(facts)
    last_ms = max((row["window_start_ms"] for row in rows), default=0)
    for row in rows:
        if row["window_start_ms"] < min(since_ms, last_ms):
            continue
        words[row["window_start_ms"], row["window_end_ms"]].add(row["status"])
        queues[queue_of(row)][row["window_start_ms"]] = row["lag_max"], row["status"]
    return GroupSeries(
        tuple(_point(rows) for rows in of_run.values()),
        tuple(
            LagWindow(start_ms, min(end_ms, until_ms), min(found - _UNCONSUMED or found, key=WORDS.index))
            for (start_ms, end_ms), found in sorted(words.items())
        ),
        dict(queues),
    )


def _point(rows: Iterable[Mapping[str, Any]]) -> LagPoint:
    """Return the point of a snapshot; its brokers may have been of several clusters, or of an unknown one."""
    rows = list(rows)
    lags = [row["lag"] for row in rows]
    return LagPoint(
        min(row["at_ms"] for row in rows),
        None if None in lags else sum(lags),
        sum(row["set_back_count"] for row in rows),
        sum(row["owner_change_count"] for row in rows),
    )
