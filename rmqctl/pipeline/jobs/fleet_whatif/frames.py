"""From snapshots of all groups to the effects of other strategies and sizes: frames in, frames out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rmqctl.pipeline.tables.frames import day_column, of_queues
from rmqctl.pipeline.tables.schemas import ALLOC_WHATIF, columns_of

from .fleet import NamedChange, TrialState, try_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# `snapshot_us` is the time of a group's last answer in a snapshot, `first_us` of its first.
LATEST = (
    "cluster_label string, cluster string, consumer_group string, run_id string, snapshot_us bigint, first_us bigint"
)
# The columns that identify a row of alloc_whatif.
_ROW_KEY = ("cluster_label", "cluster", "consumer_group", "snapshot_ts", "run_id", "topics", "strategy", "change")
_WORST = (
    "cluster_label", "cluster", "consumer_group", "queue_count", "client_count", "least_queues", "most_queues",
    "queue_imbalance", "lag_imbalance", "moved_count",
)  # fmt: skip
# Microseconds instead of a timestamp while in Python, because the session's time zone does not affect them.
_MADE = columns_of(ALLOC_WHATIF) | {"snapshot_ts": "bigint"}


def latest_snapshots(snapshots: DataFrame, since_ms: int, until_ms: int | None) -> DataFrame:
    """Return the last snapshot of each group in a time range (inclusive, by its last answer), with the columns LATEST.

    The cluster is the first of its queues. Groups that are gone are left out.

    A broker's cluster can be unknown in one snapshot, and a group can have queues in several clusters. It is still one
    group.
    """
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    at_us = F.unix_micros("snapshot_ts")
    is_group_gone = F.col("broker_name").isNull() & F.col("topic").isNull()
    gone = snapshots.where(is_group_gone).groupBy("cluster_label", "consumer_group").agg(F.max(at_us).alias("gone_us"))
    taken = (
        of_queues(snapshots)
        .groupBy("cluster_label", "consumer_group", "run_id")
        .agg(F.min("cluster").alias("cluster"), F.max(at_us).alias("snapshot_us"), F.min(at_us).alias("first_us"))
    )
    taken = taken.where(F.col("snapshot_us") >= since_ms * 1000)
    if until_ms is not None:
        taken = taken.where(F.col("snapshot_us") <= until_ms * 1000)
    taken = taken.join(gone, ["cluster_label", "consumer_group"], "left")
    taken = taken.where("gone_us is null or gone_us < snapshot_us")
    last = F.max(F.struct("snapshot_us", "run_id", "first_us")).alias("last")
    found = taken.groupBy("cluster_label", "cluster", "consumer_group").agg(last)
    return found.select(
        "cluster_label", "cluster", "consumer_group", "last.run_id", "last.snapshot_us", "last.first_us"
    )


def of_snapshots(snapshots: DataFrame, chosen: DataFrame) -> DataFrame:
    """Return the rows of chosen snapshots (columns LATEST), with the clusters and times given there.

    Queues that a group does not consume any more are left out.
    """
    from pyspark.sql import functions as F  # noqa: N812

    key = ["cluster_label", "consumer_group", "run_id"]
    is_consumed = F.coalesce("is_subscribed", F.lit(True)) & F.coalesce("is_configured", F.lit(True))
    rows = of_queues(snapshots).where(is_consumed).drop("cluster", "snapshot_ts", "dt")
    day = day_column(F.floor(F.col("snapshot_us") / F.lit(1000)))
    return rows.join(F.broadcast(chosen.select("cluster", "snapshot_us", *key)), key).select(
        "*", F.timestamp_micros("snapshot_us").alias("snapshot_ts"), day
    )


def groups_with_queues(rows: DataFrame, task_count: int) -> DataFrame:
    """Return one row per group, with the rows of its snapshot as `queues`, in task_count partitions."""
    from pyspark.sql import functions as F  # noqa: N812

    queue = F.struct("topic", "broker_name", "queue_id", "lag_messages", "client_id", "is_held")
    # Spark keeps an explicit number. Otherwise the few bytes of all groups would become one task.
    placed = rows.repartition(task_count, "cluster_label", "cluster", "consumer_group")
    grouped = placed.groupBy("cluster_label", "cluster", "consumer_group", "snapshot_ts", "run_id", "dt")
    return grouped.agg(F.collect_list(queue).alias("queues"))


def try_groups(groups: DataFrame, strategies: Sequence[str], changes: Sequence[NamedChange]) -> DataFrame:
    """Return the rows of alloc_whatif for groups with their queues."""
    from pyspark.sql import functions as F  # noqa: N812

    work = partial(try_batches, columns=_MADE, strategies=tuple(strategies), changes=tuple(changes))
    made = groups.withColumn("snapshot_ts", F.unix_micros("snapshot_ts")).mapInArrow(
        work, ", ".join(f"{name} {kind}" for name, kind in _MADE.items())
    )
    return made.withColumn("snapshot_ts", F.timestamp_micros("snapshot_ts"))


def with_others(results: DataFrame, existing: DataFrame) -> DataFrame:
    """Return results, and the rows of the table that they do not replace: other groups, changes, topics."""
    from pyspark.sql import functions as F  # noqa: N812

    made = results.select(*(F.col(name).alias(f"made_{name}") for name in _ROW_KEY))
    is_made = [F.col(name).eqNullSafe(F.col(f"made_{name}")) for name in _ROW_KEY]
    return results.unionByName(existing.join(made, is_made, "left_anti"))


def summarise(results: DataFrame) -> DataFrame:
    """Return one row per strategy and change: numbers of groups, imbalance, moves."""
    from pyspark.sql import functions as F  # noqa: N812

    is_tried = F.col("state") == TrialState.TRIED.value
    is_refused = F.col("state") == TrialState.REFUSED.value
    return (
        results.where(is_tried | is_refused)
        .groupBy("strategy", "change")
        .agg(
            F.count_if(is_tried).alias("groupCount"),
            F.count_if(is_refused).alias("refusedCount"),
            F.avg("queue_imbalance").alias("queueImbalanceMean"),
            F.max("queue_imbalance").alias("queueImbalanceMax"),
            F.avg("lag_imbalance").alias("lagImbalanceMean"),
            F.max("lag_imbalance").alias("lagImbalanceMax"),
            F.sum("moved_count").alias("movedCount"),
            F.sum(F.col("queue_count") - F.col("added_count")).alias("stayingQueueCount"),
            F.sum("idle_client_count").alias("idleClientCount"),
            F.min("reason").alias("refusal"),
        )
    )


def find_worst(results: DataFrame, count: int) -> DataFrame:
    """Return the worst groups of each strategy and change, at most count: by imbalance of queues, then of lag."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    worst = (F.desc_nulls_last("queue_imbalance"), F.desc_nulls_last("lag_imbalance"))
    order = (*worst, "consumer_group", "cluster_label", "cluster")
    place = F.row_number().over(Window.partitionBy("strategy", "change").orderBy(*order))
    # Sorting moves every column, so only the needed ones are kept.
    tried = results.where(F.col("state") == TrialState.TRIED.value).select("strategy", "change", *_WORST)
    return tried.withColumn("place", place).where(F.col("place") <= count)


def name_groups(results: DataFrame) -> DataFrame:
    """Return each group once: its name, when its snapshot was taken, why it was skipped."""
    from pyspark.sql import functions as F  # noqa: N812

    is_skipped = F.col("state") == TrialState.SKIPPED.value
    return results.select(
        "cluster_label", "cluster", "consumer_group", F.unix_millis("snapshot_ts").alias("snapshot_ms"),
        F.when(is_skipped, F.col("reason_code")).alias("skip_code"), F.when(is_skipped, F.col("reason")).alias("skip"),
    ).distinct().orderBy("consumer_group", "cluster_label", "cluster")  # fmt: skip
