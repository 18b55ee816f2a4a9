"""format("rocketmq") as a sink: what Java reads of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.real.harness.cluster import Cluster

from .conftest import Read


def test_rows_are_messages_for_java(spark: SparkSession, cluster: Cluster) -> None:
    for topic in ("Out1", "Out2"):
        cluster.create_topic(topic, queue_count=2)
    rows = spark.range(60).select(
        F.when(F.col("id") % 3 == 0, "Out2").otherwise("Out1").alias("topic"),
        F.concat(F.lit("grüße"), F.col("id")).alias("body"),
        F.concat_ws(" ", F.lit("all"), F.concat(F.lit("k"), F.col("id"))).alias("keys"),
        F.when(F.col("id") < 30, "Low").alias("tags"),
        F.expr("map('number', string(id), 'CLUSTER', 'another') as properties"),
    )  # fmt: skip
    rows.repartition(3).write.format("rocketmq").option("nameServers", cluster.namesrv).mode("append").save()
    cluster.java.consume("out", "OutGroup", "Out1", also="Out2", collect=1)
    cluster.java.wait_consumed("out", 60)
    bodies, found = Counter(cluster.java.bodies("out")), cluster.java.read("out")
    cluster.java.stop("out")

    assert bodies == Counter(f"grüße{number}" for number in range(60))
    numbers = Counter((each.topic, each.tags, each.keys, each.properties["number"]) for each in found)
    assert numbers == Counter(
        ("Out2" if number % 3 == 0 else "Out1", "Low" if number < 30 else "null", f"all k{number}", str(number))
        for number in range(60)
    )
    # What a broker notes on a message is not taken over from the rows.
    assert {each.properties.get("CLUSTER") for each in found} <= {"DefaultCluster", None}


def test_what_was_read_can_be_written_again(cluster: Cluster, read: Read, spark: SparkSession) -> None:
    for topic in ("From", "Into"):
        cluster.create_topic(topic, queue_count=1)
    cluster.java.produce("From", 20, tag="A", keys="k", number="amount")
    rows = read("From").select("broker_name", "queue_id", "body", "keys", "tags", "properties")
    sink = rows.write.format("rocketmq").option("nameServers", cluster.namesrv)
    sink.option("topic", "Into").mode("append").save()

    def told(topic: str) -> Counter[tuple[object, ...]]:
        rows = read(topic).withColumn("amount", F.col("properties")["amount"]).collect()
        return Counter((*row[1:4], bytes(row.body), row["keys"], row.tags, row.amount) for row in rows)

    assert told("Into") == told("From")


def test_sharding_keys_go_where_java_sends_them(cluster: Cluster, read: Read) -> None:
    for topic in ("ShardsOfJava", "Shards"):
        cluster.create_topic(topic, queue_count=3)
    cluster.java.produce("ShardsOfJava", 120, shards=12)
    rows = read("ShardsOfJava").select("body", F.col("properties")["__SHARDINGKEY"].alias("sharding_key"))
    sink = rows.write.format("rocketmq").option("nameServers", cluster.namesrv)
    sink.option("topic", "Shards").mode("append").save()

    def places(topic: str) -> set[tuple[object, ...]]:
        columns = ("broker_name", "queue_id", "properties['__SHARDINGKEY'] as sharding_key", "string(body) as body")
        return {tuple(row) for row in read(topic).selectExpr(*columns).collect()}

    assert places("Shards") == places("ShardsOfJava")
    assert len({each[2] for each in places("Shards")}) == 12


def test_delays_are_kept(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("Delayed", queue_count=1)
    cluster.java.consume("delayed", "DelayedGroup", "Delayed", collect=1)
    columns = [
        "case when id % 2 = 0 then 'now' else 'level' end as body",
        "int(case when id % 2 = 1 then 2 end) as delay_level",
    ]
    timed = cluster.version != "4.9.7"
    if timed:
        columns.append("case when id = 0 then 4000L end as delay_ms")
    sink = spark.range(10).selectExpr(*columns).write.format("rocketmq").option("nameServers", cluster.namesrv)
    sink.option("topic", "Delayed").mode("append").save()
    cluster.java.wait_consumed("delayed", 10)
    late = Counter((each.body, each.age_ms >= 4_000) for each in cluster.java.attempts("delayed"))
    cluster.java.stop("delayed")
    assert late[("level", True)] == 5
    assert late[("now", True)] >= timed
    if not timed:
        rows = spark.sql("select 'x' as body, 5L as delay_ms").write.format("rocketmq")
        with pytest.raises(PySparkException, match="supports only delay levels"):
            rows.option("nameServers", cluster.namesrv).option("topic", "Delayed").mode("append").save()


def test_a_stream_is_written(spark: SparkSession, cluster: Cluster, read: Read, tmp_path: Path) -> None:
    for topic in ("StreamFrom", "StreamInto"):
        cluster.create_topic(topic, queue_count=1)
    for number in range(2):
        cluster.java.produce("StreamFrom", 10, prefix=f"{number}-")
        source = (
            spark.readStream.format("rocketmq").option("nameServers", cluster.namesrv).option("topic", "StreamFrom")
        )
        rows = source.load().select("body")
        writer = rows.writeStream.format("rocketmq").option("nameServers", cluster.namesrv)
        writer = writer.option("topic", "StreamInto").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        bodies = Counter(row.body.decode() for row in read("StreamInto").collect())
        assert bodies == Counter(f"{at}-{index}" for at in range(number + 1) for index in range(10))


def test_what_can_not_be_sent_is_said(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("Refused", queue_count=1)

    def write(columns: str, *, topic: str | None = "Refused", mode: str = "append") -> None:
        sink = spark.sql(f"select {columns}").write.format("rocketmq").option("nameServers", cluster.namesrv)
        (sink if topic is None else sink.option("topic", topic)).mode(mode).save()

    for columns, sentence in (
        ("'x' as key", "no column body"),
        ("1 as body", "The column body must be binary or string, not int."),
        ("'x' as body, 'k' as key", "Unknown column 'key'."),
        ("'' as body", "a row without a body"),
        ("'x' as body, map('a', 'b\\u0001c') as properties", "Cannot send |The message cannot be sent: "),
    ):
        with pytest.raises(PySparkException, match=sentence):
            write(columns)
    with pytest.raises(PySparkException, match="topic of the rows is unknown"):
        write("'x' as body", topic=None)
    with pytest.raises(PySparkException, match="Topic Refusd does not exist"):
        write("'x' as body", topic="Refusd")
    with pytest.raises(PySparkException, match="Overwriting a topic"):
        write("'x' as body", mode="overwrite")
