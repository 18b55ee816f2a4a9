"""The job `snapshot`: real RocketMQ with Java clients, recordings, runs taken twice, days compacted."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rmqctl.admin.offsets.group import fetch_matching_progress
from rmqctl.admin.offsets.reading import GroupProgress
from rmqctl.client.access import Access
from rmqctl.errors import NotFoundError, UnreachableError, UsageError
from rmqctl.model.group import GroupState
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import GroupSample, OwnerSample, QueueSample
from rmqctl.observe.recording import QueueDetail, write_sample
from rmqctl.pipeline.jobs.definition import JobOptions, JobResult
from rmqctl.pipeline.jobs.snapshot.job import JOB
from rmqctl.pipeline.tables.delta import Table
from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS
from tests.real.harness.cluster import Cluster
from tests.real.harness.mqadmin import consumer_progress
from tests.real.harness.rmqctl import Rmqctl

from .samples import rows_of

HOUR_MS = 3_600_000
AT_MS = 1_795_345_920_000  # 2026-11-22T11:12:00Z
NOBODY = Access(name_servers="127.0.0.1:1", timeout_s=1)


def _rows(spark: SparkSession, folder: Path) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in rows_of(spark, folder, OFFSET_SNAPSHOTS).collect())


# Real RocketMQ


@pytest.fixture
def access(cluster: Cluster) -> Access:
    return Access(name_servers=cluster.namesrv, timeout_s=10)


@pytest.fixture(scope="module")
def groups(cluster: Cluster) -> Iterator[None]:
    """Groups of several kinds, all of which stand still.

    SnapQuiet has read all, gone, and got 11 more; SnapRetry has had a message again, and given it up; SnapStuck stands
    at 0 and is there. SnapWide had gone when its topic got two queues more, so nothing is stored for them.
    """
    java = cluster.java
    cluster.create_topic("SnapQuiet", queue_count=4)
    java.produce("SnapQuiet", 100)
    java.consume("snap-quiet", "SnapQuietGroup", "SnapQuiet")
    cluster.create_topic("SnapRetry", queue_count=1)
    java.consume("snap-retry", "SnapRetryGroup", "SnapRetry", fail="m1", max=1)
    java.produce("SnapRetry", 10)
    cluster.create_topic("SnapStuck", queue_count=2, brokers=("broker-a",))
    java.produce("SnapStuck", 5, queue="broker-a:0")
    java.produce("SnapStuck", 1, queue="broker-a:1")
    java.consume("snap-stuck", "SnapStuckGroup", "SnapStuck", stuck="m0")
    cluster.create_topic("SnapWide", queue_count=1, brokers=("broker-a",))
    java.produce("SnapWide", 5)
    java.consume("snap-wide", "SnapWideGroup", "SnapWide")
    java.wait_consumed("snap-wide", 5)
    java.stop("snap-wide")
    cluster.create_topic("SnapWide", queue_count=2, brokers=("broker-b",))
    cluster.wait_for_route("SnapWide", 2)
    java.produce("SnapWide", 1, queue="broker-b:0")
    java.wait_consumed("snap-quiet", 100)
    java.stop("snap-quiet")
    java.produce("SnapQuiet", 11)
    java.wait_consumed("snap-stuck", 4)
    java.wait_started("snap-stuck", 6)
    java.persist("snap-stuck")
    # The retry comes after 10 s.
    java.wait_started("snap-retry", 11)
    give_up_at = time.monotonic() + 20
    while not any(
        row.topic.startswith("%RETRY%") and row.consumer_offset == 1
        for row in consumer_progress(java.mqadmin("consumerProgress", "-g", "SnapRetryGroup"))
    ):
        assert time.monotonic() < give_up_at
        java.persist("snap-retry")
        time.sleep(0.2)
    java.stop("snap-retry")
    yield
    java.release("snap-stuck")
    java.stop("snap-stuck")


def _shown(access: Access) -> list[GroupProgress]:
    async def ask() -> list[GroupProgress]:
        async with await access.connect() as client:
            return (await fetch_matching_progress(client, ["Snap*"]))[0]

    return asyncio.run(ask())


def _taken(spark: SparkSession, folder: Path) -> dict[tuple[str, str], Any]:
    frame = rows_of(spark, folder, OFFSET_SNAPSHOTS)
    return {(row.consumer_group, f"{row.topic}@{row.broker_name}:{row.queue_id}"): row for row in frame.collect()}


def _ms(column: Any) -> int | None:
    return None if column is None else round(column.timestamp() * 1000)


@pytest.mark.usefixtures("groups")
def test_rows_agree_with_offset_show_and_mqadmin(
    spark: SparkSession, cluster: Cluster, access: Access, tmp_path: Path
) -> None:
    begun_ms = time.time_ns() // 1_000_000
    outcome = JOB.run(spark, JobOptions(now_ms=AT_MS, access=access, tables=str(tmp_path), groups=("Snap*",)))
    ended_ms = time.time_ns() // 1_000_000
    shown = _shown(access)
    taken = _taken(spark, tmp_path)

    assert {
        key: (row.min_offset, row.max_offset, row.consumer_offset, row.lag_messages, _ms(row.last_consume_ts))
        for key, row in taken.items()
    } == {
        (group.group, str(row.mq)): (
            row.min_offset,
            row.max_offset,
            row.consumer_offset,
            row.lag,
            row.last_timestamp_ms,
        )
        for group in shown
        for row in group.rows
    }
    assert {key[0] for key in taken} == {"SnapQuietGroup", "SnapRetryGroup", "SnapStuckGroup", "SnapWideGroup"}
    for group in ("SnapQuietGroup", "SnapRetryGroup"):
        printed = consumer_progress(cluster.java.mqadmin("consumerProgress", "-g", group))
        assert {
            key[1]: (row.max_offset, row.consumer_offset, row.lag_messages)
            for key, row in taken.items()
            if key[0] == group
        } == {f"{row[0]}@{row[1]}:{row[2]}": tuple(row[3:]) for row in printed}
    assert sum(row.lag_messages for key, row in taken.items() if key[0] == "SnapQuietGroup") == 11
    retry = [row for (_, queue), row in taken.items() if queue.startswith("%RETRY%SnapRetryGroup@")]
    assert sum(row.consumer_offset or 0 for row in retry) == 1
    assert {row.cluster for row in taken.values()} == {"DefaultCluster"}
    assert {row.run_id for row in taken.values()} == {outcome.facts["runId"]}
    times_ms = [_ms(row.snapshot_ts) or 0 for row in taken.values()]
    assert all(row.dt == f"{row.snapshot_ts.astimezone(UTC):%Y-%m-%d}" for row in taken.values())

    assert outcome.failures == ()
    assert outcome.written[0].row_count == len(taken) == outcome.facts["queueCount"]
    answers_ms = [outcome.facts[f"{which}AnswerTimestamp"] for which in ("first", "last")]
    assert answers_ms == [min(times_ms), max(times_ms)]
    assert [begun_ms, *answers_ms, ended_ms] == sorted([begun_ms, *answers_ms, ended_ms])
    assert [(row["group"], row["lag"], row["unknownCount"], row["state"]) for row in outcome.rows] == [
        ("SnapQuietGroup", 11, 0, "EMPTY"),
        ("SnapStuckGroup", 6, 0, "ONLINE"),
        ("SnapWideGroup", None, 1, "EMPTY"),
        ("SnapRetryGroup", 0, 0, "EMPTY"),
    ]


@pytest.mark.usefixtures("groups")
def test_none_stored_zero_and_owners(spark: SparkSession, cluster: Cluster, access: Access, tmp_path: Path) -> None:
    options = JobOptions(now_ms=AT_MS, access=access, tables=str(tmp_path), groups=("Snap*",), topics=("SnapS*",))
    outcome = JOB.run(spark, options)
    assert [row["group"] for row in outcome.rows] == ["SnapStuckGroup"]
    (client_id,) = [group.rows[0].client_ids[0] for group in _shown(access) if group.group == "SnapStuckGroup"]

    def told(folder: Path) -> dict[str, tuple[Any, ...]]:
        return {
            key[1].partition("@")[2]: (
                row.max_offset, row.consumer_offset, row.lag_messages, row.is_none_stored, row.is_held, row.client_id,
            )
            for key, row in _taken(spark, folder).items()
            if not key[1].startswith("%RETRY%")
        }  # fmt: skip

    assert told(tmp_path) == {
        "broker-a:0": (5, 0, 5, False, True, client_id),
        "broker-a:1": (1, 0, 1, False, True, client_id),
    }
    wide = tmp_path / "wide"
    JOB.run(spark, JobOptions(now_ms=AT_MS, access=access, tables=str(wide), groups=("SnapWideGroup",)))
    assert told(wide) == {
        "broker-a:0": (5, 5, 0, False, False, None),
        "broker-b:0": (1, None, None, True, False, None),
        # Wherever a consumer starts in an empty queue, there is nothing for it.
        "broker-b:1": (0, None, 0, True, False, None),
    }


@pytest.mark.usefixtures("groups")
def test_runs_and_compaction(spark: SparkSession, access: Access, tmp_path: Path) -> None:
    plain = JobOptions(now_ms=AT_MS, access=access, tables=str(tmp_path), groups=("SnapQuietGroup",))

    def take(now_ms: int, **more: Any) -> JobResult:
        bare = {name: getattr(plain, name) for name in JobOptions.__struct_fields__}
        return JOB.run(spark, JobOptions(**{"cluster_label": "L", **bare, "now_ms": now_ms, **more}))

    count = take(AT_MS - HOUR_MS).facts["queueCount"]
    assert count >= 8
    # Each run without an id is one of its own, also of the same moment; a named one is written once.
    ids = {take(AT_MS).facts["runId"] for _ in range(2)}
    assert len(ids) == 2
    assert take(AT_MS + 1, run_id="noon").facts["isThere"] is False
    rows = _rows(spark, tmp_path)
    assert rows.total() == len(rows) == 4 * count
    again = take(AT_MS, run_id="noon", access=NOBODY, cluster_label=plain.label())
    assert (again.facts["isThere"], again.written, _rows(spark, tmp_path)) == (True, (), rows)
    with pytest.raises(UnreachableError):
        take(AT_MS + 1000, access=NOBODY)
    # The same id of another cluster is another run.
    assert take(AT_MS + 2, run_id="noon", cluster_label="other").facts["isThere"] is False
    assert _rows(spark, tmp_path).total() == 5 * count

    assert Table(str(tmp_path), OFFSET_SNAPSHOTS).compact("9999-01-01") == (5, 1)
    rows = _rows(spark, tmp_path)
    assert rows.total() == 5 * count
    assert take(AT_MS, run_id="noon").facts["isThere"] is True
    replaced = take(AT_MS + HOUR_MS, run_id="noon", overwrite=True)
    assert (replaced.facts["isThere"], replaced.facts["isReplaced"]) == (False, True)
    found = Counter((str(row[0]), str(row[1])) for row in _rows(spark, tmp_path).elements())
    assert {key: number for key, number in found.items() if key[1] == "noon"} == {
        (plain.label(), "noon"): count, ("other", "noon"): count,
    }  # fmt: skip
    assert found.total() == 5 * count


def test_what_a_group_has_left_and_what_is_gone(
    spark: SparkSession, cluster: Cluster, access: Access, tmp_path: Path
) -> None:
    java, rmqctl = cluster.java, Rmqctl(cluster.namesrv)
    for topic in ("GoneOld", "GoneNew"):
        cluster.create_topic(topic, queue_count=1, brokers=("broker-a",))
        java.produce(topic, 5)
    for group in ("GoneLeaver", "GoneDeleted", "GoneKept"):
        java.consume(group, group, "GoneOld")
        java.wait_consumed(group, 5)
        java.persist(group)
        java.stop(group)

    def take() -> set[tuple[Any, ...]]:
        outcome = JOB.run(spark, JobOptions(now_ms=AT_MS, access=access, tables=str(tmp_path), groups=("Gone*",)))
        assert outcome.failures == ()
        rows = rows_of(spark, tmp_path, OFFSET_SNAPSHOTS).where(f"run_id = '{outcome.facts['runId']}'").collect()
        return {
            (row.consumer_group, row.topic, row.lag_messages, row.lag_state, row.is_subscribed, row.is_configured)
            for row in rows
            if not (row.topic or "").startswith("%RETRY%")
        }

    assert take() == {
        (group, "GoneOld", 0, "CAUGHT_UP", None, True) for group in ("GoneLeaver", "GoneDeleted", "GoneKept")
    }
    java.consume("GoneLeaver", "GoneLeaver", "GoneNew")
    java.wait_consumed("GoneLeaver", 5)
    java.persist("GoneLeaver")
    # It ends the pulls of members that have left: one that waits at the broker would create its group again.
    java.produce("GoneOld", 2)
    for words in (("GoneDeleted", "--with-offsets"), ("GoneKept",)):
        assert rmqctl("group", "delete", *words, "--yes").exit_code == 0
    leaver = {
        ("GoneLeaver", "GoneOld", 2, "BEHIND", False, True), ("GoneLeaver", "GoneNew", 0, "CAUGHT_UP", True, True),
    }  # fmt: skip
    kept = ("GoneKept", "GoneOld", 2, "BEHIND", None, False)
    assert take() == {*leaver, kept, ("GoneDeleted", None, None, "GROUP_GONE", None, None)}
    assert take() == {*leaver, kept}
    java.stop("GoneLeaver")


@pytest.mark.parametrize("cluster", ["5.4.0"], indirect=True)
def test_what_is_not_there(spark: SparkSession, access: Access, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="No group matches zzz"):
        JOB.run(spark, JobOptions(now_ms=AT_MS, access=access, tables=str(tmp_path), groups=("zzz*",)))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="snapshot needs a cluster"):
        JOB.run(spark, JobOptions(now_ms=AT_MS, tables=str(tmp_path)))


_CONNECT = """
import json, sys
from rmqctl.client.access import Access
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.snapshot.job import JOB
from rmqctl.pipeline.session import start_session
from rmqctl.pipeline.tables.delta import Table
from rmqctl.pipeline.tables.frames import read_files

namesrv, folder = sys.argv[1:]
spark = start_session(remote="local[2]")

def take(now_ms, name_servers=namesrv, **more):
    access = Access(name_servers=name_servers, timeout_s=10)
    options = JobOptions(now_ms=now_ms, access=access, tables=folder, cluster_label="L", **more)
    return dict(JOB.run(spark, options).facts)

at_ms = 1_795_345_920_000
said = [
    take(at_ms),
    take(at_ms, run_id="named"),
    take(at_ms, "127.0.0.1:1", run_id="named"),
    take(at_ms, run_id="named", overwrite=True),
]
version = Table(folder, "offset_snapshots").version()
count = read_files(spark, version, version.files).count()
print(json.dumps([type(spark).__module__, said, count]))
"""


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("cluster", ["5.4.0"], indirect=True)
def test_over_spark_connect(cluster: Cluster, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _CONNECT, cluster.namesrv, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    module, said, count = json.loads(done.stdout.splitlines()[-1])
    assert module.startswith("pyspark.sql.connect")
    first, named, _, replaced = said
    assert [each["isThere"] for each in said] == [False, False, True, False]
    assert (named["isReplaced"], replaced["isReplaced"]) == (False, True)
    assert count == first["queueCount"] + replaced["queueCount"]


# Recordings


def _sample(at_ms: int, offset: int, group: str = "pay", **more: Any) -> str:
    one, two = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
    queues = {
        one: QueueSample(one, offset, 100, (OwnerSample("c@1", offset, 0, 0),)),
        two: QueueSample(two, None, 7, reasons={"consumerOffset": Unknown.NEVER_COMMITTED}),
    }
    sample = GroupSample(at_ms, at_ms / 1000, group, GroupState.ONLINE, ("c@1",), queues)
    return write_sample(sample, cluster="C", details={one: QueueDetail(min_offset=0)}, **more)


def test_a_recording_is_put_in_once(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "watched.jsonl"
    lines = [_sample(AT_MS - HOUR_MS, 10), _sample(AT_MS, 20), _sample(AT_MS, 3, "other")]
    file.write_text("\n".join(lines))
    options = JobOptions(now_ms=AT_MS + 9 * HOUR_MS, tables=str(tmp_path), cluster_label="L", recordings=(str(file),))
    outcome = JOB.run(spark, options)
    assert [(row["group"], row["lag"], row["lagAtLeast"]) for row in outcome.rows] == [
        ("other", None, 97), ("pay", None, 80),
    ]  # fmt: skip
    assert (outcome.facts["sampleCount"], outcome.facts["newSampleCount"]) == (3, 3)
    frame = rows_of(spark, tmp_path, OFFSET_SNAPSHOTS)
    assert {
        (row.consumer_group, _ms(row.snapshot_ts), row.queue_id, row.consumer_offset, row.lag_messages)
        for row in frame.collect()
    } == {
        ("pay", AT_MS - HOUR_MS, 0, 10, 90),
        ("pay", AT_MS - HOUR_MS, 1, None, None),
        ("pay", AT_MS, 0, 20, 80),
        ("pay", AT_MS, 1, None, None),
        ("other", AT_MS, 0, 3, 97),
        ("other", AT_MS, 1, None, None),
    }
    assert {(row.queue_id, row.is_none_stored, row.client_id) for row in frame.collect()} == {
        (0, False, "c@1"), (1, True, None),
    }  # fmt: skip
    before = _rows(spark, tmp_path)
    again = JOB.run(spark, options)
    assert (again.facts["isThere"], again.written, _rows(spark, tmp_path)) == (True, (), before)

    # It has grown since, and a part of it stands in another file.
    file.write_text("\n".join([*lines, _sample(AT_MS + 5, 21)]))
    copy = tmp_path / "copy.jsonl"
    copy.write_text(lines[0])
    grown = JOB.run(
        spark, JobOptions(now_ms=AT_MS, tables=str(tmp_path), cluster_label="L", recordings=(str(file), str(copy)))
    )
    assert (grown.facts["sampleCount"], grown.facts["newSampleCount"]) == (4, 1)
    rows = _rows(spark, tmp_path)
    assert rows.total() == len(rows) == 8
    assert Table(str(tmp_path), OFFSET_SNAPSHOTS).compact("2027-01-01") == (2, 1)
    assert JOB.run(spark, options).facts["isThere"] is True
    assert _rows(spark, tmp_path) == rows


def test_recordings_that_can_t_be_read(spark: SparkSession, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text(f"{_sample(AT_MS, 1)}\n{{")
    for name, kind, sentence in (
        (str(broken), UsageError, "broken.jsonl, line 2: the line is not complete JSON"),
        (str(tmp_path / "none"), NotFoundError, "none does not exist"),
        (str(tmp_path), UsageError, "Cannot read .*: Is a directory"),
    ):
        with pytest.raises(kind, match=sentence):
            JOB.run(spark, JobOptions(now_ms=AT_MS, tables=str(tmp_path / "t"), cluster_label="L", recordings=(name,)))
    assert not (tmp_path / "t").exists()
