"""Dead letters as rows: where they came from, and what their properties tell of why they are there."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- as everybody calls it

from rmqctl.model.names import DLQ_PREFIX
from rmqctl.rules.dead_letters import GivenUp

from .hours import HOUR_MS, partition_columns

# Columns of format("rocketmq") that are read for it.
MESSAGES = (
    "topic string, broker_name string, queue_id int, queue_offset bigint, msg_id string, uniq_key string, keys string,"
    " tags string, body binary, properties map<string,string>, born_ts timestamp, store_ts timestamp,"
    " reconsume_times int"
)
_EXCERPT_BYTES = 200


def dead_letters(messages: DataFrame) -> DataFrame:
    """Return a row a dead letter, with the columns of the table `dead_letters` and an excerpt of its body.

    `messages` have the columns MESSAGES. Where it was sent first is in RETRY_TOPIC, which brokers keep over retries,
    else in DLQ_ORIGIN_TOPIC. `origin_msg_id` is what a consumer called it that sent it back for the first time: the
    broker's id, of orderly consumers the UNIQ_KEY.
    """

    def told(name: str) -> Column:
        return F.col("properties")[name]

    limit = told("MAX_RECONSUME_TIMES").try_cast("int")
    reason = (
        F.when(limit.isNotNull() & (F.col("reconsume_times") >= limit), GivenUp.MAX_RECONSUME_TIMES.value)
        .when(F.col("reconsume_times") > 1, GivenUp.AFTER_RETRIES.value)
        .when(F.col("reconsume_times") == 1, GivenUp.FIRST_FAILURE.value)
        .when(told("RETRY_TOPIC").isNull() & told("DLQ_ORIGIN_TOPIC").isNull(), GivenUp.SENT_THERE.value)
    )
    return messages.select(
        "store_ts",
        "born_ts",
        F.coalesce(told("RETRY_TOPIC"), told("DLQ_ORIGIN_TOPIC")).alias("origin_topic"),
        "tags",
        "keys",
        "uniq_key",
        F.coalesce(told("DLQ_ORIGIN_MESSAGE_ID"), told("ORIGIN_MESSAGE_ID")).alias("origin_msg_id"),
        reason.alias("reason"),
        "reconsume_times",
        limit.alias("max_reconsume_times"),
        "topic",
        "broker_name",
        "queue_id",
        "queue_offset",
        "msg_id",
        F.length("body").alias("body_size_bytes"),
        *partition_columns(F.unix_millis("store_ts")),
        F.substr("topic", F.lit(len(DLQ_PREFIX) + 1)).alias("consumer_group"),
        F.substr("body", F.lit(1), F.lit(_EXCERPT_BYTES)).alias("excerpt"),
        F.unix_millis("store_ts").alias("store_ms"),
    )


def origin(letters: DataFrame) -> DataFrame:
    """Add `origin`: what is the same in two dead letters of one message and group."""
    return letters.withColumn("origin", F.coalesce("origin_msg_id", "uniq_key", "msg_id"))


def by_kind(letters: DataFrame) -> DataFrame:
    """Return a row a group, origin topic, tag and reason: counts, times, and the newest.

    `message_count` is of how many messages they are. The most come first.
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
    """Return how many were stored in each hour: hour_ms, consumer_group, count."""
    hour_ms = (F.floor(F.col("store_ms") / F.lit(HOUR_MS)) * HOUR_MS).cast("bigint")
    return letters.groupBy(hour_ms.alias("hour_ms"), "consumer_group").agg(F.count("*").alias("count"))


def twice(letters: DataFrame) -> DataFrame:
    """Return messages that one group has several dead letters of: consumer_group, origin, count, places."""
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
