"""Dead letters as rows: their origin, and the reason that their properties give."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

from rmqctl.model.names import DLQ_PREFIX
from rmqctl.pipeline.tables.frames import day_column
from rmqctl.pipeline.tables.hours import HOUR_MS
from rmqctl.rules.dead_letters import DeadLetterReason

# The columns of format("rocketmq") that are read for dead letters.
MESSAGES = (
    "topic string, broker_name string, queue_id int, queue_offset bigint, msg_id string, uniq_key string, keys string,"
    " tags string, body binary, properties map<string,string>, born_ts timestamp, store_ts timestamp,"
    " reconsume_times int"
)
_EXCERPT_BYTES = 200


def dead_letters(messages: DataFrame) -> DataFrame:
    """Return one row per dead letter, with the columns of the table `dead_letters` and an excerpt of its body.

    `messages` has the columns MESSAGES. The topic that it was first sent to is in RETRY_TOPIC, which brokers keep
    across retries, else in DLQ_ORIGIN_TOPIC. `origin_msg_id` is the id with which a consumer first sent it back: the
    broker's id, or the UNIQ_KEY for orderly consumers.
    """

    def stated(name: str) -> Column:
        return F.col("properties")[name]

    limit = stated("MAX_RECONSUME_TIMES").try_cast("int")
    reason = (
        F.when(limit.isNotNull() & (F.col("reconsume_times") >= limit), DeadLetterReason.MAX_RECONSUME_TIMES.value)
        .when(F.col("reconsume_times") > 1, DeadLetterReason.AFTER_RETRIES.value)
        .when(F.col("reconsume_times") == 1, DeadLetterReason.FIRST_FAILURE.value)
        .when(stated("RETRY_TOPIC").isNull() & stated("DLQ_ORIGIN_TOPIC").isNull(), DeadLetterReason.SENT_THERE.value)
    )
    return messages.select(
        "store_ts",
        "born_ts",
        F.coalesce(stated("RETRY_TOPIC"), stated("DLQ_ORIGIN_TOPIC")).alias("origin_topic"),
        "tags",
        "keys",
        "uniq_key",
        F.coalesce(stated("DLQ_ORIGIN_MESSAGE_ID"), stated("ORIGIN_MESSAGE_ID")).alias("origin_msg_id"),
        reason.alias("reason"),
        "reconsume_times",
        limit.alias("max_reconsume_times"),
        "topic",
        "broker_name",
        "queue_id",
        "queue_offset",
        "msg_id",
        F.length("body").alias("body_size_bytes"),
        day_column(F.unix_millis("store_ts")),
        F.substr("topic", F.lit(len(DLQ_PREFIX) + 1)).alias("consumer_group"),
        F.substr("body", F.lit(1), F.lit(_EXCERPT_BYTES)).alias("excerpt"),
        F.unix_millis("store_ts").alias("store_ms"),
    )


def origin(letters: DataFrame) -> DataFrame:
    """Add `origin`, which is equal in all dead letters of one message and group."""
    return letters.withColumn("origin", F.coalesce("origin_msg_id", "uniq_key", "msg_id"))


def by_kind(letters: DataFrame) -> DataFrame:
    """Return one row per group, origin topic, tag and reason: counts, times, and the newest dead letter.

    `message_count` is the number of distinct messages. The highest counts are first.
    """
    newest = F.struct("store_ms", "broker_name", "queue_id", "queue_offset", "keys", "uniq_key", "msg_id", "excerpt")
    counted = (
        origin(letters)
        .groupBy("consumer_group", "origin_topic", "tags", "reason")
        .agg(
            F.count("*").alias("count"),
            F.countDistinct("origin").alias("message_count"),
            F.min("reconsume_times").alias("least_reconsume_times"),
            F.max("reconsume_times").alias("most_reconsume_times"),
            F.max("max_reconsume_times").alias("max_reconsume_times"),
            F.min("store_ms").alias("first_ms"),
            F.max("store_ms").alias("last_ms"),
            F.max(newest).alias("newest"),
        )
    )
    return counted.orderBy(F.col("count").desc(), "consumer_group", "origin_topic", "tags", "reason")


def by_hour(letters: DataFrame) -> DataFrame:
    """Return how many dead letters were stored in each hour: hour_ms, consumer_group, count."""
    hour_ms = (F.floor(F.col("store_ms") / F.lit(HOUR_MS)) * HOUR_MS).cast("bigint")
    return letters.groupBy(hour_ms.alias("hour_ms"), "consumer_group").agg(F.count("*").alias("count"))


def twice(letters: DataFrame) -> DataFrame:
    """Return messages with several dead letters in one group: consumer_group, origin, count, places."""
    place = F.struct("store_ms", "broker_name", "queue_id", "queue_offset")
    counted = (
        origin(letters)
        .groupBy("consumer_group", "origin")
        .agg(
            F.count("*").alias("count"),
            F.max("uniq_key").alias("uniq_key"),
            F.max("origin_topic").alias("origin_topic"),
            F.array_sort(F.collect_list(place)).alias("places"),
        )
    )
    return counted.where("count > 1")
