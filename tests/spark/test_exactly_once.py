"""A million messages over eight queues on two brokers: every one exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rmqctl.pipeline.source.options import TopicChoice
from rmqctl.pipeline.source.retained_queues import fetch_retained_queues
from tests.real.harness.cluster import Cluster
from tests.real.harness.conditions import wait_until

from .by_hand import ask
from .conftest import Read

_EACH_COUNT, _QUEUE_COUNT = 125_000, 4


@pytest.fixture(scope="module")
def million(cluster: Cluster) -> Iterator[str]:
    """Send them by Java's producer, in batches; each body is unique in its queue."""
    topic = "Million"
    cluster.create_topic(topic, queue_count=_QUEUE_COUNT)
    for broker in cluster.brokers:
        for number in range(_QUEUE_COUNT):
            cluster.java.produce(
                topic, _EACH_COUNT, queue=f"{broker}:{number}", batch=500, prefix=f"{broker}-{number}-"
            )
    # Brokers answer producers before they have put the last messages into their queues.
    wait_until(lambda: _ends(cluster, topic) == {_EACH_COUNT})
    return topic


def _ends(cluster: Cluster, topic: str) -> set[int]:
    found = ask(cluster, lambda client: fetch_retained_queues(client, TopicChoice((topic,))))
    return {span.max_offset for span in found.spans.values()}


@pytest.mark.parametrize("cluster", ["5.4.0"], indirect=True)
def test_a_million_messages_are_in_parquet_exactly_once(
    spark: SparkSession, million: str, read: Read, tmp_path: Path
) -> None:
    read(million, schema="broker_name string, queue_id int, queue_offset bigint, body binary").write.parquet(
        str(tmp_path / "table")
    )
    table = spark.read.parquet(str(tmp_path / "table"))
    assert table.count() == 1_000_000
    wanted = F.concat_ws("-", "broker_name", "queue_id", "queue_offset")
    # Java numbers the bodies as brokers number the offsets of a queue that only it writes to.
    assert table.where(F.col("body").cast("string") != wanted).count() == 0
    places = table.groupBy("broker_name", "queue_id").agg(
        F.countDistinct("queue_offset").alias("count"),
        F.min("queue_offset").alias("first"),
        F.max("queue_offset").alias("last"),
    )
    assert {tuple(row) for row in places.collect()} == {
        (f"broker-{name}", number, _EACH_COUNT, 0, _EACH_COUNT - 1) for name in "ab" for number in range(_QUEUE_COUNT)
    }
