"""The job snapshot: offsets of the sandbox into a table, by the rules of offset show."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import Row, SparkSession

from rmqctl.admin.offsets.fleet import FleetProgress
from rmqctl.admin.offsets.group import fetch_matching_progress
from rmqctl.admin.offsets.reading import GroupProgress
from rmqctl.client.access import Access
from rmqctl.errors import NotFoundError, UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.net.clock import SystemClock
from rmqctl.pipeline.asking import ask_cluster
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.snapshot.job import JOB
from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import closed_address, spawn
from tests.spark.samples import rows_of, stored_rows
from tests.spark.smoke.smoke_data import create_topic, delete_before, leave, put

_AT_MS = 1_795_345_920_000  # 2026-11-22T11:12:00Z
_GROUP = "SmokeSnapGroup"


def _seed(sandbox: ThreadedSandbox) -> int:
    """Have a group with a queue of each kind; return when its last messages were stored."""
    create_topic(sandbox, "SmokeSnap", queue_count=3)
    put(sandbox, "SmokeSnap", "broker-a:0", [f"m{number}" for number in range(10)])
    cut = put(sandbox, "SmokeSnap", "broker-a:1", [f"m{number}" for number in range(8)])
    put(sandbox, "SmokeSnap", "broker-b:0", ["m0", "m1"])
    put(sandbox, "SmokeSnap", "broker-b:1", ["m0", "m1", "m2"])
    leave(sandbox, _GROUP, "SmokeSnap", {"broker-a:0": 4, "broker-a:1": 2, "broker-b:0": 2})
    delete_before(sandbox, "SmokeSnap", cut[5])
    return sandbox.call(lambda inner: inner.clock.now_ms())


def _taken(spark: SparkSession, folder: Path) -> dict[str, Row]:
    rows = rows_of(spark, folder, OFFSET_SNAPSHOTS).collect()
    return {f"{row.topic}@{row.broker_name}:{row.queue_id}": row for row in rows}


def _shown(access: Access, group: str) -> GroupProgress:
    async def ask() -> GroupProgress:
        async with await access.connect() as client:
            ((found,), _) = await fetch_matching_progress(client, [group])
            return found

    return asyncio.run(ask())


def _ms(at: Any) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


def test_a_snapshot_has_what_was_stored(
    spark: SparkSession, sandbox: ThreadedSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_ms = _seed(sandbox)
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: _AT_MS)
    access = Access(name_servers=sandbox.addr, timeout_s=60)
    chosen: dict[str, Any] = {"tables": str(tmp_path), "groups": (_GROUP,), "topics": ("SmokeSnap",), "run_id": "one"}
    # The command began an hour earlier: Spark took that long.
    options = JobOptions(now_ms=_AT_MS - 3_600_000, access=access, **chosen)
    outcome = JOB.run(spark, options)

    taken = _taken(spark, tmp_path)
    # Minimum, maximum, the group's offset, lag, and whether the broker said that nothing is stored.
    assert {
        queue: (row.min_offset, row.max_offset, row.consumer_offset, row.lag_messages, row.is_none_stored)
        for queue, row in taken.items()
    } == {
        "SmokeSnap@broker-a:0": (0, 10, 4, 6, False),
        # 2 to 4 are deleted: they are lost, and no lag.
        "SmokeSnap@broker-a:1": (5, 8, 2, 3, False),
        # Wherever a consumer starts in an empty queue, there is nothing for it.
        "SmokeSnap@broker-a:2": (0, 0, None, 0, True),
        "SmokeSnap@broker-b:0": (0, 2, 2, 0, False),
        # Where a consumer will start is not known, so its lag is not.
        "SmokeSnap@broker-b:1": (0, 3, None, None, True),
        "SmokeSnap@broker-b:2": (0, 0, None, 0, True),
    }
    assert {
        queue: (row.min_offset, row.max_offset, row.consumer_offset, row.lag_messages, _ms(row.last_consume_ts))
        for queue, row in taken.items()
    } == {
        str(row.mq): (row.min_offset, row.max_offset, row.consumer_offset, row.lag, row.last_timestamp_ms)
        for row in _shown(access, _GROUP).rows
        if row.mq.topic == "SmokeSnap"
    }
    assert {_ms(taken[f"SmokeSnap@broker-{place}"].last_consume_ts) for place in ("a:0", "b:0")} == {stored_ms}
    assert {
        (row.cluster_label, row.run_id, _ms(row.snapshot_ts), row.cluster, row.consumer_group, row.dt)
        for row in taken.values()
    } == {(options.label(), "one", _AT_MS, "DefaultCluster", _GROUP, "2026-11-22")}
    assert [
        (row["group"], row["state"], row["queueCount"], row["lag"], row["lagAtLeast"], row["unknownCount"])
        for row in outcome.rows
    ] == [(_GROUP, "EMPTY", 6, None, 9, 1)]

    # The same run again: nobody is asked, nothing changes.
    nobody = Access(name_servers=closed_address(), timeout_s=60)
    again = JOB.run(spark, JobOptions(now_ms=_AT_MS, access=nobody, cluster_label=options.label(), **chosen))
    assert (again.facts["isThere"], again.written) == (True, ())
    assert _taken(spark, tmp_path) == taken


def test_a_run_that_lacks_answers_gives_way_to_one_that_has_them(sandbox: ThreadedSandbox, tmp_path: Path) -> None:
    topic, group = "SmokeSnapAgain", "SmokeSnapAgainGroup"
    create_topic(sandbox, topic, queue_count=1)
    leave(sandbox, group, topic, {"broker-a:0": 0})
    access = Access(name_servers=sandbox.addr, timeout_s=60)
    silent = Failure("broker-b", "offsets", UnreachableError("broker-b", "it is silent"))

    def taken(failures: tuple[Failure, ...]) -> tuple[int, bool, int]:
        """Take the run when these parts do not answer: rows written, whether it was there, failures."""

        def ask(work: Any) -> FleetProgress:
            return replace(ask_cluster(access, work), failures=failures)

        options = JobOptions(now_ms=_AT_MS, access=access, ask=ask, tables=str(tmp_path), groups=(group,), run_id="one")
        done = JOB.run(None, options)
        return sum(each.row_count or 0 for each in done.written), bool(done.facts["isThere"]), len(done.failures)

    assert taken((silent, silent)) == (2, False, 2)
    assert taken((silent, silent)) == (0, True, 2)
    assert taken((silent,)) == (2, False, 1)
    assert taken(()) == (2, False, 0)
    assert taken((silent,)) == (0, True, 0)


def test_queues_of_a_broker_that_is_not_listed_any_more_are_unknown(
    sandbox: ThreadedSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = "SmokeSnapUnlisted", "SmokeSnapUnlistedGroup"
    create_topic(sandbox, topic, queue_count=1)
    leave(sandbox, group, topic, {"broker-a:0": 0, "broker-b:0": 0})
    access = Access(name_servers=sandbox.addr, timeout_s=60)

    def without_b(work: Any) -> FleetProgress:
        fleet = ask_cluster(access, work)
        groups = [
            replace(each, rows=tuple(row for row in each.rows if row.mq.broker_name != "broker-b"))
            for each in fleet.groups
        ]
        return replace(fleet, groups=tuple(groups), clusters={"broker-a": "C"}, unlisted=frozenset({"broker-b"}))

    for number, ask in enumerate((None, without_b)):
        monkeypatch.setattr(SystemClock, "now_ms", lambda _, at_ms=_AT_MS + number: at_ms)
        options = JobOptions(now_ms=_AT_MS, access=access, ask=ask, tables=str(tmp_path), groups=(group,))
        done = JOB.run(None, options)
    (row,) = done.rows
    assert (row["queueCount"], row["lag"], row["unknownCount"]) == (2, None, 1)
    rows = [each for each in stored_rows(tmp_path, OFFSET_SNAPSHOTS) if each.topic == topic]
    assert sorted((row.broker_name, row.lag_state, row.max_offset) for row in rows if row.lag_messages is None) == [
        ("broker-b", "BROKER_NOT_REGISTERED", None),
    ]  # fmt: skip

    def without_group(_: Any) -> FleetProgress:
        raise NotFoundError("Group", group)

    options = JobOptions(now_ms=_AT_MS, access=access, ask=without_group, tables=str(tmp_path), groups=(group,))
    with pytest.raises(NotFoundError, match="No broker that is registered has group") as caught:
        JOB.run(None, options)
    assert "Earlier snapshots have it on broker-a, broker-b." in (caught.value.hint or "")


# No Java, and no package of Spark: as on a machine with the extra `tables` alone.
_WITHOUT_SPARK = """
import re, sys, tomllib
with open("pyproject.toml", "rb") as file:
    extras = tomllib.load(file)["project"]["optional-dependencies"]
spark, tables = ({re.match(r"\\w+", each)[0] for each in extras[name]} for name in ("spark", "tables"))
absent = {*(spark - tables), "py4j"}
for finder in sys.meta_path:
    def find(name, path=None, target=None, before=finder.find_spec):
        return None if name.partition(".")[0] in absent else before(name, path, target)
    finder.find_spec = find
from rmqctl.__main__ import main
main()
"""


def test_alone_it_needs_no_spark(spark: SparkSession, sandbox: ThreadedSandbox, tmp_path: Path) -> None:
    topic, group = "SmokeSnapAlone", "SmokeSnapAloneGroup"
    create_topic(sandbox, topic, queue_count=1)
    put(sandbox, topic, "broker-a:0", ["m0", "m1", "m2"])
    leave(sandbox, group, topic, {"broker-a:0": 1})
    recording = tmp_path / "watched.jsonl"
    record = ("watch", group, "--record", str(recording), "--rounds", "1")
    env = {**os.environ, "JAVA_HOME": str(tmp_path), "RMQCTL_STATE": str(tmp_path / "state")}
    access = ("-n", sandbox.addr, "--timeout", "60s")
    take = (*access, "pipeline", "run", "snapshot", "--tables", str(tmp_path), "--cluster-label", "L", "-o", "json")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return spawn(*words, code=_WITHOUT_SPARK, env=env)

    assert run(*access, *record).returncode == 0
    for words in (("--group", group), ("--recording", str(recording))):
        done = run(*take, *words)
        assert (done.returncode, done.stderr) == (0, "")
    judged = run("pipeline", "run", "slo", "--tables", str(tmp_path), "--max-lag", f"{group}=1", "-o", "json")
    assert (judged.returncode, judged.stderr) == (0, "")
    assert [(row["group"], row["lagMax"]) for row in json.loads(judged.stdout)["items"]] == [(group, 2)]
    done = run("pipeline", "run", "lag", "--tables", str(tmp_path), "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert [(row["group"], row["lag"]) for row in json.loads(done.stdout)["items"]] == [(group, 2)]
    rows = rows_of(spark, tmp_path, OFFSET_SNAPSHOTS).where("topic = 'SmokeSnapAlone' and broker_name = 'broker-a'")
    assert [(row.consumer_offset, row.max_offset, row.lag_messages) for row in rows.collect()] == [(1, 3, 2)] * 2
    # Together with a job that needs Spark, and where a master is named, it is missing.
    for words in (("fleet-whatif", "--strategy", "circle"), ("--master", "local[1]")):
        done = run(*take, *words)
        assert (done.returncode, "PySpark is not installed" in done.stderr) == (2, True), done.stderr
