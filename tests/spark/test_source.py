"""format("rocketmq"), batch: real RocketMQ, messages sent and consumed by Java."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row
from pyspark.sql import functions as F

from tests.real.harness.cluster import Cluster

from .conftest import Read


def test_a_message_is_as_java_sees_it(cluster: Cluster, read: Read) -> None:
    cluster.create_topic("Seen", queue_count=2)
    before_ms = time.time_ns() // 1_000_000
    cluster.java.produce("Seen", 20, tag="TagA", keys="k", number="amount", prefix="grüße")
    cluster.java.produce("Seen", 20, size=6000, batch=5)
    cluster.java.consume("seen", "SeenGroup", "Seen", collect=1)
    cluster.java.wait_consumed("seen", 40)
    theirs = cluster.java.read("seen")
    attempts = cluster.java.attempts("seen")
    cluster.java.stop("seen")
    rows = read("Seen").collect()

    assert Counter((row.uniq_key, row.topic, row.tags or "null", row.keys or "null") for row in rows) == Counter(
        (each.message_id, each.topic, each.tags, each.keys) for each in theirs
    )
    ours = {row.uniq_key: row for row in rows}
    for each in theirs:
        # Clients add properties of their own when they read.
        assert ours[each.message_id].properties.items() <= each.properties.items()
    places = {each.body: each.queue for each in attempts if len(each.body) < 100}
    assert {row.body.decode(): f"{row.broker_name}:{row.queue_id}" for row in rows if len(row.body) < 100} == places
    # Bodies over 4 KiB are compressed by the producer.
    assert {len(row.body) for row in rows if row.sys_flag & 1} <= {6000}
    assert Counter(len(row.body) for row in rows)[6000] == 20
    now_ms = time.time_ns() // 1_000_000
    for row in rows:
        assert before_ms - 1000 <= row.born_ts.timestamp() * 1000 <= now_ms
        assert before_ms - 1000 <= row.store_ts.timestamp() * 1000 <= now_ms
        assert row.store_host == cluster.addresses[row.broker_name]
        assert row.born_host.startswith("127.0.0.1:")
        assert row.reconsume_times == 0
    one = rows[0]
    printed = cluster.java.mqadmin(
        "queryMsgByOffset", "-t", "Seen", "-b", one.broker_name, "-i", str(one.queue_id), "-o", str(one.queue_offset)
    )
    assert one.msg_id in printed
    assert str(one.commit_log_offset) in printed


def test_columns_can_be_chosen_and_nothing_else(read: Read, cluster: Cluster) -> None:
    cluster.create_topic("Chosen", queue_count=1)
    cluster.java.produce("Chosen", 10, tag="A")
    frame = read("Chosen", schema="tags string, queue_offset bigint")
    assert frame.columns == ["tags", "queue_offset"]
    assert set(frame.collect()) == {Row(tags="A", queue_offset=at) for at in range(5)}
    for schema, sentence in (
        ("tag string", "Unknown column 'tag'.\nDid you mean tags?"),
        ("queue_id bigint", "The column queue_id is int, not bigint."),
    ):
        with pytest.raises(PySparkException, match=sentence):
            read("Chosen", schema=schema).collect()


def test_filters_give_what_brokers_give_to_java(cluster: Cluster, read: Read) -> None:
    cluster.create_topic("Filtered", queue_count=2)
    for tag in ("Aa", "BB", "C"):  # the first two have one hash
        cluster.java.produce("Filtered", 40, tag=tag, prefix=tag, number="amount")
    for name, options in (("tags", {"expr": "Aa||C"}), ("sql", {"sql": "amount >= 30"})):
        cluster.java.consume(name, f"Filter-{name}", "Filtered", collect=1, **options)
    cluster.java.wait_consumed("tags", 80)
    cluster.java.wait_consumed("sql", 30)
    by_tag, by_sql = (Counter(cluster.java.bodies(name)) for name in ("tags", "sql"))
    for name in ("tags", "sql"):
        cluster.java.stop(name)

    def bodies(**options: str) -> Counter[str]:
        return Counter(row.body.decode() for row in read("Filtered", schema="body binary", **options).collect())

    assert bodies(tags="Aa || C") == by_tag
    assert bodies(sql="amount >= 30") == by_sql
    with pytest.raises(PySparkException, match="Invalid sql expression 'amount >='"):
        bodies(sql="amount >=")


def test_places_to_begin_and_to_end(cluster: Cluster, read: Read) -> None:
    cluster.create_topic("Placed", queue_count=1)
    for number in range(2):
        for broker in cluster.brokers:
            cluster.java.produce("Placed", 20, prefix=f"{number}-", queue=f"{broker}:0")
        if number == 0:
            cluster.java.consume("placed", "PlacedGroup", "Placed")
            cluster.java.wait_consumed("placed", 40)
            cluster.java.stop("placed")
            time.sleep(0.01)
            between_ms = time.time_ns() // 1_000_000
            time.sleep(0.01)

    def found(**options: object) -> Counter[str]:
        given = {name: str(value) for name, value in options.items()}
        rows = read("Placed", schema="broker_name string, body binary", **given).collect()
        return Counter(f"{row.broker_name[-1]}{row.body.decode().partition('-')[0]}" for row in rows)

    everything = Counter(a0=20, a1=20, b0=20, b1=20)
    late, early = Counter(a1=20, b1=20), Counter(a0=20, b0=20)
    assert found() == everything
    assert found(startingOffsets="group", consumerGroup="PlacedGroup") == late
    assert found(endingOffsets="group", consumerGroup="PlacedGroup") == early
    assert found(startingOffsets="group", consumerGroup="Nobody") == everything
    assert found(startingOffsets=between_ms) == late
    assert found(endingOffsets=between_ms) == early
    assert found(startingOffsets='{"Placed": {"broker-a:0": 25, "broker-b:0": -1}}') == Counter(a1=15)
    assert found(endingOffsets='{"Placed": {"broker-a:0": 25, "broker-b:0": 0}}') == Counter(a0=20, a1=5)
    assert found(startingOffsets="latest") == Counter()
    for given, sentence in (
        ({"startingOffsets": '{"Placed": {"broker-a:0": 41}}'}, "Cannot read 1 offset: Placed@broker-a:0 40 to 40"),
        ({"startingOffsets": '{"Placed": {"broker-c:0": 1}}'}, "Topic Placed has no readable queue broker-c:0."),
    ):
        with pytest.raises(PySparkException, match=sentence):
            found(**given)
    assert found(startingOffsets='{"Placed": {"broker-a:0": 41}}', failOnDataLoss="false") == Counter(b0=20, b1=20)


def test_several_topics_are_one_table(cluster: Cluster, read: Read) -> None:
    for number, topic in enumerate(("Many1", "Many2")):
        cluster.create_topic(topic, queue_count=2)
        cluster.java.produce(topic, 12 * (number + 1))
    assigned = '{"Many1": ["broker-a"], "Many2": ["broker-a:1", "broker-b:0-1"]}'
    for choice, counts in (
        ({"topic": "Many1,Many2"}, {"Many1": 12, "Many2": 24}),
        ({"subscribePattern": "Many[0-9]"}, {"Many1": 12, "Many2": 24}),
        ({"assign": assigned}, {"Many1": 6, "Many2": 18}),
    ):
        rows = read(**choice).groupBy("topic").count().collect()
        assert {row.topic: row["count"] for row in rows} == counts
    with pytest.raises(PySparkException, match=r"Topic Many3 does not exist\.\nDid you mean Many[12]"):
        read("Many1,Many3").collect()


@pytest.mark.parametrize(("options", "count"), [({}, 1), ({"minPartitions": 7}, 7), ({"minPartitions": 99}, 40)])
def test_parts_of_queues_make_the_whole(cluster: Cluster, read: Read, options: dict[str, int], count: int) -> None:
    topic = f"Parts{count}"
    cluster.create_topic(topic, queue_count=2)
    cluster.java.produce(topic, 40)
    frame = read(topic, **options)
    assert frame.rdd.getNumPartitions() == count
    assert Counter(row.body.decode() for row in frame.collect()) == Counter(f"m{number}" for number in range(40))


def test_a_read_once_planned_stays_as_it_is(cluster: Cluster, read: Read) -> None:
    cluster.create_topic("Fixed", queue_count=1)
    cluster.java.produce("Fixed", 10)
    frame = read("Fixed", minPartitions=3)
    frame.persist()
    assert frame.count() == 10
    cluster.java.produce("Fixed", 10)
    assert frame.select(F.max("queue_offset")).collect()[0][0] == 4
    frame.unpersist()
