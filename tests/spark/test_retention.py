"""Messages that a broker deletes while they are wanted: which ones, is said, or the rest is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rmqctl.client.access import Access
from rmqctl.errors import RmqctlError
from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.snapshot.job import JOB as SNAPSHOT
from rmqctl.pipeline.source.ranges import QueueRange
from rmqctl.pipeline.source.task_access import task_access
from rmqctl.pipeline.source.tasks import Task, read_batches
from rmqctl.pipeline.tables.delta import Table
from rmqctl.pipeline.tables.frames import require_version
from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS
from tests.real.harness.cluster import Cluster
from tests.real.harness.jars import VERSIONS

_FILE_BYTES = 1 << 20


@pytest.fixture(scope="module", params=VERSIONS)
def forgetful(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a broker that deletes all but the newest of its small files when it is told to."""
    settings = {
        "mappedFileSizeCommitLog": _FILE_BYTES, "mappedFileSizeConsumeQueue": 20 * 500, "fileReservedTime": 0,
    }  # fmt: skip
    running = Cluster(request.param, tmp_path_factory.mktemp(f"forgetful-{request.param}") / "home", settings=settings)
    try:
        yield running.wait()
    finally:
        running.stop()


@pytest.fixture(scope="module")
def min_offset(forgetful: Cluster) -> Callable[[str], int]:
    """Have what is old deleted, and return where the topic's one queue begins then."""

    def expire(topic: str) -> int:
        # A file that something still reads is deleted by force after 120 s (destroyMapedFileIntervalForcibly).
        give_up_s = time.monotonic() + 150
        while time.monotonic() < give_up_s:
            forgetful.java.mqadmin("deleteExpiredCommitLog", "-b", forgetful.addresses["broker-a"])
            printed = forgetful.java.mqadmin("topicStatus", "-t", topic)
            (found,) = (line.split()[2] for line in printed.splitlines() if line.startswith("broker-a"))
            if int(found) > 0:
                time.sleep(12)  # the queue's index follows every 10 s
                return int(_row(forgetful, topic)[2])
            time.sleep(1)
        raise AssertionError("nothing was deleted")

    return expire


def _row(cluster: Cluster, topic: str) -> list[str]:
    printed = cluster.java.mqadmin("topicStatus", "-t", topic)
    (row,) = (line.split() for line in printed.splitlines() if line.startswith("broker-a"))
    return row


def test_a_read_that_retention_overtakes(
    forgetful: Cluster, min_offset: Callable[[str], int], spark: SparkSession, tmp_path: Path
) -> None:
    forgetful.create_topic("Expired", queue_count=1)
    forgetful.java.produce("Expired", 500, size=1000, batch=50)

    def run(**options: str) -> None:
        source = spark.readStream.format("rocketmq").option("nameServers", forgetful.namesrv)
        source = source.option("topic", "Expired").options(**options).schema("queue_offset bigint")
        writer = source.load().writeStream.format("parquet").option("path", str(tmp_path / "table"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    forgetful.java.produce("Expired", 5000, size=1000, batch=50)
    first_offset = min_offset("Expired")
    assert 500 < first_offset < 5500

    # A stream that was too slow.
    lost = f"Expired@broker-a:0 500 to {first_offset - 1}"
    with pytest.raises(PySparkException, match=rf"{first_offset - 500:,} offsets: {lost} \(the broker"):
        run()
    run(failOnDataLoss="false")
    read = {row.queue_offset for row in spark.read.parquet(str(tmp_path / "table")).collect()}
    assert read == {*range(500), *range(first_offset, 5500)}

    # A batch that names what is gone.
    reader = spark.read.format("rocketmq").option("nameServers", forgetful.namesrv).option("topic", "Expired")
    reader = reader.option("startingOffsets", '{"Expired": {"broker-a:0": 0}}')
    with pytest.raises(PySparkException, match=rf"Expired@broker-a:0 0 to {first_offset - 1} \(the broker has deleted"):
        reader.load().count()
    assert reader.option("failOnDataLoss", "false").load().count() == 5500 - first_offset

    # A task whose offsets went after they were planned.
    mq = MessageQueue("Expired", "broker-a", 0)
    planned = QueueRange(mq, forgetful.addresses["broker-a"], 100, 5500)
    task = Task(task_access(Access(forgetful.namesrv, 5.0)), (planned,), ("queue_offset",))
    with pytest.raises(RmqctlError, match=rf"Expired@broker-a:0 100 to {first_offset - 1} \(they do not exist\)"):
        list(read_batches(task))
    found = [at for batch in read_batches(replace(task, fail_on_data_loss=False)) for at in batch["queue_offset"]]
    assert [at.as_py() for at in found] == list(range(first_offset, 5500))


def test_a_broker_that_comes_back_is_waited_for(forgetful: Cluster, spark: SparkSession) -> None:
    forgetful.create_topic("Restarted", queue_count=1)
    forgetful.java.produce("Restarted", 300)
    mq = MessageQueue("Restarted", "broker-a", 0)
    planned = QueueRange(mq, forgetful.addresses["broker-a"], 0, 300)
    task = Task(task_access(Access(forgetful.namesrv, 60.0)), (planned,), ("queue_offset",))
    broker = forgetful.brokers["broker-a"]
    broker.kill()
    with pytest.raises(RmqctlError, match=r"connection refused"):
        list(read_batches(replace(task, access=task_access(Access(forgetful.namesrv, 1.0)))))
    broker.start()
    assert sum(batch.num_rows for batch in read_batches(task)) == 300


# The last one: a broker that was told to delete repeats it every 10 s, up to 20 times, until it is restarted.
def test_a_snapshot_tells_expired_messages_from_read_ones(
    forgetful: Cluster, min_offset: Callable[[str], int], tmp_path: Path
) -> None:
    forgetful.create_topic("Idle", queue_count=1)
    forgetful.create_topic("Fill", queue_count=1)
    forgetful.java.produce("Idle", 50)
    for name, options in {"IdleRead": {}, "IdleStuck": {"stuck": "m9"}}.items():
        forgetful.java.consume(name, name, "Idle", threads=1, **options)
    forgetful.java.wait_consumed("IdleRead", 50)
    forgetful.java.wait_started("IdleStuck", 10)
    for name in ("IdleRead", "IdleStuck"):
        forgetful.java.persist(name)
    forgetful.java.produce("Fill", 5000, size=1000, batch=50)
    assert min_offset("Fill") > 0
    access = Access(name_servers=forgetful.namesrv, timeout_s=20)
    given = {"groups": ("IdleRead", "IdleStuck"), "topics": ("Idle",)}
    SNAPSHOT.run(None, JobOptions(now_ms=0, access=access, tables=str(tmp_path), **given))
    version = require_version(Table(str(tmp_path), OFFSET_SNAPSHOTS))
    names = ("consumer_group", "min_offset", "max_offset", "consumer_offset", "lag_messages", "lag_state")
    assert set(version.rows(names)) == {
        ("IdleRead", 50, 50, 50, 0, "CAUGHT_UP"), ("IdleStuck", 50, 50, 9, 0, "EXPIRED"),
    }  # fmt: skip
    forgetful.java.release("IdleStuck")
    for name in ("IdleRead", "IdleStuck"):
        forgetful.java.stop(name)
