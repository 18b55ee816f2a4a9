"""format("rocketmq") as a sink: what brokers hold of the rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.spark.conftest import Read
from tests.spark.smoke.smoke_data import PATIENT, create_topic, put, read_all


def test_rows_are_messages(spark: SparkSession, sandbox: ThreadedSandbox, read: Read) -> None:
    for topic in ("SmokeOut1", "SmokeOut2"):
        create_topic(sandbox, topic)
    rows = spark.range(12).select(
        F.when(F.col("id") % 3 == 0, "SmokeOut2").otherwise("SmokeOut1").alias("topic"),
        F.concat(F.lit("grüße"), F.col("id")).alias("body"),
        F.concat_ws(" ", F.lit("all"), F.concat(F.lit("k"), F.col("id"))).alias("keys"),
        F.when(F.col("id") < 6, "Low").alias("tags"),
        F.expr("map('number', string(id), 'CLUSTER', 'another') as properties"),
    )  # fmt: skip
    sink = rows.repartition(2).write.format("rocketmq").option("nameServers", sandbox.addr).options(**PATIENT)
    sink.mode("append").save()
    for topic, numbers in (("SmokeOut1", [1, 2, 4, 5, 7, 8, 10, 11]), ("SmokeOut2", [0, 3, 6, 9])):
        wanted = Counter((f"grüße{n}", f"all k{n}", "Low" if n < 6 else None, str(n)) for n in numbers)
        held = read_all(sandbox, topic)
        assert wanted == Counter(
            (each.body.decode(), each.properties["KEYS"], each.properties.get("TAGS"), each.properties["number"])
            for each in held
        )
        # What a broker notes on a message is not taken over from the rows.
        assert {each.properties.get("CLUSTER") for each in held} <= {"DefaultCluster", None}
        assert wanted == Counter(
            (row.body.decode(), row["keys"], row.tags, row.properties["number"]) for row in read(topic).collect()
        )


def test_a_stream_is_written_once(spark: SparkSession, sandbox: ThreadedSandbox, tmp_path: Path) -> None:
    for topic in ("SmokeFrom", "SmokeInto"):
        create_topic(sandbox, topic)
    sent: list[str] = []
    for number in range(2):
        for place in ("broker-a:0", "broker-b:1"):
            bodies = [f"{number}-{place}-{index}" for index in range(3)]
            put(sandbox, "SmokeFrom", place, bodies, TAGS="T", KEYS="k")
            sent += bodies
        source = spark.readStream.format("rocketmq").option("nameServers", sandbox.addr).options(**PATIENT)
        rows = source.option("topic", "SmokeFrom").load().select("body", "keys", "tags", "properties")
        writer = rows.writeStream.format("rocketmq").option("nameServers", sandbox.addr).options(**PATIENT)
        writer = writer.option("topic", "SmokeInto").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        assert Counter(
            (each.body.decode(), each.properties["TAGS"], each.properties["KEYS"])
            for each in read_all(sandbox, "SmokeInto")
        ) == Counter((body, "T", "k") for body in sent)


def test_what_can_not_be_sent_is_said(spark: SparkSession, sandbox: ThreadedSandbox) -> None:
    create_topic(sandbox, "SmokeRefused")
    for columns, topic, sentence in (
        ("'x' as body, 'k' as key", "SmokeRefused", "Unknown column 'key'"),
        ("'' as body", "SmokeRefused", "a row without a body"),
        ("'x' as body", "SmokeRefusd", "Topic SmokeRefusd does not exist"),
    ):
        sink = spark.sql(f"select {columns}").write.format("rocketmq").option("nameServers", sandbox.addr)
        with pytest.raises(PySparkException, match=sentence):
            sink.option("topic", topic).options(**PATIENT).mode("append").save()
    assert read_all(sandbox, "SmokeRefused") == []
