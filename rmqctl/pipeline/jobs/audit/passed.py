"""What became of messages that a group has passed without a trace: skipped, lost, or consumed with a lost trace."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

from .rows import LOST, NOT_SEEN, SKIPPED, UNTRACED

# Moves of offsets over messages, from an offset up to the one before another, and when they were over.
SKIPS = (
    "topic string, consumer_group string, broker_name string, queue_id int, from_offset bigint, to_offset bigint,"
    " ended_ms bigint"
)
# Clocks of brokers and clients differ by less than this.
_CLOCKS_MS = 1_000
_QUEUE = ("topic", "consumer_group", "broker_name", "queue_id")
_PLACE = ("broker_name", "queue_id", "queue_offset", "store_ms")
_SIDES = {"before": "lag", "after": "lead"}


def settled_pairs(pairs: DataFrame, skips: DataFrame) -> DataFrame:
    """Return the rows of audited_pairs() with each fate NOT_SEEN replaced.

    `skips` has the columns SKIPS. SKIPPED: a change moved the group's offset past the message. LOST: it was not
    consumed. The same process consumed messages of the queue before and after it, the earlier ones when it was stored
    already, so no other member had the queue; and too few traces of that process are missing in between. UNTRACED: it
    may have been consumed, and its trace lost.
    """
    placed = pairs.select("topic", "consumer_group", "id", "fate", "first", F.explode("places").alias("place"))
    placed = placed.select("topic", "consumer_group", "id", "fate", "first", *(f"place.{name}" for name in _PLACE))
    unseen = _with_skips(_with_neighbours(placed), skips)
    is_lost = F.coalesce(F.col("is_undelivered") & F.col("was_behind"), F.lit(False))
    # A member may have consumed past the offset that was stored when the change was made.
    is_skipped = F.col("is_skipped") & F.coalesce("is_undelivered", F.lit(True))
    found = unseen.groupBy("topic", "consumer_group", "id").agg(
        F.bool_and(is_lost).alias("is_lost"), F.bool_or(is_skipped).alias("is_skipped")
    )
    settled = pairs.join(found, ["topic", "consumer_group", "id"], "left")
    fate = (
        F.when(F.coalesce("fate", F.lit("")) != NOT_SEEN, F.col("fate"))
        .when(F.col("is_skipped"), SKIPPED)
        .when(F.col("is_lost"), LOST)
        .otherwise(UNTRACED)
    )
    return settled.withColumn("fate", fate).drop("is_lost", "is_skipped", "first")


def _with_neighbours(placed: DataFrame) -> DataFrame:
    """Return the places of messages that were not seen, with is_undelivered and was_behind.

    Listeners get messages in the order of offsets. So if a few of a run of unseen messages were delivered, these are
    the first ones, before the offset moved, or the last ones, after that.
    """
    queue = f"over (partition by {', '.join(_QUEUE)} order by queue_offset)"
    unseen_ms = f"if(fate = '{NOT_SEEN}', store_ms, null)"
    rows = placed.withColumns({
        "next_unseen_ms": F.expr(f"lead({unseen_ms}) ignore nulls {queue}"),
        "unseen_count": F.expr(f"count({unseen_ms}) {queue}"),
    })  # fmt: skip
    seen = F.when(F.col("first").isNotNull(), F.struct("first.*", "next_unseen_ms", "unseen_count"))
    rows = rows.withColumn("seen", seen)
    rows = rows.withColumns({side: F.expr(f"{what}(seen) ignore nulls {queue}") for side, what in _SIDES.items()})
    before, after, count = F.col("before"), F.col("after"), F.col("unseen_count")
    missing = F.greatest(after["missing_after"] - before["missing_before"], F.lit(0))
    may_be_seen = F.floor(missing / 2) * after["most_at_once"]
    # Null if it is unknown.
    is_undelivered = F.when(
        before["process"] == after["process"],
        (count - before["unseen_count"] > may_be_seen) & (after["unseen_count"] - count >= may_be_seen),
    )
    was_behind = before["next_unseen_ms"] + _CLOCKS_MS <= before["began_ms"]
    rows = rows.withColumns({"is_undelivered": is_undelivered, "was_behind": was_behind})
    return rows.where(F.col("fate") == NOT_SEEN).drop("seen", *_SIDES)


def _with_skips(unseen: DataFrame, skips: DataFrame) -> DataFrame:
    ranges = skips.groupBy(*_QUEUE).agg(F.collect_list(F.struct(*skips.columns[len(_QUEUE) :])).alias("ranges"))
    at, stored_ms = F.col("queue_offset"), F.col("store_ms")

    def covers(skip: Column) -> Column:
        # Messages that were stored later have the offsets of others, because the topic was created again.
        is_older = stored_ms <= skip["ended_ms"] + _CLOCKS_MS
        return (at >= skip["from_offset"]) & (at < skip["to_offset"]) & is_older

    is_skipped = F.exists("ranges", covers)
    rows = unseen.join(F.broadcast(ranges), [*_QUEUE], "left")
    return rows.withColumn("is_skipped", F.coalesce(is_skipped, F.lit(False)))
