"""Produced, stored, consumed: the fate of each message, and the counts in time windows.

A message is identified by `id`: its UNIQ_KEY, which producers and consumers write into their traces. Without one, it is
the broker's id, which consumers write instead. Times are epoch ms.
"""

from __future__ import annotations

from msgspec import Struct
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

from rmqctl.model.names import TIMER_TOPIC
from rmqctl.pipeline.tables.frames import day_column

from .trace_ids import process_of

WINDOW_MS = 600_000
PRODUCED, STORED, CONSUMED = "produced", "stored", "consumed"
# Whether the losses of a window are known: yes, not yet, or no longer.
CLOSED, OPEN, CUT = "CLOSED", "OPEN", "CUT"
# The fate of a message that did not reach the next tier.
LOST, WAITING, FAILED, FILTERED, UNKNOWN = "LOST", "WAITING", "FAILED", "FILTERED", "UNKNOWN"
# A group has passed it, but has no trace of it (as long as it is not known why), or only of the delivery's begin.
SKIPPED, UNTRACED, NOT_SEEN = "SKIPPED", "UNTRACED", "NOT_SEEN"

OFFSETS = "topic string, broker_name string, queue_id int, consumer_group string, consumer_offset bigint"
GROUPS = "topic string, consumer_group string, tags array<string>"
# The columns of format("rocketmq") that are read for messages.
MESSAGES = (
    "topic string, broker_name string, queue_id int, queue_offset bigint, msg_id string, uniq_key string,"
    " tags string, properties map<string,string>, born_ts timestamp, store_ts timestamp"
)
# The same for messages that brokers hold back until they are due, and the delivered offsets of delay levels.
HELD = (
    "topic string, broker_name string, queue_id int, queue_offset bigint, uniq_key string,"
    " properties map<string,string>"
)
DELIVERED = "broker_name string, queue_id int, delivered_offset bigint"
# Percentiles are exact up to this many latencies; beyond that, the error is 1 in this many.
_ACCURACY = 10_000


class AuditSpan(Struct, frozen=True):
    """Windows of messages born from since_ms to until_ms, both whole hours.

    Brokers retain all messages since held_since_ms: windows that start before it are CUT. Windows that end after
    settled_ms are OPEN: their traces may still arrive. Topics were read up to the messages stored at read_until_ms, or
    to their ends when it has no value.
    """

    since_ms: int
    until_ms: int
    held_since_ms: int
    settled_ms: int
    read_until_ms: int | None = None


def stored_messages(messages: DataFrame, offsets: DataFrame) -> DataFrame:
    """Return one row per message: topic, id, stored_count, born_ms, store_ms, tags, is_traceable, places.

    `messages` has the columns MESSAGES, `offsets` has OFFSETS. A place lists the groups whose offset is past it.
    Messages that a 5.x broker stored as part of a batch lack the property MSG_REGION. 5.x clients do not trace their
    deliveries, so is_traceable is false.
    """
    marks = offsets.groupBy("topic", "broker_name", "queue_id").agg(
        F.collect_list(F.struct("consumer_group", "consumer_offset")).alias("marks")
    )
    passed = F.filter("marks", lambda mark: mark["consumer_offset"] > F.col("queue_offset"))
    passed_by = F.coalesce(F.transform(passed, lambda mark: mark["consumer_group"]), F.array().cast("array<string>"))
    region, switch = F.col("properties")["MSG_REGION"], F.col("properties")["TRACE_ON"]
    rows = messages.join(F.broadcast(marks), ["topic", "broker_name", "queue_id"], "left").select(
        "topic",
        F.coalesce("uniq_key", "msg_id").alias("id"),
        # If the born time is invalid, use the store time, which is close to it.
        F.unix_millis(F.coalesce("born_ts", "store_ts")).alias("born_ms"),
        F.unix_millis("store_ts").alias("store_ms"),
        "tags",
        (region.isNotNull() & (F.coalesce(switch, F.lit("true")) != "false")).alias("is_traceable"),
        F.struct(
            "broker_name",
            "queue_id",
            "queue_offset",
            F.unix_millis("store_ts").alias("store_ms"),
            passed_by.alias("passed_by"),
        ).alias("place"),
    )
    return rows.groupBy("topic", "id").agg(
        F.count("*").alias("stored_count"),
        F.min("born_ms").alias("born_ms"),
        F.min("store_ms").alias("store_ms"),
        F.min("tags").alias("tags"),
        F.max("is_traceable").alias("is_traceable"),
        F.array_sort(F.collect_list("place")).alias("places"),
    )


def published_messages(publications: DataFrame, decisions: DataFrame) -> DataFrame:
    """Return one row per sent message: topic, id, published_count, failed_count, at_ms, cost_ms, and its kind.

    Both arguments come from trace_rows. Withdrawn messages are left out, because no group should get them.
    """
    sent = publications.groupBy("topic", "id").agg(
        F.count_if("is_success").alias("published_count"),
        F.count_if(~F.col("is_success")).alias("failed_count"),
        F.min("at_ms").alias("at_ms"),
        F.min(F.when(F.col("is_success"), F.col("cost_ms"))).alias("cost_ms"),
        F.max("is_delayed").alias("is_delayed"),
        F.max("is_half").alias("is_half"),
    )
    decided = sent.join(decisions, ["topic", "id"], "left")
    is_committed = F.coalesce("is_committed", F.lit(False))
    is_withdrawn = F.coalesce("is_withdrawn", F.lit(False)) & ~is_committed
    return decided.where(~is_withdrawn).select(
        *sent.columns[:-1], (F.col("is_half") & ~is_committed).alias("is_undecided"), F.lit(False).alias("is_later")
    )


def held_back(held: DataFrame, delivered: DataFrame, span: AuditSpan) -> DataFrame:
    """Return one row per message that brokers hold back until it is due: topic, id, is_ahead, is_later.

    `held` has the columns HELD, `delivered` has DELIVERED. Messages with is_ahead will still be delivered. Messages
    with is_later may have been delivered after the messages that were read. All others should be among those read.
    """
    due_ms = F.col("properties")["TIMER_OUT_MS"].try_cast("bigint")
    is_timer, read_until_ms = F.col("topic") == TIMER_TOPIC, F.lit(span.read_until_ms).cast("bigint")
    is_waiting = F.col("queue_offset") >= F.coalesce("delivered_offset", F.lit(0))
    rows = held.join(F.broadcast(delivered), ["broker_name", "queue_id"], "left").select(
        F.col("properties")["REAL_TOPIC"].alias("topic"),
        F.col("uniq_key").alias("id"),
        F.when(is_timer, due_ms > span.settled_ms).otherwise(is_waiting).alias("is_ahead"),
        # Brokers do not record when they delivered a message with a delay level.
        F.when(is_timer, due_ms >= read_until_ms).otherwise(read_until_ms.isNotNull()).alias("is_later"),
    )
    return rows.groupBy("topic", "id").agg(*(F.bool_or(name).alias(name) for name in ("is_ahead", "is_later")))


def with_held_back(published: DataFrame, held: DataFrame, *, has_levels: bool) -> DataFrame:
    """Return the rows of published_messages() with is_delayed and is_later replaced by the results of held_back().

    If `held` has no delay levels, the traces decide for them: messages with is_delayed will still be delivered.
    """
    marked = published.drop("is_later").join(held, ["topic", "id"], "left").fillna(False, ["is_ahead", "is_later"])
    is_ahead = F.col("is_ahead") if has_levels else F.col("is_ahead") | F.col("is_delayed")
    return marked.withColumn("is_delayed", is_ahead).drop("is_ahead")


def deliveries_by_message(deliveries: DataFrame) -> DataFrame:
    """Return one row per message that listeners received: id, and `deliveries` with the counts of each group."""
    counts = deliveries.groupBy("id", "consumer_group").agg(
        F.count("*").alias("delivery_count"),
        F.count_if("is_success").alias("success_count"),
        F.count_if(~F.col("is_success")).alias("failed_count"),
        F.min(F.when(F.col("is_success"), F.col("ended_ms"))).alias("consumed_ms"),
        F.min("first").alias("first"),
    )
    one = F.struct("consumer_group", "delivery_count", "success_count", "failed_count", "consumed_ms", "first")
    return counts.groupBy("id").agg(F.collect_list(one).alias("deliveries"))


def audited_messages(stored: DataFrame, published: DataFrame, delivered: DataFrame, span: AuditSpan) -> DataFrame:
    """Return one row per message that was sent or stored, with its window, the window's state, and its `fate`.

    Stored messages have the fate null. A sent message that is not stored is LOST, WAITING (delayed, or too new), FAILED
    (its producer got an error) or UNKNOWN. UNKNOWN: its transaction is undecided, it may have been stored after the
    messages that were read, brokers may have deleted it, or a group received it.
    """
    both = stored.join(published, ["topic", "id"], "full").join(delivered, "id", "left")
    both = both.withColumn("born_ms", F.coalesce("born_ms", "at_ms"))
    both = both.where((F.col("born_ms") >= span.since_ms) & (F.col("born_ms") < span.until_ms))
    both = both.fillna(0, ["stored_count", "published_count", "failed_count"])
    window_start_ms = F.floor(F.col("born_ms") / F.lit(WINDOW_MS)) * WINDOW_MS
    state = (
        F.when(F.col("window_start_ms") < span.held_since_ms, CUT)
        .when(F.col("window_start_ms") + WINDOW_MS > span.settled_ms, OPEN)
        .otherwise(CLOSED)
    )
    fate = (
        F.when(F.col("stored_count") > 0, None)
        .when(F.col("published_count") == 0, FAILED)
        .when(F.col("is_undecided") | F.col("deliveries").isNotNull() | (F.col("state") == CUT), UNKNOWN)
        .when(F.col("is_delayed") | (F.col("state") == OPEN), WAITING)
        .when(F.col("is_later"), UNKNOWN)
        .otherwise(LOST)
    )
    return (
        both.withColumn("window_start_ms", window_start_ms.cast("bigint"))
        .withColumn("state", state)
        .withColumn("fate", fate)
    )


def audited_pairs(messages: DataFrame, groups: DataFrame) -> DataFrame:
    """Return one row per stored message and group, with its `fate` in the group: null when it was consumed.

    `messages` comes from audited_messages(). `groups` has the columns GROUPS: groups that store offsets of a topic, and
    the tags that they subscribe to (empty: all; null: unknown). Other groups are known only by their deliveries.

    FAILED: no delivery has succeeded yet. WAITING: the group's offset is not past it, or it is being consumed.
    FILTERED: the group does not subscribe to its tag. UNTRACED: the group's offset is past it, and only the begin of a
    delivery is traced. NOT_SEEN: the group's offset is past it, and the group writes traces, but has none of it; see
    passed.py. UNKNOWN: the group's filter, offsets or traces are unknown.
    """
    known = groups.groupBy("topic").agg(F.collect_list(F.struct("consumer_group", "tags")).alias("groups"))
    stored = messages.where("stored_count > 0").join(F.broadcast(known), "topic", "left")
    names = [
        F.transform(F.coalesce(column, F.array().cast(kind)), lambda each: each["consumer_group"])
        for column, kind in (
            (F.col("groups"), "array<struct<consumer_group:string,tags:array<string>>>"),
            (F.col("deliveries"), messages.schema["deliveries"].dataType.simpleString()),
        )
    ]
    rows = stored.withColumn("consumer_group", F.explode(F.array_union(*names)))

    def own(column: str) -> Column:
        return F.get(F.filter(column, lambda each: each["consumer_group"] == F.col("consumer_group")), F.lit(0))

    rows = rows.withColumn("group", own("groups")).withColumn("delivery", own("deliveries"))
    is_passed = F.forall("places", lambda place: F.array_contains(place["passed_by"], F.col("consumer_group")))
    tags = F.col("group")["tags"]
    is_unwanted = (F.size(tags) > 0) & ~F.array_contains(tags, F.coalesce("tags", F.lit("")))
    fate = (
        F.when(F.col("delivery")["success_count"] > 0, None)
        .when(F.col("delivery")["failed_count"] > 0, FAILED)
        .when(F.col("delivery").isNotNull() & is_passed & (F.col("state") == CLOSED), UNTRACED)
        .when(F.col("delivery").isNotNull(), WAITING)
        .when(F.col("group").isNull(), UNKNOWN)
        .when(tags.isNotNull() & is_unwanted, FILTERED)
        .when(~is_passed | (F.col("state") == OPEN), WAITING)
        .when(tags.isNull() | (F.col("state") == CUT), UNKNOWN)
        .otherwise(NOT_SEEN)
    )
    rows = rows.select(
        "topic", "id", "consumer_group", "window_start_ms", "state", "born_ms", "places", "is_traceable",
        fate.alias("fate"),
        *(
            F.coalesce(F.col("delivery")[name], F.lit(0)).alias(name)
            for name in ("delivery_count", "success_count", "failed_count")
        ),
        F.col("delivery")["consumed_ms"].alias("consumed_ms"),
        F.col("delivery")["first"].alias("first"),
    )  # fmt: skip
    return _with_traces(rows)


def _with_traces(rows: DataFrame) -> DataFrame:
    """Separate NOT_SEEN from UNKNOWN: a missing trace is evidence only where deliveries are traced."""
    traced = rows.groupBy("topic", "consumer_group").agg((F.sum("delivery_count") > 0).alias("is_traced"))
    # A missing region means a batch only if other messages of the topic have a region: 4.9 never sets it.
    regions = rows.groupBy("topic").agg(F.max("is_traceable").alias("has_regions"))
    rows = rows.join(F.broadcast(traced), ["topic", "consumer_group"]).join(F.broadcast(regions), "topic")
    is_reported = F.col("is_traced") & (F.col("is_traceable") | ~F.col("has_regions"))
    fate = F.when((F.col("fate") == NOT_SEEN) & ~is_reported, UNKNOWN).otherwise(F.col("fate"))
    return rows.withColumn("fate", fate).drop("has_regions", "is_traceable")


def windows(messages: DataFrame, pairs: DataFrame) -> DataFrame:
    """Return one row per window, topic, tier and group, with the columns of the table `audit`.

    `pairs` comes from passed.settled_pairs(). Unknown counts are null: all counts of a tier without traces, and what is
    lost, skipped or untraced in windows that are not CLOSED. A stored message counts as untraced if its producer traced
    others.
    """
    sent = messages.groupBy("topic").agg(
        (F.sum(F.col("published_count") + F.col("failed_count")) > 0).alias("is_reported")
    )
    process, is_sent = process_of(F.col("id")), F.col("published_count") + F.col("failed_count") > 0
    tracing = messages.where(is_sent).select(process.alias("tracing")).distinct()
    producing = messages.join(F.broadcast(sent), "topic").join(
        F.broadcast(tracing), process == F.col("tracing"), "left"
    )
    is_untraced = F.col("tracing").isNotNull() & (F.col("state") == CLOSED)
    is_lost, is_waiting, is_unknown = (F.col("fate") == fate for fate in (LOST, WAITING, UNKNOWN))
    produced = _counted(
        producing, PRODUCED, "topic",
        count="published_count", latency=F.col("cost_ms"), reported="is_reported", lost=None, waiting=None,
        failed=(F.col("published_count") == 0) & (F.col("failed_count") > 0),
        unknown=~is_sent & ~is_untraced, untraced=~is_sent & is_untraced,
    )  # fmt: skip
    stored = _counted(
        messages, STORED, "topic",
        count="stored_count", latency=F.col("store_ms") - F.col("born_ms"), reported=None, failed=None, untraced=None,
        lost=is_lost, waiting=is_waiting, unknown=is_unknown,
    )  # fmt: skip
    consumed = _counted(
        pairs, CONSUMED, "topic", "consumer_group",
        count="success_count", latency=F.col("consumed_ms") - F.col("born_ms"), reported="is_traced",
        lost=is_lost, waiting=is_waiting, unknown=is_unknown, failed=F.col("fate") == FAILED,
        untraced=F.col("fate") == UNTRACED,
    )  # fmt: skip
    return produced.unionByName(stored).unionByName(consumed)


def _counted(
    rows: DataFrame, tier: str, *keys: str, count: str, latency: Column, reported: str | None, lost: Column | None,
    waiting: Column | None, failed: Column | None, unknown: Column, untraced: Column | None,
) -> DataFrame:  # fmt: skip
    """Count by window. Counts are null unless the column for tracing is true; without one, they are always known."""
    nothing = F.lit(None).cast("bigint")
    is_consumed = tier == CONSUMED
    is_reported = F.lit(True) if reported is None else F.max(reported)

    def closed(rows: Column | None) -> Column:
        return nothing if rows is None else F.when(F.col("state") == CLOSED, F.count_if(rows))

    counted = rows.groupBy("window_start_ms", "state", *keys).agg(
        F.when(is_reported, F.sum(count)).alias("count"),
        F.when(is_reported, F.count_if(F.col(count) > 0)).alias("distinct_uniq_key"),
        closed(lost).alias("lost_count"),
        closed(F.col("fate") == SKIPPED if is_consumed else None).alias("skipped_count"),
        closed(untraced).alias("untraced_count"),
        (nothing if waiting is None else F.count_if(waiting)).alias("waiting_count"),
        (nothing if failed is None else F.count_if(failed)).alias("failed_count"),
        (F.count_if(F.col("fate") == FILTERED) if is_consumed else nothing).alias("filtered_count"),
        F.count_if(unknown).alias("unknown_count"),
        F.percentile_approx(latency, [0.5, 0.99], _ACCURACY).alias("latency"),
    )
    return counted.select(
        F.timestamp_millis("window_start_ms").alias("window_start"),
        (F.col("consumer_group") if is_consumed else F.lit(None).cast("string")).alias("consumer_group"),
        F.lit(tier).alias("tier"),
        "state",
        "count",
        "distinct_uniq_key",
        (F.col("count") - F.col("distinct_uniq_key")).alias("duplicate_count"),
        "lost_count",
        "skipped_count",
        "untraced_count",
        "waiting_count",
        "failed_count",
        "filtered_count",
        "unknown_count",
        F.get("latency", F.lit(0)).alias("p50_latency_ms"),
        F.get("latency", F.lit(1)).alias("p99_latency_ms"),
        day_column(F.col("window_start_ms")),
        "topic",
    )


def samples(messages: DataFrame, pairs: DataFrame, count: int) -> DataFrame:
    """Return the first messages with each problem: kind, topic, consumer_group, id, born_ms, times, places."""
    stored = (
        F.when(F.col("stored_count") > 1, "STORED_TWICE").when(F.col("fate") == LOST, "NOT_STORED"),
        F.lit(None).cast("string"),
        F.when(F.col("stored_count") > 1, F.col("stored_count")).otherwise(F.col("published_count")),
    )
    consumed = (
        F.when(F.col("success_count") > 1, "CONSUMED_TWICE")
        .when(F.col("fate") == LOST, "NOT_CONSUMED")
        .when(F.col("fate") == SKIPPED, "SKIPPED")
        .when(F.col("fate") == UNTRACED, "PASSED_UNTRACED"),
        F.col("consumer_group"),
        F.when(F.col("success_count") > 1, F.col("success_count")).otherwise(F.col("delivery_count")),
    )
    places = F.transform(
        F.slice("places", 1, count),
        lambda place: F.struct(place["broker_name"], place["queue_id"], place["queue_offset"]),
    )
    every = [
        rows.select(
            kind.alias("kind"), "topic", group.alias("consumer_group"), "id", "born_ms", times.alias("times"),
            places.alias("places"),
        ).where("kind is not null")
        for rows, (kind, group, times) in ((messages, stored), (pairs, consumed))
    ]  # fmt: skip
    order = Window.partitionBy("kind").orderBy("born_ms", "id", "consumer_group")
    numbered = every[0].unionByName(every[1]).withColumn("number", F.row_number().over(order))
    return numbered.where(F.col("number") <= count).orderBy("kind", "number").drop("number")
