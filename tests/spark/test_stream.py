"""format("rocketmq"), streaming: restarts, limits, queues that come, messages that are gone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.progress import OffsetsBehindListener
from tests.real.harness.cluster import Cluster
from tests.real.harness.conditions import wait_until
from tests.real.harness.mqadmin import consumer_progress

from .streams import Stream


@pytest.fixture
def stream(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> Callable[[str], Stream]:
    return lambda topic: Stream(spark, cluster.namesrv, topic, tmp_path / topic)


def _sent(prefix: str, count: int) -> Counter[str]:
    return Counter(f"{prefix}{number}" for number in range(count))


def test_each_run_goes_on_where_the_last_one_ended_also_in_queues_that_came(
    cluster: Cluster, stream: Callable[[str], Stream]
) -> None:
    cluster.create_topic("Grown", queue_count=1)
    cluster.java.produce("Grown", 50, prefix="first")
    grown = stream("Grown")
    grown.run()
    assert grown.bodies() == _sent("first", 50)
    grown.run()
    assert sum(grown.batches) == 0

    for address in cluster.addresses.values():
        cluster.java.mqadmin("updateTopic", "-b", address, "-t", "Grown", "-r", "3", "-w", "3")
    for broker in cluster.brokers:
        cluster.java.produce("Grown", 10, prefix=f"new-{broker}-", queue=f"{broker}:2")
    grown.run()
    assert grown.bodies() == _sent("first", 50) + sum(
        (_sent(f"new-{broker}-", 10) for broker in cluster.brokers), Counter()
    )


def test_a_limit_is_kept_and_all_is_read(cluster: Cluster, stream: Callable[[str], Stream]) -> None:
    cluster.create_topic("Limited", queue_count=2)
    cluster.java.produce("Limited", 100)
    limited = stream("Limited")
    limited.run(maxOffsetsPerTrigger=30)
    assert [count for count in limited.batches if count] == [30, 30, 30, 10]
    assert limited.bodies() == _sent("m", 100)


def test_a_batch_that_failed_in_the_middle_comes_again_as_it_was(
    cluster: Cluster, stream: Callable[[str], Stream], tmp_path: Path
) -> None:
    cluster.create_topic("Crashed", queue_count=2)
    cluster.java.produce("Crashed", 90)
    seen: list[tuple[int, Counter[str]]] = []

    def crash_at_first(frame: DataFrame, number: int) -> None:
        seen.append((number, Counter(row.body.decode() for row in frame.collect())))
        if len(seen) == 2:
            raise RuntimeError("the power went out")

    crashed = stream("Crashed")
    with pytest.raises(PySparkException, match="the power went out"):
        crashed.run(crash_at_first, maxOffsetsPerTrigger=30)
    cluster.java.produce("Crashed", 10, prefix="meanwhile")
    crashed.run(crash_at_first, maxOffsetsPerTrigger=30)

    # Spark numbers the same batch alike, which is how a sink knows it again.
    assert seen[1] == seen[2]
    assert sum((bodies for _, bodies in seen[:1] + seen[2:]), Counter()) == _sent("m", 90) + _sent("meanwhile", 10)
    assert [number for number, _ in seen] == [0, 1, 1, 2, 3]


def test_a_checkpoint_says_where_each_queue_is(
    cluster: Cluster, stream: Callable[[str], Stream], tmp_path: Path
) -> None:
    cluster.create_topic("Noted", queue_count=1)
    cluster.java.produce("Noted", 7, queue="broker-a:0")
    stream("Noted").run()
    (noted,) = (tmp_path / "Noted" / "checkpoint" / "offsets").glob("0")
    assert json.loads(noted.read_text().splitlines()[-1]) == {"Noted": {"broker-a:0": 7, "broker-b:0": 0}}


def test_messages_that_are_gone_are_told(cluster: Cluster, stream: Callable[[str], Stream], tmp_path: Path) -> None:
    """A topic that is deleted and made anew begins at 0 again: what stood there is gone."""
    cluster.create_topic("Anew", queue_count=1)
    cluster.java.produce("Anew", 30, queue="broker-a:0")
    anew = stream("Anew")
    anew.run()
    cluster.java.mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", "Anew")
    cluster.create_topic("Anew", queue_count=1)
    cluster.java.produce("Anew", 5, prefix="anew", queue="broker-a:0")
    with pytest.raises(PySparkException, match=r"Anew@broker-a:0 5 to 29 \(the queue was recreated"):
        anew.run()
    anew.run(failOnDataLoss=False)
    assert anew.bodies() == _sent("m", 30) + _sent("anew", 5)


def test_lag_tools_see_the_progress_of_a_stream(cluster: Cluster, stream: Callable[[str], Stream]) -> None:
    cluster.create_topic("SeenStream", queue_count=2)
    cluster.java.produce("SeenStream", 40)
    with pytest.raises(PySparkException, match="Group SeenBySpark"):
        stream("SeenStream").run(commitGroup="SeenBySpark")
    cluster.java.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", "SeenBySpark")
    stream("SeenStream").run(commitGroup="SeenBySpark", maxOffsetsPerTrigger=15)
    cluster.java.produce("SeenStream", 8)
    if cluster.version != "4.9.7":  # whose mqadmin finds a group only by its retry topic
        rows = consumer_progress(cluster.java.mqadmin("consumerProgress", "-g", "SeenBySpark", "-t", "SeenStream"))
        assert [(each.consumer_offset, each.broker_offset) for each in rows] == [(10, 12)] * 4

    # A member begins where the stream is, and is not disturbed by it.
    cluster.java.consume("seen", "SeenBySpark", "SeenStream", collect=1)
    cluster.java.wait_consumed("seen", 8)
    with pytest.raises(PySparkException, match="Group SeenBySpark has members"):
        stream("SeenStream").run(commitGroup="SeenBySpark")
    assert len(cluster.java.bodies("seen")) == 8
    cluster.java.stop("seen")


def test_a_pattern_takes_new_topics_and_absent_brokers_are_unknown(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """A killed broker's queues have no known end; they are read when it is back."""
    cluster.create_topic("Like-1", queue_count=1)
    cluster.java.produce("Like-1", 20)
    seen: list[Mapping[MessageQueue, int | None]] = []
    listener = OffsetsBehindListener(spark, lambda _, behind: seen.append(behind))
    spark.streams.addListener(listener)
    reader = spark.readStream.format("rocketmq").option("nameServers", cluster.namesrv)
    frame = reader.options(subscribePattern="Like-.*", minOffsetsPerTrigger=10, maxTriggerDelay="1d").load()
    table = str(tmp_path / "table")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(processingTime="1 second").start(table)

    def bodies() -> Counter[str]:
        return Counter(row.body.decode() for row in spark.read.parquet(table).collect())

    def behind(count: int | None, *, broker_name: str) -> bool:
        return bool(seen) and all(each == count for mq, each in seen[-1].items() if mq.broker_name == broker_name)

    try:
        wait_until(lambda: bool(query.recentProgress) and bodies() == _sent("m", 20))
        cluster.create_topic("Like-2", queue_count=1)
        cluster.java.produce("Like-2", 10, prefix="new", queue="broker-a:0")
        wait_until(lambda: bodies() == _sent("m", 20) + _sent("new", 10))
        cluster.java.produce("Like-1", 9, prefix="few", queue="broker-b:0")
        wait_until(lambda: bool(seen) and sum(each or 0 for each in seen[-1].values()) == 9)
        cluster.brokers["broker-b"].kill()
        wait_until(lambda: behind(None, broker_name="broker-b") and behind(0, broker_name="broker-a"))
        cluster.brokers["broker-b"].start()
        cluster.wait()
        cluster.java.produce("Like-2", 1, prefix="last", queue="broker-a:0")
        wait_until(lambda: bodies() == _sent("m", 20) + _sent("new", 10) + _sent("few", 9) + _sent("last", 1))
    finally:
        query.stop()
        spark.streams.removeListener(listener)


def test_a_stream_has_no_end(spark: SparkSession, cluster: Cluster) -> None:
    reader = spark.readStream.format("rocketmq").option("nameServers", cluster.namesrv).option("topic", "Any")
    with pytest.raises(PySparkException, match="endingOffsets is not supported for a stream"):
        reader.option("endingOffsets", "1h").load().writeStream.format("noop").start().processAllAvailable()
