"""format("rocketmq"), streaming: each message once, whatever happens in between."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.spark.smoke.smoke_data import PATIENT, create_topic, put
from tests.spark.streams import Stream


def _numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def test_each_run_goes_on_where_the_last_one_ended(
    spark: SparkSession, sandbox: ThreadedSandbox, tmp_path: Path
) -> None:
    topic = "SmokeGrown"
    create_topic(sandbox, topic, queue_count=1)
    sent = [*_numbered("a", 5), *_numbered("b", 3)]
    put(sandbox, topic, "broker-a:0", sent[:5])
    put(sandbox, topic, "broker-b:0", sent[5:])
    grown = Stream(spark, sandbox.addr, topic, tmp_path, **PATIENT)
    grown.run()
    assert grown.bodies() == Counter(sent)
    grown.run()
    assert sum(grown.batches) == 0

    # More in a queue that was there, and in one that was not.
    create_topic(sandbox, topic, queue_count=2)
    put(sandbox, topic, "broker-a:0", late := _numbered("late", 4))
    put(sandbox, topic, "broker-b:1", new := _numbered("new", 2))
    grown.run(maxOffsetsPerTrigger=4)
    assert [count for count in grown.batches if count] == [4, 2]
    assert grown.bodies() == Counter([*sent, *late, *new])
    noted = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))[-1]
    assert json.loads(noted.read_text().splitlines()[-1]) == {
        topic: {"broker-a:0": 9, "broker-a:1": 0, "broker-b:0": 3, "broker-b:1": 2}
    }


def test_a_batch_that_failed_comes_again_as_it_was(
    spark: SparkSession, sandbox: ThreadedSandbox, tmp_path: Path
) -> None:
    topic = "SmokeCrashed"
    create_topic(sandbox, topic, queue_count=1)
    sent = _numbered("m", 5)
    put(sandbox, topic, "broker-a:0", sent[:3])
    put(sandbox, topic, "broker-b:0", sent[3:])
    seen: list[tuple[int, Counter[str]]] = []

    def crash_at_second(frame: DataFrame, number: int) -> None:
        seen.append((number, Counter(row.body.decode() for row in frame.collect())))
        if len(seen) == 2:
            raise RuntimeError("the power went out")

    crashed = Stream(spark, sandbox.addr, topic, tmp_path, **PATIENT)
    with pytest.raises(PySparkException, match="the power went out"):
        crashed.run(crash_at_second, maxOffsetsPerTrigger=3)
    put(sandbox, topic, "broker-a:0", meanwhile := ["meanwhile"])
    crashed.run(crash_at_second, maxOffsetsPerTrigger=3)
    assert seen[1] == seen[2]
    assert [number for number, _ in seen] == [0, 1, 1, 2]
    assert sum((bodies for _, bodies in seen[1:]), seen[0][1]) - seen[1][1] == Counter([*sent, *meanwhile])
