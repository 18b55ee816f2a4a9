"""Tables without Spark: writers that meet, old versions, compaction, the layout of earlier versions."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from rmqctl.errors import RmqctlError, UsageError
from rmqctl.pipeline.jobs.snapshot.rows import SnapshotRun
from rmqctl.pipeline.jobs.snapshot.writing import write_run
from rmqctl.pipeline.tables.conditions import of_cluster
from rmqctl.pipeline.tables.delta import Table, TableChange, TableVersion
from rmqctl.pipeline.tables.frames import require_version
from rmqctl.pipeline.tables.old_layout import Migration, migrate
from rmqctl.pipeline.tables.schemas import LAG_TREND, OFFSET_SNAPSHOTS, arrow_schema
from rmqctl.rules.health import Observation
from tests.cli.calls import call
from tests.spark.samples import HOUR_MS, START_MS, Sample, snapshot_row, snapshot_table, store_rows

_DAY_MS = 24 * HOUR_MS


def _run(label: str, run_id: str, at_ms: int = START_MS, offset: int = 5, queue_count: int = 4) -> list[Sample]:
    look = Observation(at_ms, offset, 9)
    named = {"cluster_label": label, "run_id": run_id}
    return [snapshot_row("G", look, queue_id=queue_id, **named) for queue_id in range(queue_count)]


def _runs(folder: Path) -> Counter[tuple[str, str]]:
    """Return the number of rows of each run, as a reader with its own library sees them."""
    rows = DeltaTable(str(folder / OFFSET_SNAPSHOTS)).to_pyarrow_table(columns=["cluster_label", "run_id"])
    return Counter((row["cluster_label"], row["run_id"]) for row in rows.to_pylist())


def test_a_version_stays_as_it_was_opened(tmp_path: Path) -> None:
    table = Table(str(tmp_path), OFFSET_SNAPSHOTS)
    assert table.version() is None
    store_rows(tmp_path, _run("L", "a"))
    first = require_version(table)
    store_rows(tmp_path, _run("L", "b", START_MS + _DAY_MS))
    rows = snapshot_table(_run("L", "a", offset=7))
    table.change(lambda _version: TableChange(rows, "run_id = 'a'"))
    now = require_version(table)
    assert (first.number, now.number) == (0, 2)
    for version, wanted in ((first, [("2026-11-10", 4)]), (now, [("2026-11-11", 4), ("2026-11-10", 4)])):
        files = version.files
        assert [(file.day, file.row_count) for file in files] == wanted
        assert all(Path(file.path).exists() for file in files)
        assert (files[-1].first_ms, files[-1].last_ms) == (START_MS, START_MS)
    assert now.files_between(START_MS + 1, START_MS + _DAY_MS) == []
    assert [file.day for file in now.files_between(START_MS, START_MS + 1)] == ["2026-11-10"]
    assert now.values("run_id", "cluster_label = 'L'") == {"a", "b"}
    assert now.values("consumer_offset", "run_id = 'a'") == {7}
    assert now.values("run_id", of_cluster("it's")) == set()


def test_a_change_is_planned_again_when_another_came_in_between(tmp_path: Path) -> None:
    table = Table(str(tmp_path), OFFSET_SNAPSHOTS)
    seen: list[int] = []

    def plan(version: TableVersion | None) -> TableChange | None:
        seen.append(-1 if version is None else version.number)
        if len(seen) == 1:
            store_rows(tmp_path, _run("L", "other"))  # makes the table
        if len(seen) == 2:
            rows = snapshot_table(_run("L", "a", offset=1))
            Table(str(tmp_path), OFFSET_SNAPSHOTS).change(lambda _version: TableChange(rows), writer="w")
        if version is not None and "a" in version.values("run_id"):
            return None
        return TableChange(snapshot_table(_run("L", "a")))

    assert table.change(plan, writer="w") is False
    assert seen == [-1, 0, 1]
    assert _runs(tmp_path) == {("L", "other"): 4, ("L", "a"): 4}


_WRITER = """
import json, sys
from pathlib import Path
from tests.spark.smoke.test_tables import snapshot

folder, *todo = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for each in todo:
    print(json.dumps(snapshot(Path(folder), *each.split("/"))), flush=True)
"""


def snapshot(folder: Path, label: str, run_id: str, overwrite: str = "") -> bool:
    """Write a run as the job does once the cluster has answered; return whether the table had it."""
    rows = [tuple(row.values()) for row in snapshot_table(_run(label, run_id)).to_pylist()]
    at = SnapshotRun(run_id, START_MS)
    table = Table(str(folder), OFFSET_SNAPSHOTS)
    return write_run(table, rows, label, at, overwrite=overwrite == "overwrite").lacking_before is not None


def _start(folder: Path, *todo: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WRITER, str(folder), *todo]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())


def _go(writers: Sequence[subprocess.Popen[str]]) -> list[list[bool]]:
    """Let all writers begin at the same moment; return what each said of its runs."""
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    said = []
    for writer in writers:
        out, _ = writer.communicate(timeout=200)
        assert writer.returncode == 0
        said.append([json.loads(line) for line in out.splitlines()])
    return said


def test_snapshots_at_the_same_moment_are_all_there_once(tmp_path: Path) -> None:
    """Two clusters, each with runs of its own, the same named run twice, and one that overwrites it."""
    writers = [
        _start(tmp_path, "one/a", "one/named", "one/b"),
        _start(tmp_path, "one/named", "one/c", "one/named/overwrite"),
        _start(tmp_path, "two/named", "two/a", "two/b"),
    ]
    said = _go(writers)
    # The same id in two clusters is two runs; of one cluster, one of the two came first.
    assert said[2] == [False, False, False]
    assert sorted((said[0][1], said[1][0])) == [False, True]
    assert said[1][2] is True
    assert _runs(tmp_path) == {
        (label, run_id): 4
        for label, ids in (("one", ("a", "b", "c", "named")), ("two", ("a", "b", "named")))
        for run_id in ids
    }


def test_past_days_are_compacted_while_another_writes_and_what_no_version_names_is_deleted(tmp_path: Path) -> None:
    table = Table(str(tmp_path), OFFSET_SNAPSHOTS)
    # Earlier versions of rmqctl did not limit the age of the log.
    write_deltalake(table.root, snapshot_table(_run("L", "r0", START_MS)), partition_by=["dt"])
    for number in range(1, 3):
        store_rows(tmp_path, _run("L", f"r{number}", START_MS + number))
    for number in range(3):
        store_rows(tmp_path, _run("L", f"s{number}", START_MS + _DAY_MS + number))
    before = _runs(tmp_path)
    writer = _start(tmp_path, *(f"two/{number}" for number in range(10)))
    _go([writer])
    assert table.compact("2026-11-11") == (13, 1)
    assert table.compact("2026-11-11") == (0, 0)
    assert DeltaTable(table.root).metadata().configuration == {"delta.logRetentionDuration": "interval 1 days"}
    found = _runs(tmp_path)
    assert found == before + Counter({("two", str(number)): 4 for number in range(10)})
    assert [file.day for file in require_version(table).files] == ["2026-11-11"] * 3 + ["2026-11-10"]
    # What a killed writer left behind, and what the compaction replaced.
    orphan = tmp_path / OFFSET_SNAPSHOTS / "dt=2026-11-10" / "part-left.parquet"
    pq.write_table(snapshot_table(_run("L", "killed")), orphan)
    assert table.vacuum(1) == 0
    assert table.vacuum(0) == 14
    assert not orphan.exists()
    assert _runs(tmp_path) == found


def test_a_path_that_delta_or_spark_would_change_is_refused(tmp_path: Path) -> None:
    for name in ("a%20b", "a*", "a?b", "a[b]", "{a}"):
        with pytest.raises(UsageError, match="must not contain"):
            Table(str(tmp_path / name), OFFSET_SNAPSHOTS)
    odd = tmp_path / "an odd, ü 'name'"
    store_rows(odd, _run("L", "a"))
    (file,) = require_version(Table(str(odd), OFFSET_SNAPSHOTS)).files
    assert Path(file.path).exists()


@pytest.mark.parametrize("kind", ["file", "log", "folder"])
def test_a_table_that_cannot_be_read_is_no_missing_one(tmp_path: Path, kind: str) -> None:
    root = tmp_path / OFFSET_SNAPSHOTS
    if kind == "file":
        root.write_text("x")
    elif kind == "log":
        store_rows(tmp_path, _run("L", "a"))
        (root / "_delta_log" / "00000000000000000000.json").write_text("{")
    else:
        (root / "_delta_log").mkdir(parents=True)
        (root / "_delta_log" / "00000000000000000003.json").write_text("{}")
    with pytest.raises(RmqctlError, match="Cannot"):
        Table(str(tmp_path), OFFSET_SNAPSHOTS).version()


def test_the_commands_for_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def items(*words: str) -> list[dict[str, Any]]:
        done = call(capsys, "pipeline", *words, "-o", "json")
        assert (done.code, done.err) == (0, "")
        return list(json.loads(done.out)["items"])

    folder = str(tmp_path)
    for words in (("tables", folder), ("optimize", folder), ("migrate", folder, "--cluster-label", "L")):
        done = call(capsys, "pipeline", *words)
        assert (done.code, done.out) == (5, "")
    assert call(capsys, "pipeline", "tables", folder, "--files", "lag_trend").code == 5
    assert call(capsys, "pipeline", "optimize", folder, "--retention", "30m").code == 2
    _store_old(tmp_path, "r", _run("", "r"))
    assert call(capsys, "pipeline", "tables", folder).code == 1
    (moved,) = items("migrate", folder, "-n", "ns:9876")
    assert (moved["table"], moved["state"], moved["rowCount"], moved["clusterLabel"]) == (
        OFFSET_SNAPSHOTS, "MIGRATED", 4, "ns:9876",
    )  # fmt: skip
    assert items("migrate", folder, "--cluster-label", "L")[0]["state"] == "CURRENT"
    store_rows(tmp_path, _run("L", "new"))
    (merged,) = items("optimize", folder)
    assert (merged["mergedFileCount"], merged["newFileCount"], merged["deletedFileCount"]) == (2, 1, 0)
    (table,) = items("tables", folder)
    assert (table["version"], table["rowCount"], table["fileCount"]) == (2, 8, 1)
    assert table["firstTimestampIso"] == "2026-11-10T09:00:00.000Z"
    (file,) = items("tables", folder, "--files", OFFSET_SNAPSHOTS)
    assert pq.read_metadata(file["path"]).num_rows == file["rowCount"] == 8


# The layout of earlier versions


def _store_old(folder: Path, part: str, samples: Sequence[Sample]) -> None:
    """Write rows as earlier versions did."""
    path = folder / OFFSET_SNAPSHOTS / "dt=2026-11-10" / "hr=9" / f"part={part}"
    path.mkdir(parents=True, exist_ok=True)
    rows = snapshot_table(samples).drop_columns(["cluster_label", "dt"])
    pq.write_table(rows, path / "rows.snappy.parquet")


def test_tables_of_earlier_versions_are_moved_once(tmp_path: Path) -> None:
    store = Table(str(tmp_path), OFFSET_SNAPSHOTS)
    assert migrate(str(tmp_path), OFFSET_SNAPSHOTS, "L") is None
    # An overwriting was cut short before the old rows were gone; one of the queues is not there any more.
    _store_old(tmp_path, "merged", [*_run("", "r", offset=1), *_run("", "s", offset=2)])
    _store_old(tmp_path, "r", _run("", "r", offset=3, queue_count=3))
    trend = tmp_path / LAG_TREND / "window_s=3600" / "dt=2026-11-10" / "hr=9"
    trend.mkdir(parents=True)
    pq.write_table(pa.table({"consumer_group": ["G"], "lag_max": pa.array([7], pa.int64())}), trend / "x.parquet")
    with pytest.raises(RmqctlError, match="earlier version"):
        store.version()
    assert migrate(str(tmp_path), OFFSET_SNAPSHOTS, "100%25") == Migration(2, 8, 3)
    assert migrate(str(tmp_path), OFFSET_SNAPSHOTS, "other") is None
    assert migrate(str(tmp_path), LAG_TREND, "L") == Migration(1, 1, 0)
    rows = DeltaTable(str(tmp_path / OFFSET_SNAPSHOTS)).to_pyarrow_table()
    assert sorted((row["run_id"], row["queue_id"], row["consumer_offset"]) for row in rows.to_pylist()) == [
        *(("r", queue, 3) for queue in range(3)), ("r", 3, 1), *(("s", queue, 2) for queue in range(4)),
    ]  # fmt: skip
    assert set(rows.column("cluster_label").to_pylist()) == {"100%25"}
    (row,) = DeltaTable(str(tmp_path / LAG_TREND)).to_pyarrow_table().to_pylist()
    assert (row["window_s"], row["dt"], row["lag_max"], row["cluster_label"]) == (3600, "2026-11-10", 7, "L")
    assert set(row) == set(arrow_schema(LAG_TREND).names)
    # New rows come into the same table, and the old files go.
    store_rows(tmp_path, _run("L", "new"))
    assert store.vacuum(0) == 2
    assert _runs(tmp_path) == {("100%25", "r"): 4, ("100%25", "s"): 4, ("L", "new"): 4}


def test_an_old_file_that_cannot_be_read_leaves_everything_as_it_was(tmp_path: Path) -> None:
    _store_old(tmp_path, "r", _run("", "r"))
    bad = tmp_path / OFFSET_SNAPSHOTS / "dt=2026-11-10" / "hr=9" / "part=r" / "bad.parquet"
    bad.write_text("no Parquet")
    with pytest.raises(RmqctlError, match=r"bad\.parquet"):
        migrate(str(tmp_path), OFFSET_SNAPSHOTS, "L")
    assert not (tmp_path / OFFSET_SNAPSHOTS / "_delta_log").exists()
    bad.unlink()
    assert migrate(str(tmp_path), OFFSET_SNAPSHOTS, "L") == Migration(1, 4, 0)


def test_a_process_that_was_killed_before_its_first_commit_left_no_table(tmp_path: Path) -> None:
    store_rows(tmp_path, _run("L", "killed"))
    shutil.rmtree(tmp_path / OFFSET_SNAPSHOTS / "_delta_log")
    table = Table(str(tmp_path), OFFSET_SNAPSHOTS)
    assert table.version() is None
    assert migrate(str(tmp_path), OFFSET_SNAPSHOTS, "L") is None
    store_rows(tmp_path, _run("L", "a"))
    assert _runs(tmp_path) == {("L", "a"): 4}
    assert table.vacuum(0) == 1


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RmqctlError, match="Cannot"):
        store_rows(tmp_path / "file" / "below", _run("L", "a"))


def test_the_table_grows_by_columns_of_later_versions(tmp_path: Path) -> None:
    rows = snapshot_table(_run("L", "a"))
    Table(str(tmp_path), OFFSET_SNAPSHOTS).change(lambda _version: TableChange(rows.drop_columns(["is_none_stored"])))
    store_rows(tmp_path, _run("L", "b"))
    version = require_version(Table(str(tmp_path), OFFSET_SNAPSHOTS))
    assert version.values("is_none_stored", "run_id = 'a'") == {None}
    assert version.values("run_id") == {"a", "b"}
