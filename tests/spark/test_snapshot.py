"""The job `snapshot`: real RocketMQ with Java clients, recordings, runs taken twice, hours merged."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rmqctl.admin.offsets.group import fetch_matching_progress
from rmqctl.admin.offsets.reading import GroupProgress
from rmqctl.client.access import Access
from rmqctl.errors import NotFoundError, RmqctlError, UnreachableError, UsageError
from rmqctl.model.group import GroupState
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import GroupSample, OwnerSample, QueueSample
from rmqctl.observe.recording import QueueDetail, write_sample
from rmqctl.pipeline.jobs.definition import JobOptions, JobResult
from rmqctl.pipeline.jobs.snapshot import compaction
from rmqctl.pipeline.jobs.snapshot.compaction import compact
from rmqctl.pipeline.jobs.snapshot.job import JOB
from rmqctl.pipeline.jobs.snapshot.rows import SCHEMA, write_rows
from rmqctl.pipeline.tables.files import TableFiles
from rmqctl.pipeline.tables.hours import Hour, hour_of
from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS
from tests.real.harness.cluster import Cluster
from tests.real.harness.mqadmin import consumer_progress

HOUR_MS = 3_600_000
AT_MS = 1_795_345_920_000  # 2026-11-22T11:12:00Z
NOBODY = Access(name_servers="127.0.0.1:1", timeout_s=1)

Table = Counter[tuple[Any, ...]]


def _rows(spark: SparkSession, folder: Path) -> Table:
    """Return all rows of the table, as any reader of Parquet would see them; `part` does not matter to them."""
    frame = spark.read.parquet(str(folder / OFFSET_SNAPSHOTS)).drop("part")
    names = [column.split()[0] for column in SCHEMA.split(", ")][:-1]
    return Counter(tuple(row) for row in frame.select(*names).collect())


def _files(folder: Path, hour: Hour | None = None) -> dict[str, bytes]:
    """Return the table's files with data, or those of an hour, with their contents."""
    root = folder / OFFSET_SNAPSHOTS
    under = root if hour is None else root / f"dt={hour.dt}" / f"hr={hour.hr}"
    return {str(path.relative_to(root)): path.read_bytes() for path in under.rglob("*.parquet")}


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
    frame = spark.read.parquet(str(folder / OFFSET_SNAPSHOTS))
    return {(row.consumer_group, f"{row.topic}@{row.broker_name}:{row.queue_id}"): row for row in frame.collect()}


def _ms(column: Any) -> int | None:
    return None if column is None else round(column.timestamp() * 1000)


@pytest.mark.usefixtures("groups")
def test_rows_agree_with_offset_show_and_mqadmin(
    spark: SparkSession, cluster: Cluster, access: Access, tmp_path: Path
) -> None:
    outcome = JOB.run(spark, JobOptions(now_ms=AT_MS, access=access, tables=str(tmp_path), groups=("Snap*",)))
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
    assert {(_ms(row.snapshot_ts), row.run_id, row.part) for row in taken.values()} == {
        (AT_MS, "20261122T111200Z", "20261122T111200Z")
    }
    assert {(str(row.dt), row.hr) for row in taken.values()} == {("2026-11-22", 11)}

    assert outcome.failures == ()
    assert outcome.written[0].row_count == len(taken) == outcome.facts["queueCount"]
    assert outcome.facts["snapshotTimestampIso"] == "2026-11-22T11:12:00.000Z"
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
def test_runs_hours_and_merging(spark: SparkSession, access: Access, tmp_path: Path) -> None:
    plain = JobOptions(now_ms=AT_MS, access=access, tables=str(tmp_path), groups=("SnapQuietGroup",))

    def take(now_ms: int, **more: Any) -> JobResult:
        bare = {name: getattr(plain, name) for name in JobOptions.__struct_fields__}
        return JOB.run(spark, JobOptions(**{**bare, "now_ms": now_ms, **more}))

    outcome = take(AT_MS - HOUR_MS)
    assert outcome.facts["isThere"] is False
    count = outcome.facts["queueCount"]
    assert count >= 8
    before = _files(tmp_path, hour_of(AT_MS - HOUR_MS))
    take(AT_MS)
    first = _files(tmp_path)
    # The same run: nobody is asked, nothing changes.
    again = take(AT_MS, access=NOBODY)
    assert (again.facts["isThere"], again.written, _files(tmp_path)) == (True, (), first)
    with pytest.raises(UnreachableError):
        take(AT_MS + 1000, access=NOBODY)
    # Another of the same hour, and one with a name.
    take(AT_MS + 60_000)
    assert first.items() < _files(tmp_path).items()
    take(AT_MS + 120_000, run_id="noon")
    assert _files(tmp_path, hour_of(AT_MS - HOUR_MS)) == before
    rows = _rows(spark, tmp_path)
    assert rows.total() == len(rows) == 4 * count

    # The current hour is not over.
    none = take(AT_MS, compact=True)
    assert none.facts["mergedHourCount"] == 0
    assert "nothing was merged" in none.notes[-1]
    assert _rows(spark, tmp_path) == rows
    done = take(AT_MS + HOUR_MS, run_id="noon", compact=True, access=NOBODY)
    assert (done.facts["isThere"], done.facts["mergedHourCount"], done.facts["mergedFileCount"]) == (True, 1, 3)
    assert done.notes[-1].startswith("3 files of 1 hour ")
    assert _rows(spark, tmp_path) == rows
    (merged,) = _files(tmp_path, hour_of(AT_MS))
    assert "/part=merged/" in merged
    assert _files(tmp_path, hour_of(AT_MS - HOUR_MS)) == before

    # A run that is merged is there all the same; overwriting takes the old one out, wherever it is.
    assert take(AT_MS, access=NOBODY).facts["isThere"] is True
    assert take(AT_MS + HOUR_MS, run_id="noon", access=NOBODY).facts["isThere"] is True
    replaced = take(AT_MS + HOUR_MS, run_id="noon", overwrite=True)
    assert (replaced.facts["isThere"], replaced.facts["isReplaced"]) == (False, True)
    found = Counter((str(row[0]), _ms(row[1])) for row in _rows(spark, tmp_path).elements())
    assert found == {
        ("20261122T101200Z", AT_MS - HOUR_MS): count,
        ("20261122T111200Z", AT_MS): count,
        ("20261122T111300Z", AT_MS + 60_000): count,
        ("noon", AT_MS + HOUR_MS): count,
    }
    take(AT_MS + 2 * HOUR_MS, run_id="noon", overwrite=True)
    assert not _files(tmp_path, hour_of(AT_MS + HOUR_MS))
    take(AT_MS, overwrite=True)
    assert _rows(spark, tmp_path).total() == 4 * count
    # Late for an hour that is merged: the next time takes it along.
    assert len(_files(tmp_path, hour_of(AT_MS))) == 2
    take(AT_MS + 2 * HOUR_MS, run_id="noon", compact=True)
    assert len(_files(tmp_path, hour_of(AT_MS))) == 1
    assert _rows(spark, tmp_path).total() == 4 * count


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
from rmqctl.errors import UsageError
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.snapshot.job import JOB
from rmqctl.pipeline.session import start_session

namesrv, folder = sys.argv[1:]
spark = start_session(remote="local[2]")

def take(now_ms, name_servers=namesrv, **more):
    access = Access(name_servers=name_servers, timeout_s=10)
    try:
        return dict(JOB.run(spark, JobOptions(now_ms=now_ms, access=access, tables=folder, **more)).facts)
    except UsageError as error:
        return error.sentence

at_ms = 1_795_345_920_000
said = [
    take(at_ms),
    take(at_ms, "127.0.0.1:1"),
    take(at_ms, run_id="named"),
    take(at_ms, run_id="named", overwrite=True),
    take(at_ms + 3_600_000, "127.0.0.1:1", run_id="named", overwrite=True),
    take(at_ms, "127.0.0.1:1", compact=True),
]
print(json.dumps([type(spark).__module__, said, spark.read.parquet(f"{folder}/offset_snapshots").count()]))
"""


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("cluster", ["5.4.0"], indirect=True)
def test_over_spark_connect(cluster: Cluster, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _CONNECT, cluster.namesrv, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    module, said, count = json.loads(done.stdout.splitlines()[-1])
    assert module.startswith("pyspark.sql.connect")
    first, again, named, replaced, elsewhere, merging = said
    assert (first["isThere"], first["runId"]) == (False, "20261122T111200Z")
    assert (again["isThere"], named["isThere"], replaced["isReplaced"]) == (True, False, True)
    assert count == first["queueCount"] + replaced["queueCount"]
    assert "Run named is in another hour" in elsewhere
    assert "Spark Connect cannot remove it" in elsewhere
    assert "--compact is not supported with Spark Connect" in merging


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
    options = JobOptions(now_ms=AT_MS + 9 * HOUR_MS, tables=str(tmp_path), recordings=(str(file),))
    outcome = JOB.run(spark, options)
    assert [(row["group"], row["lag"], row["lagAtLeast"]) for row in outcome.rows] == [
        ("other", None, 97), ("pay", None, 80),
    ]  # fmt: skip
    assert (outcome.facts["sampleCount"], outcome.facts["newSampleCount"]) == (3, 3)
    frame = spark.read.parquet(str(tmp_path / OFFSET_SNAPSHOTS))
    assert {
        (row.consumer_group, _ms(row.snapshot_ts), row.hr, row.queue_id, row.consumer_offset, row.lag_messages)
        for row in frame.collect()
    } == {
        ("pay", AT_MS - HOUR_MS, 10, 0, 10, 90),
        ("pay", AT_MS - HOUR_MS, 10, 1, None, None),
        ("pay", AT_MS, 11, 0, 20, 80),
        ("pay", AT_MS, 11, 1, None, None),
        ("other", AT_MS, 11, 0, 3, 97),
        ("other", AT_MS, 11, 1, None, None),
    }
    assert {(row.queue_id, row.is_none_stored, row.client_id) for row in frame.collect()} == {
        (0, False, "c@1"), (1, True, None),
    }  # fmt: skip
    before = _files(tmp_path)
    assert len(before) == 2
    again = JOB.run(spark, options)
    assert (again.facts["isThere"], again.written, _files(tmp_path)) == (True, (), before)

    # It has grown since, and a part of it stands in another file.
    file.write_text("\n".join([*lines, _sample(AT_MS + 5, 21)]))
    copy = tmp_path / "copy.jsonl"
    copy.write_text(lines[0])
    grown = JOB.run(spark, JobOptions(now_ms=AT_MS, tables=str(tmp_path), recordings=(str(file), str(copy))))
    assert (grown.facts["sampleCount"], grown.facts["newSampleCount"]) == (4, 1)
    assert before.items() < _files(tmp_path).items()
    rows = _rows(spark, tmp_path)
    assert rows.total() == len(rows) == 8
    merged = JOB.run(
        spark, JobOptions(now_ms=AT_MS + HOUR_MS, tables=str(tmp_path), recordings=(str(file),), compact=True)
    )
    assert (merged.facts["isThere"], merged.facts["mergedHourCount"]) == (True, 1)
    assert _rows(spark, tmp_path) == rows
    assert JOB.run(spark, options).facts["isThere"] is True


def test_recordings_that_can_t_be_read(spark: SparkSession, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text(f"{_sample(AT_MS, 1)}\n{{")
    for name, kind, sentence in (
        (str(broken), UsageError, "broken.jsonl, line 2: the line is not complete JSON"),
        (str(tmp_path / "none"), NotFoundError, "none does not exist"),
        (str(tmp_path), UsageError, "Cannot read .*: Is a directory"),
    ):
        with pytest.raises(kind, match=sentence):
            JOB.run(spark, JobOptions(now_ms=AT_MS, tables=str(tmp_path / "t"), recordings=(name,)))
    assert not (tmp_path / "t").exists()


# Merging


def _made(run_id: str, at_ms: int, part: str, offset: int = 5, queue_count: int = 4) -> list[tuple[Any, ...]]:
    micros = at_ms * 1000
    return [
        (run_id, micros, "C", "G", "T", "broker-a", queue, 0, 9, offset, 9 - offset, micros, "c", True, False,
         *hour_of(at_ms), part)
        for queue in range(queue_count)
    ]  # fmt: skip


class Stopped(Exception):
    """As if the process had ended."""


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path) -> Path:
    """A table whose hour 11 has a merged part and two runs more, its hour 12 a run."""
    folder = tmp_path / "made"
    path = str(folder / OFFSET_SNAPSHOTS)
    old = [row for number in range(3) for row in _made(f"r{number}", AT_MS + number, "merged")]
    write_rows(spark, path, old)
    for run_id in ("r3", "r4"):
        write_rows(spark, path, _made(run_id, AT_MS + 9, run_id))
    write_rows(spark, path, _made("r5", AT_MS + HOUR_MS, "r5"))
    return folder


def _merge(spark: SparkSession, folder: Path) -> compaction.CompactionReport:
    path = str(folder / OFFSET_SNAPSHOTS)
    files = TableFiles.of(spark, path)
    assert files is not None
    return compact(spark, files, path, AT_MS + HOUR_MS)


def test_whatever_ends_a_merging_no_row_is_lost_and_the_next_one_puts_it_right(
    spark: SparkSession, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = _rows(spark, made)
    assert rows.total() == len(rows) == 24
    steps = 0
    limit = 0

    def counting(name: str) -> Callable[..., Any]:
        whole: Callable[..., Any] = getattr(TableFiles, name)

        def step(self: TableFiles, *words: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps > limit:
                raise Stopped(name)
            return whole(self, *words)

        return step

    for name in ("move", "_delete_one", "delete_folder"):
        monkeypatch.setattr(TableFiles, name, counting(name))
    seen_doubled = False
    while True:
        folder = tmp_path / f"after-{limit}"
        shutil.copytree(made, folder)
        steps = 0
        try:
            _merge(spark, folder)
        except Stopped:
            found = _rows(spark, folder)
            assert set(found) == set(rows), limit
            seen_doubled |= found.total() > len(rows)
            wanted, limit = limit, 1000
            _merge(spark, folder)
            limit = wanted
        else:
            break
        assert _rows(spark, folder) == rows, limit
        (file,) = _files(folder, hour_of(AT_MS))
        assert "part=merged" in file
        assert [path.name for path in folder.iterdir()] == [OFFSET_SNAPSHOTS]
        limit += 1
    # One move, three files and two folders, the work folder at the beginning and at the end.
    assert (limit, seen_doubled) == (8, True)
    assert _rows(spark, folder) == rows


def test_what_does_not_add_up_changes_nothing(spark: SparkSession, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _files(made)
    monkeypatch.setattr(compaction, "once_each", lambda rows: rows.where(F.col("queue_id") > 0))
    with pytest.raises(RmqctlError, match="Compaction did not write the rows that it read"):
        _merge(spark, made)
    assert _files(made) == before


def test_what_comes_meanwhile_stays(spark: SparkSession, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows(spark, made)
    late = _made("late", AT_MS + 10, "late")
    whole = TableFiles.move

    def move(self: TableFiles, path: str, folder: str) -> str:
        write_rows(spark, str(made / OFFSET_SNAPSHOTS), late)
        return whole(self, path, folder)

    monkeypatch.setattr(TableFiles, "move", move)
    assert _merge(spark, made) == compaction.CompactionReport(1, 3)
    found = _rows(spark, made)
    assert found.total() == 28
    assert rows <= found
    monkeypatch.undo()
    assert _merge(spark, made) == compaction.CompactionReport(1, 2)
    assert _merge(spark, made) == compaction.CompactionReport(0, 0)
    assert _rows(spark, made) == found


def test_rows_that_stand_twice_are_counted_once_and_the_newer_stays(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / OFFSET_SNAPSHOTS)
    write_rows(spark, path, _made("r", AT_MS, "merged", offset=1) + _made("s", AT_MS, "merged", offset=2))
    # An overwriting was cut short before the old rows were gone; one of the queues is not there any more.
    write_rows(spark, path, _made("r", AT_MS, "r", offset=3, queue_count=3))
    assert _merge(spark, tmp_path) == compaction.CompactionReport(1, 2)
    frame = spark.read.parquet(path)
    assert {(row.run_id, row.queue_id, row.consumer_offset) for row in frame.collect()} == {
        *(("r", queue, 3) for queue in range(3)), ("r", 3, 1), *(("s", queue, 2) for queue in range(4)),
    }  # fmt: skip
    assert frame.count() == 8


def test_plain_parquet_for_other_readers(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow.dataset

    path = str(tmp_path / OFFSET_SNAPSHOTS)
    write_rows(spark, path, _made("r", AT_MS, "r"))
    table = pyarrow.dataset.dataset(path, partitioning="hive").to_table()
    assert table.num_rows == 4
    row = table.to_pylist()[0]
    assert (row["run_id"], row["hr"], row["part"], row["consumer_offset"]) == ("r", 11, "r", 5)
    assert row["snapshot_ts"].replace(tzinfo=UTC) == datetime(2026, 11, 22, 11, 12, tzinfo=UTC)
    assert {path.suffix for path in Path(path).rglob("*") if path.is_file()} <= {".parquet", ".crc", ""}
