"""rmqctl pipeline run, in this process and on this session: a second one would cost half a minute."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import call
from tests.spark.conftest import Read
from tests.spark.smoke.smoke_data import create_topic, leave, put


@pytest.fixture(autouse=True)
def _one_session(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    monkeypatch.setattr("rmqctl.pipeline.run.start_session", lambda **_: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)


def test_snapshot_and_lag_in_one_run(
    sandbox: ThreadedSandbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, group = "SmokeRun", "SmokeRunGroup"
    create_topic(sandbox, topic, queue_count=1)
    put(sandbox, topic, "broker-a:0", [f"m{number}" for number in range(7)])
    put(sandbox, topic, "broker-b:0", [f"m{number}" for number in range(4)])
    leave(sandbox, group, topic, {"broker-a:0": 5, "broker-b:0": 1})
    words = ("-n", sandbox.addr, "--timeout", "60s", "pipeline", "run", "snapshot", "lag", "--group", group)
    done = call(capsys, *words, "--topic", topic, "--tables", str(tmp_path), "-o", "json")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    assert [
        (job["job"], job["isDone"], job["rowCount"], [each["rowCount"] for each in job["written"]])
        for job in document["jobs"]
    ] == [("snapshot", True, 1, [2]), ("lag", True, 1, [])]
    snapshot, lag = document["items"]
    assert (snapshot["group"], snapshot["lag"], snapshot["queueCount"], snapshot["state"]) == (group, 5, 2, "EMPTY")
    # One look is too few for a verdict; its numbers are there all the same.
    assert (lag["group"], lag["lag"], lag["health"], lag["cause"]) == (group, 5, "UNKNOWN", "TOO_FEW_SAMPLES")


def test_dead_letters_are_sent_by_tasks_once(
    sandbox: ThreadedSandbox, read: Read, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    group, count = "SmokeReplay", 300
    for topic in (f"%DLQ%{group}", "SmokeReplayed"):
        create_topic(sandbox, topic)
    for number in range(count):
        put(sandbox, f"%DLQ%{group}", f"broker-{'ab'[number % 2]}:0", [f"m{number}"], UNIQ_KEY=f"ID{number}")
    words = ("-n", sandbox.addr, "--timeout", "60s", "pipeline", "run", "dlq-replay", "--group", group)
    for sent_count in (count, 0):
        done = call(capsys, *words, "--to-topic", "SmokeReplayed", "--yes", "-o", "json")
        assert (done.code, done.err) == (0, ""), done.out
        (job,) = json.loads(done.out)["jobs"]
        assert job["facts"]["summary"]["sentCount"] == sent_count
    bodies = [row.body.decode() for row in read("SmokeReplayed", schema="body binary").collect()]
    assert sorted(bodies) == sorted(f"m{number}" for number in range(count))


def test_a_topic_into_parquet(
    spark: SparkSession, sandbox: ThreadedSandbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, folder = "SmokeRunRead", str(tmp_path / "table")
    create_topic(sandbox, topic, queue_count=1)
    put(sandbox, topic, "broker-a:0", ["a0", "a1"], TAGS="Kept")
    put(sandbox, topic, "broker-b:0", ["b0"], TAGS="Kept")
    put(sandbox, topic, "broker-b:0", ["b1"], TAGS="Other")
    words = ("-n", sandbox.addr, "--timeout", "60s", "pipeline", "run", "read", "--topic", topic, "--tag", "Kept")
    done = call(capsys, *words, "--to", folder, "-o", "json")
    assert (done.code, done.err) == (0, "")
    (job,) = json.loads(done.out)["jobs"]
    assert (job["job"], job["rowCount"], job["written"]) == ("read", 3, [{"path": folder, "rowCount": 3}])
    rows = spark.read.parquet(folder).collect()
    assert sorted((row.body.decode(), row.tags, row.broker_name, row.queue_offset) for row in rows) == [
        ("a0", "Kept", "broker-a", 0), ("a1", "Kept", "broker-a", 1), ("b0", "Kept", "broker-b", 0),
    ]  # fmt: skip
