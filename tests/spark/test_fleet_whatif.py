"""fleet-whatif: from the table of snapshots to the table of trials, and what is said of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

import rmqctl
from rmqctl.client.access import Access
from rmqctl.errors import NotFoundError, UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.jobs.definition import JobOptions, JobResult
from rmqctl.pipeline.jobs.fleet_whatif.fleet import STRATEGIES
from rmqctl.pipeline.jobs.fleet_whatif.job import JOB
from rmqctl.pipeline.jobs.snapshot.job import JOB as SNAPSHOT
from rmqctl.pipeline.run import check_options
from rmqctl.pipeline.tables.delta import Table, TableChange
from rmqctl.pipeline.tables.schemas import ALLOC_WHATIF, OFFSET_SNAPSHOTS, arrow_schema
from rmqctl.rules.allocate import Options
from rmqctl.whatif.allocation import try_strategy
from rmqctl.whatif.changes import TrialChanges
from rmqctl.whatif.group_snapshot import GroupSnapshot, LiveGroup, SnapshotMember
from rmqctl.whatif.outcome import Work
from tests.real.harness.cluster import Cluster

from .samples import rows_of

_AT = datetime(2026, 11, 22, 10, 30, tzinfo=UTC)
_NOW_MS = int(_AT.timestamp() * 1000) + 60_000
_CHANGES = {
    "none": TrialChanges(),
    "+1 client": TrialChanges(add_clients=(1,)),
    "-1 client": TrialChanges(remove_clients=(1,)),
}

# Group -> topic -> who holds which queue of broker-a and broker-b in turn; "-" is nobody, "?" is not known.
_Estate = Mapping[str, Mapping[str, Sequence[str]]]
_ESTATE: _Estate = {
    "even": {"Orders": ["c1", "c1", "c2", "c2"]},
    "skewed": {"Orders": ["c1"] * 7 + ["c2"], "Bills": ["c2", "c2", "c3"]},
    "idle": {"Bills": ["c1", "c2", "c1"], "Left": ["-", "-"]},
    "off": {"Orders": ["-"] * 4},
    "silent": {"Orders": ["c1", "?", "?", "c1"]},
    "cast": {"Orders": ["c1", "several"]},
}
_TRIED = ("even", "skewed", "idle")


def _lag(group: str, topic: str, index: int) -> int | None:
    return None if (group, topic, index) == ("idle", "Bills", 2) else 10 * index + len(group)


def _queue(topic: str, index: int) -> MessageQueue:
    return MessageQueue(topic, f"broker-{'ab'[index % 2]}", index // 2)


def _snapshot(estate: _Estate, at: datetime = _AT, run_id: str = "r1", **values: Any) -> list[dict[str, Any]]:
    return [
        {
            "cluster_label": "L", "run_id": run_id, "snapshot_ts": at, "cluster": "DefaultCluster",
            "consumer_group": group,
            **dict(zip(("topic", "broker_name", "queue_id"), _queue(topic, index), strict=True)),
            "lag_messages": _lag(group, topic, index), "client_id": holder if holder[0] == "c" else None,
            "is_held": {"-": False, "?": None}.get(holder, True),
            "dt": f"{at:%Y-%m-%d}", **values,
        }
        for group, topics in estate.items()
        for topic, holders in topics.items()
        for index, holder in enumerate(holders)
    ]  # fmt: skip


class _Tables:
    """A folder of tables, its snapshots and what the job makes of them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, str(folder)

    def take(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a snapshot."""
        frame = pa.Table.from_pylist(list(rows), schema=arrow_schema(OFFSET_SNAPSHOTS))
        Table(self.folder, OFFSET_SNAPSHOTS).change(lambda _version: TableChange(frame))

    def run(self, **options: Any) -> JobResult:
        """Run the job as the command line would."""
        given = JobOptions(now_ms=_NOW_MS, tables=self.folder, **options)
        check_options([JOB], given, {"tables": "--tables"})
        return JOB.run(self.spark, given)

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows of the table that the job writes, in order."""
        found = rows_of(self.spark, Path(self.folder), ALLOC_WHATIF).collect()
        return sorted((row.asDict() for row in found), key=lambda row: json.dumps(row, default=str))


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> _Tables:
    return _Tables(spark, tmp_path)


def _live(group: str) -> tuple[GroupSnapshot, Work]:
    """Return a group of the estate as what-if finds a running one, whose members say what they hold."""
    held: dict[str, set[MessageQueue]] = {}
    lag: dict[MessageQueue, int | None] = {}
    for topic, holders in _ESTATE[group].items():
        for index, holder in enumerate(holders):
            if holder != "-":
                held.setdefault(holder, set()).add(_queue(topic, index))
                lag[_queue(topic, index)] = _lag(group, topic, index)
    members = {client_id: SnapshotMember(frozenset(queues), None, None, None) for client_id, queues in held.items()}
    live = LiveGroup(group, members, (), {}, {}, None, None, None, None, {})
    return GroupSnapshot(tuple(lag), tuple(members), live), Work(lag=lag)


def test_numbers_are_those_of_what_if_on_the_running_group(tables: _Tables) -> None:
    tables.take(_snapshot(_ESTATE))
    outcome = tables.run()
    rows = {(row["consumer_group"], row["strategy"], row["change"]): row for row in tables.rows()}
    assert outcome.written[0].row_count == len(rows) == len(_TRIED) * 6 * 3 + 3
    for group in _TRIED:
        snapshot, work = _live(group)
        for name, changes in _CHANGES.items():
            for strategy in STRATEGIES:
                trial = try_strategy(snapshot, changes, strategy, Options(), current=None, work=work)
                row, balance = rows.pop((group, strategy, name)), trial.outcome.balance
                assert row["moved_count"] == len(trial.outcome.moved), (group, strategy, name)
                assert row["most_moved_count"] == trial.most_moved_count
                assert (row["least_queues"], row["most_queues"]) == (balance.queues.least, balance.queues.most)
                assert row["queue_deviation"] == pytest.approx(balance.queues.deviation, rel=1e-12)
                # Of one queue of "idle" the lag is not known.
                assert (row["lag_deviation"] is None) == (balance.lag is None) == (group == "idle")
                if balance.lag is not None:
                    assert (row["least_lag"], row["most_lag"]) == (balance.lag.least, balance.lag.most)
                    assert row["lag_deviation"] == pytest.approx(balance.lag.deviation, rel=1e-12)
                assert row["topics"] == list(snapshot.topics)
                assert (row["state"], row["reason"], row["reason_code"]) == ("TRIED", None, None)
    assert {(group, row["reason_code"]) for (group, *_), row in rows.items()} == {
        ("off", "NO_OWNERS"), ("silent", "OWNERS_UNKNOWN"), ("cast", "SEVERAL_OWNERS"),
    }  # fmt: skip
    assert {row["state"] for row in rows.values()} == {"SKIPPED"}


def test_what_is_said(tables: _Tables) -> None:
    tables.take(_snapshot(_ESTATE))
    outcome = tables.run(changes=("none", "-2 clients"), strategies=("AVG", "machine-room"))
    assert [(row["strategy"], row["change"]) for row in outcome.rows] == [
        ("averagely", "none"), ("machine-room", "none"), ("averagely", "-2 clients"), ("machine-room", "-2 clients"),
    ]  # fmt: skip
    none, rooms, fewer, neither = outcome.rows
    # even: c1 had a:0 b:0, c2 a:1 b:1; c1 gets a:0 a:1: 2 move. idle: c1 had a:0 a:1, c2 b:0, as they get: none moves.
    # skewed: c1 had Orders a:0 to b:2, c2 b:3; c1 gets a:0 to a:2, c2 a:3 b:0 b:1, c3 b:2 b:3: 5 move. c2 had Bills
    # a:0 b:0, c3 a:1; c1, c2 and c3 get a:0, a:1 and b:0: 3 move.
    assert (none["groupCount"], none["refusedCount"], none["movedCount"]) == (3, 0, 10)
    assert none["movedShare"] == pytest.approx(10 / (4 + 11 + 3))
    # skewed: 4, 4, 3 of 11 is as even as can be.
    assert (none["queueImbalanceMean"], none["queueImbalanceMax"]) == (1, 1)
    # even: 4 + 24 (a:0 a:1) and 14 + 34 (b:0 b:1) of 76. skewed: lag is 10 x index + 6.
    # c1 Orders 0 2 4, Bills 0: 18 + 60 + 6 = 84; c2 Orders 6 1 3, Bills 2: 18 + 100 + 26 = 144;
    # c3 Orders 5 7, Bills 1: 12 + 120 + 16 = 148; all: 376. The largest queue has 76.
    assert none["lagImbalanceMax"] == pytest.approx(48 / 38)
    assert none["lagImbalanceMean"] == pytest.approx((48 / 38 + 148 / (376 / 3)) / 2)
    assert none["worstGroup"] == "even"
    assert [worst["group"] for worst in none["worstGroups"]] == ["even", "skewed", "idle"]
    assert (rooms["groupCount"], rooms["refusedCount"], rooms["movedShare"]) == (0, 3, None)
    assert rooms["refusal"] == "The strategy machine-room needs the rooms."
    assert (rooms["worstGroup"], rooms["worstGroups"]) == (None, [])
    # Only skewed has three clients.
    assert (fewer["groupCount"], fewer["refusedCount"], fewer["refusal"]) == (1, 2, "No client would be left.")
    assert (neither["groupCount"], neither["refusedCount"]) == (0, 3)

    facts = outcome.facts
    assert (facts["groupCount"], facts["triedGroupCount"], facts["skippedGroupCount"]) == (6, 3, 3)
    assert facts["newestSnapshotTimestampIso"] == facts["oldestSnapshotTimestampIso"] == "2026-11-22T10:30:00.000Z"
    assert facts["skipped"][0] == {
        "code": "NO_OWNERS", "groupCount": 1,
        "groups": [
            {
                "clusterLabel": "L", "cluster": "DefaultCluster", "group": "off",
                "reason": "No client held any of its queues.",
            },
        ],
    }  # fmt: skip
    assert outcome.notes[0] == (
        "3 groups of 6 could not be tried: cast (SEVERAL_OWNERS), off (NO_OWNERS), silent (OWNERS_UNKNOWN)."
    )
    json.dumps([outcome.rows, facts], allow_nan=False)


def test_twice_changes_nothing_and_other_rows_stay(tables: _Tables) -> None:
    tables.take(_snapshot(_ESTATE))
    tables.take(_snapshot({"even": {"Orders": ["c1", "c2", "c2", "c2"]}}, _AT - timedelta(hours=1), "r0"))
    assert tables.run(until="2026-11-22T10:00Z").facts["groupCount"] == 1
    first = tables.rows()

    tables.run()
    both = tables.rows()
    assert len(both) == len(first) + 6 * 3 * 3 + 3
    assert [row for row in both if row["run_id"] == "r0"] == first
    tables.run()
    assert tables.rows() == both

    # One group, one strategy, a change of its own: its rows come to those that are there.
    tables.run(groups=("ev*",), strategies=("sticky",), changes=("+2 clients", "none"))
    now = tables.rows()
    assert [row for row in now if row["change"] != "+2 clients"] == both
    assert [row["consumer_group"] for row in now if row["change"] == "+2 clients"] == ["even"]


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)


def test_of_each_group_the_last_snapshot_counts(tables: _Tables) -> None:
    earlier = _AT - timedelta(hours=2)
    tables.take(_snapshot({"even": {"Orders": ["c1", "c2"]}, "gone": {"Orders": ["c1"]}}, earlier, "r0"))
    tables.take(_snapshot({"even": {"Orders": ["c1", "c1", "c2", "c2"]}}))
    # Rows can be there twice: a store can apply a write whose answer was lost.
    tables.take(_snapshot({"even": {"Orders": ["c1", "c1", "c2", "c2"]}}))
    # A broker's cluster is not always known.
    broken = _snapshot({"split": {"Orders": ["c1", "c1", "c2", "c2"]}}, run_id="r2")
    tables.take([row | {"cluster": None if row["broker_name"] == "broker-b" else row["cluster"]} for row in broken])

    def counts(**options: Any) -> dict[str, int]:
        tables.run(strategies=("averagely",), changes=("none",), **options)
        wanted = _AT if "until" not in options else earlier
        rows = [row for row in tables.rows() if _utc(row["snapshot_ts"]) == wanted or row["consumer_group"] == "gone"]
        return {row["consumer_group"]: row["queue_count"] for row in rows}

    assert counts() == {"even": 4, "gone": 1, "split": 4}
    assert counts(until="2026-11-22T09:00Z") == {"even": 2, "gone": 1}
    outcome = tables.run(since="2026-11-22T09:00Z", changes=("none",))
    assert outcome.facts["groupCount"] == 2
    with pytest.raises(NotFoundError, match=r"^No snapshot was taken since 2026-11-22T10:31:00.000Z\.$"):
        tables.run(since="now")


def test_groups_and_topics_by_name(tables: _Tables) -> None:
    tables.take(_snapshot(_ESTATE))
    outcome = tables.run(topics=("B*",), strategies=("averagely",), changes=("none",))
    # c3 holds a queue of Bills, too.
    assert {(row["consumer_group"], *row["topics"], row["queue_count"], row["client_count"]) for row in tables.rows()}\
        == {("skewed", "Bills", 3, 2), ("idle", "Bills", 3, 2)}  # fmt: skip
    assert outcome.facts["groupCount"] == 2
    for options, sentence in (
        ({"groups": ("Even",)}, "Group Even does not exist."),
        ({"groups": ("x*",)}, "No group matches x*."),
        ({"topics": ("Nothing",)}, "Topic Nothing does not exist."),
        ({"groups": ("even",), "topics": ("Bills",)}, "Topic Bills does not exist."),
    ):
        with pytest.raises(NotFoundError) as caught:
            tables.run(**options)  # type: ignore[arg-type]
        assert caught.value.sentence == sentence


def test_without_snapshots(tables: _Tables) -> None:
    with pytest.raises(NotFoundError, match=r"Table .*/offset_snapshots does not exist\."):
        tables.run()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"strategies": ("circl",)}, "Unknown strategy 'circl'."),
        ({"strategies": ("AVG", "averagely")}, "The strategy averagely is named twice."),
        ({"changes": ("+1 client", "+1 clients")}, "The change +1 client is named twice."),
        ({"changes": ("more",)}, "Invalid change 'more'."),
        ({"since": "now", "until": "1h"}, "--since is after --until."),
        ({"since": "whenever"}, "--since: invalid time 'whenever'"),
    ],
)
def test_mistakes_are_told_before_spark_starts(options: dict[str, Any], sentence: str) -> None:
    assert JOB.check is not None
    with pytest.raises(UsageError) as caught:
        JOB.check(replace(JobOptions(now_ms=_NOW_MS, tables="/nowhere"), **options))
    assert caught.value.sentence.startswith(sentence)


@contextmanager
def _members(cluster: Cluster, topic: str, *names: str) -> Iterator[Callable[[], dict[str, str]]]:
    """Run Java push consumers whose client ids are 10.6.0.1@NAME; give what tells who holds which queue, by Java."""
    java = cluster.java
    for name in names:
        java.consume(f"fleet-{name}", "FleetGroup", topic, instance=name, ip="10.6.0.1")

    def owners() -> dict[str, str]:
        """Return the owner of each queue, once everybody has shared and each queue has one."""
        give_up_at = time.monotonic() + 60
        while True:
            for name in names:
                java.call("rebalance", id=f"fleet-{name}")
            held = [(queue, name) for name in names for queue in java.queues(f"fleet-{name}", topic)]
            if len(held) == len(dict(held)) == 8 and {name for _, name in held} == set(names):
                return dict(held)
            assert time.monotonic() < give_up_at, held
            time.sleep(0.5)

    try:
        yield owners
    finally:
        for name in names:
            java.stop(f"fleet-{name}")


def test_what_is_foretold_of_a_real_group_comes(tables: _Tables, cluster: Cluster) -> None:
    cluster.create_topic("Fleet", queue_count=4)
    cluster.java.produce("Fleet", 40)
    access, folder = Access(name_servers=cluster.namesrv, timeout_s=20), tables.folder
    names = ("m1", "m3", "m5")

    def snapshot_and_run(number: int, *changes: str) -> tuple[list[dict[str, Any]], JobResult]:
        """Do what `pipeline run snapshot fleet-whatif --group FleetGroup` does."""
        given = JobOptions(
            now_ms=_NOW_MS + number, tables=folder, access=access, groups=("FleetGroup",), run_id=f"real-{number}"
        )
        SNAPSHOT.run(tables.spark, given)
        outcome = tables.run(groups=("Fleet*",), topics=("Fleet",), strategies=("averagely",), changes=changes)
        return [row for row in tables.rows() if row["run_id"] == f"real-{number}"], outcome

    with _members(cluster, "Fleet", *names) as owners:
        before = owners()
        cluster.java.wait_consumed(" ".join(f"fleet-{name}" for name in names), 40)
        rows, _ = snapshot_and_run(1, "+client:10.6.0.1@m2", "none")
    with _members(cluster, "Fleet", *sorted((*names, "m2"))) as owners:
        after = owners()
    more, none = rows
    shares = Counter(after.values())
    assert more["moved_count"] == sum(after[queue] != before[queue] for queue in before)
    assert (more["least_queues"], more["most_queues"]) == (min(shares.values()), max(shares.values())) == (2, 2)
    assert (more["queue_count"], more["client_count"], more["cluster"]) == (8, 4, "DefaultCluster")
    # Java shares averagely, too.
    assert (none["moved_count"], none["least_queues"], none["most_queues"]) == (0, 2, 3)

    rows, outcome = snapshot_and_run(2, "none")
    assert [(row["state"], row["reason_code"]) for row in rows] == [("SKIPPED", "NO_OWNERS")]
    assert (outcome.rows, outcome.facts["skippedGroupCount"]) == ([], 1)


_ELSEWHERE = """
import json, sys
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.fleet_whatif.job import JOB
from rmqctl.pipeline.session import start_session

folder, remote = sys.argv[1], sys.argv[2:]
spark = start_session(remote=remote[0]) if remote else start_session()
rows = JOB.run(spark, JobOptions(now_ms=%d, tables=folder)).rows
print(json.dumps([type(spark).__module__, spark.conf.get("spark.submit.pyFiles", ""), rows]))
"""


@pytest.mark.parametrize("place", ["connect", "zip"])
def test_elsewhere(tables: _Tables, tmp_path: Path, place: str) -> None:
    tables.take(_snapshot(_ESTATE))
    expected = [dict(row) for row in tables.run().rows]
    script = tmp_path / "elsewhere.py"
    script.write_text(_ELSEWHERE % _NOW_MS)
    arguments = [str(script), tables.folder]
    if place == "connect":
        command = [sys.executable, *arguments, "local[2]"]
    else:
        source = Path(rmqctl.__file__).parent
        archive = tmp_path / "rmqctl.zip"
        with zipfile.ZipFile(archive, "w") as file:
            for path in source.rglob("*.py"):
                file.write(path, path.relative_to(source.parent))
        conf = ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"]
        conf += ["--conf", "spark.sql.shuffle.partitions=2"]
        submit = str(Path(sys.executable).with_name("spark-submit"))
        command = [submit, "--master", "local-cluster[2,1,1024]", *conf, "--py-files", str(archive), *arguments]
    # JVMs that live so short do better without their second compiler.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "JAVA_TOOL_OPTIONS": quick}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    module, files, rows = json.loads(done.stdout.splitlines()[-1])
    assert (module.startswith("pyspark.sql.connect"), "rmqctl.zip" in files) == (place == "connect", place == "zip")
    assert rows == expected
