"""The job `dlq-report`: dead letters that Java consumers made, and what their properties tell."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from pyspark.sql import SparkSession

from rmqctl.client.access import Access
from rmqctl.errors import NotFoundError
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.dlq_report import rows
from rmqctl.pipeline.jobs.dlq_report.job import JOB
from rmqctl.pipeline.run import check_cluster
from rmqctl.pipeline.tables.schemas import DEAD_LETTERS, columns_of
from rmqctl.text.times import iso_time
from tests.real.harness.cluster import Cluster

from .by_hand import put_offset, stored
from .samples import rows_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _options(cluster: Cluster, **more: Any) -> JobOptions:
    return JobOptions(now_ms=time.time_ns() // 1_000_000 + 60_000, access=Access(cluster.namesrv, 30), **more)


def _table(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows_of(spark, folder, DEAD_LETTERS).collect()), key=str)


def _wait_for(cluster: Cluster, group: str, count: int) -> None:
    give_up_s = time.monotonic() + 60
    found = 0
    while found < count:
        assert time.monotonic() < give_up_s, (group, found)
        time.sleep(0.5)
        try:
            found = len(stored(cluster, f"%DLQ%{group}"))
        except NotFoundError:
            continue


class _Planted(Struct, frozen=True):
    since_ms: int
    until_ms: int


@pytest.fixture(scope="module")
def planted(cluster: Cluster) -> _Planted:
    """Let three groups of consumers fail in different ways, one of them twice."""
    java = cluster.java
    cluster.create_topic("Dying", queue_count=1)
    for group in ("EmptyGroup", "SentGroup"):
        cluster.create_topic(f"%DLQ%{group}", queue_count=1)
    since_ms = time.time_ns() // 1_000_000
    java.produce("Dying", 6, tag="A", prefix="fail-a", keys="order-")
    java.produce("Dying", 3, tag="B", prefix="fail-b\t", keys="order-")
    java.produce("Dying", 5, tag="A", prefix="ok")
    java.produce("%DLQ%SentGroup", 2, prefix="sent")
    java.consume("retried", "RetriedGroup", "Dying", fail="fail", max=1)
    java.consume("ordered", "OrderedGroup", "Dying", fail="fail", max=1, orderly=1)
    java.consume("raising", "RaisingGroup", "Dying", **{"raise": "fail"}, max=0, trace=1)
    java.wait_consumed("raising", 5)
    _wait_for(cluster, "RaisingGroup", 9)
    java.stop("raising")
    for mq in {mq for mq, _ in stored(cluster, "Dying")}:
        put_offset(cluster, "RaisingGroup", mq, 0)
    java.consume("raising", "RaisingGroup", "Dying", **{"raise": "fail"}, max=0, trace=1)
    _wait_for(cluster, "RaisingGroup", 18)
    _wait_for(cluster, "RetriedGroup", 9)  # the retry comes after 10 s
    _wait_for(cluster, "OrderedGroup", 9)
    for name in ("raising", "ordered", "retried"):
        java.stop(name)
    return _Planted(since_ms, time.time_ns() // 1_000_000)


def test_dead_letters_of_real_consumers(
    cluster: Cluster, spark: SparkSession, planted: _Planted, tmp_path: Path
) -> None:
    outcome = JOB.run(spark, _options(cluster, tables=str(tmp_path)))
    counts = {
        (row["group"], row["originTopic"], row["tags"], row["reason"]): (row["count"], row["messageCount"])
        for row in outcome.rows
    }
    assert counts == {
        ("RaisingGroup", "Dying", "A", "FIRST_FAILURE"): (12, 6),
        ("RaisingGroup", "Dying", "B", "FIRST_FAILURE"): (6, 3),
        ("RetriedGroup", "Dying", "A", "AFTER_RETRIES"): (6, 6),
        ("RetriedGroup", "Dying", "B", "AFTER_RETRIES"): (3, 3),
        ("OrderedGroup", "Dying", "A", "MAX_RECONSUME_TIMES"): (6, 6),
        ("OrderedGroup", "Dying", "B", "MAX_RECONSUME_TIMES"): (3, 3),
        ("SentGroup", None, None, "SENT_THERE"): (2, 2),
    }
    assert [row["count"] for row in outcome.rows] == sorted((row["count"] for row in outcome.rows), reverse=True)
    for row in outcome.rows:
        assert planted.since_ms - 5 <= row["firstStoreTimestamp"] <= row["lastStoreTimestamp"] <= planted.until_ms + 5
        assert row["maxReconsumeTimes"] == (1 if row["group"] == "OrderedGroup" else None)
        # Only one group writes traces; its listener raised.
        assert row["lastResult"] == ("EXCEPTION" if row["group"] == "RaisingGroup" else None)
        letters = stored(cluster, f"%DLQ%{row['group']}")
        sample = row["sample"]
        (newest,) = (
            message
            for mq, message in letters
            if (mq.broker_name, mq.queue_id, message.queue_offset)
            == (sample["brokerName"], sample["queueId"], sample["queueOffset"])
        )
        assert row["place"] == f"{sample['brokerName']}:{sample['queueId']} {sample['queueOffset']}"
        assert newest.stored_at_ms == row["lastStoreTimestamp"] == sample["storeTimestamp"]
        assert newest.message_id == sample["msgId"]
        assert row["excerpt"] == newest.body.decode().replace("\t", "·")
        assert row["keys"] == newest.properties.get("KEYS")

    facts = outcome.facts
    assert (facts["deadLetterCount"], facts["groupCount"], facts["twiceCount"]) == (38, 4, 9)
    assert (facts["topicCount"], facts["filledTopicCount"]) == (5, 4)
    by_hour = Counter((message.stored_at_ms // 3_600_000 * 3_600_000, group)
                      for group in ("RaisingGroup", "RetriedGroup", "OrderedGroup", "SentGroup")
                      for _, message in stored(cluster, f"%DLQ%{group}"))  # fmt: skip
    assert Counter({(each["hour"], each["group"]): each["count"] for each in facts["byHour"]}) == by_hour
    origins = {message.offset_id for _, message in stored(cluster, "Dying") if message.body.startswith(b"fail")}
    assert {(each["group"], each["originMsgId"], each["count"]) for each in facts["twice"]} == {
        ("RaisingGroup", origin, 2) for origin in origins
    }
    assert any("38 dead letters of 4 groups; 4 of 5 dead-letter topics have messages" in note for note in outcome.notes)
    assert any("9 messages became a dead letter of the same group more than once" in note for note in outcome.notes)

    # The table has each, and a run for one group changes nothing.
    names = list(columns_of(DEAD_LETTERS))
    table = _table(spark, tmp_path)
    assert Counter(row[names.index("consumer_group")] for row in table) == {
        "RaisingGroup": 18, "RetriedGroup": 9, "OrderedGroup": 9, "SentGroup": 2,
    }  # fmt: skip
    assert outcome.written[0].row_count == 38
    some = JOB.run(spark, _options(cluster, tables=str(tmp_path), groups=("Re*",), limit=1))
    assert (some.facts["deadLetterCount"], some.row_count, len(some.rows)) == (9, 2, 1)
    assert some.written[0].row_count == 9
    assert _table(spark, tmp_path) == table


def test_no_dead_letters_is_a_good_word(cluster: Cluster, spark: SparkSession, planted: _Planted) -> None:
    outcome = JOB.run(spark, _options(cluster, groups=("EmptyGroup",)))
    assert (outcome.rows, outcome.facts["deadLetterCount"]) == ((), 0)
    (note,) = outcome.notes
    assert note.startswith("There are no dead letters of EmptyGroup: 1 dead-letter topic ")
    outcome = JOB.run(spark, _options(cluster, since=iso_time(planted.until_ms + 1000)))
    (note,) = outcome.notes
    assert note.startswith("There are no dead letters in that time: 5 dead-letter topics ")
    outcome = JOB.run(spark, _options(cluster, since=iso_time(planted.until_ms - 50 * 3_600_000), until="49h"))
    assert outcome.facts["deadLetterCount"] == 0
    with pytest.raises(NotFoundError, match="The dead-letter topic of RasingGroup does not exist") as raised:
        check_cluster([JOB], _options(cluster, groups=("RasingGroup",)))
    assert "RaisingGroup" in raised.value.suggestions


def test_what_properties_tell(spark: SparkSession) -> None:
    at_ms = 1_795_341_600_000 - 1  # 09:59:59.999 UTC
    told: list[tuple[int, dict[str, str], str | None, str | None, str | None]] = [
        (17, {"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "O"}, "AFTER_RETRIES", "T", "O"),
        (1, {"RETRY_TOPIC": "T", "DLQ_ORIGIN_TOPIC": "%RETRY%G"}, "FIRST_FAILURE", "T", None),
        (1, {"DLQ_ORIGIN_MESSAGE_ID": "D", "ORIGIN_MESSAGE_ID": "O"}, "FIRST_FAILURE", None, "D"),
        (3, {"DLQ_ORIGIN_TOPIC": "U", "MAX_RECONSUME_TIMES": "3"}, "MAX_RECONSUME_TIMES", "U", None),
        (3, {"RETRY_TOPIC": "T", "MAX_RECONSUME_TIMES": "16"}, "AFTER_RETRIES", "T", None),
        (2, {"RETRY_TOPIC": "T", "MAX_RECONSUME_TIMES": "many"}, "AFTER_RETRIES", "T", None),
        (0, {}, "SENT_THERE", None, None),
        (0, {"RETRY_TOPIC": "T"}, None, "T", None),
    ]  # fmt: skip
    at = _EPOCH + timedelta(milliseconds=at_ms)
    messages = [
        ("%DLQ%G", "b", 0, number, "x", "u", "k", "A", b"12345" * 100, properties, at, at, times)
        for number, (times, properties, *_) in enumerate(told)
    ]
    found = rows.dead_letters(spark.createDataFrame(messages, rows.MESSAGES)).orderBy("queue_offset").collect()
    assert [(row.reason, row.origin_topic, row.origin_msg_id) for row in found] == [tuple(each[2:]) for each in told]
    assert {(row.consumer_group, row.dt, row.body_size_bytes) for row in found} == {("G", "2026-11-22", 500)}
    assert {bytes(row.excerpt) for row in found} == {b"12345" * 40}
