"""The job lag: verdicts and trends of a table of snapshots, made by hand and taken of the sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rmqctl.client.access import Access
from rmqctl.net.clock import SystemClock
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.fleet_whatif.job import JOB as FLEET_WHATIF
from rmqctl.pipeline.jobs.lag.job import JOB
from rmqctl.pipeline.jobs.lag.sums import snapshot_sums
from rmqctl.pipeline.jobs.snapshot.job import JOB as SNAPSHOT
from rmqctl.pipeline.tables.schemas import LAG_TREND, OFFSET_SNAPSHOTS
from rmqctl.rules.health import Observation
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.spark.samples import HOUR_MS, MINUTE_MS, START_MS, snapshot_row, snapshot_table, store_rows, stored_rows
from tests.spark.smoke.smoke_data import create_topic, delete_before, delete_group, leave, put

_Pairs = Sequence[tuple[int | None, int | None]]


def test_each_snapshot_of_a_group_is_summed_up() -> None:
    queues: list[tuple[_Pairs, tuple[str | None, ...]]] = [
        # Set back once.
        (((5, 9), (8, 9), (3, 9), (9, 9)), ("a", None, "b", "b")),
        # Created again: its offset was not set back.
        (((50, 50), (50, 60), (0, 4), (4, 4)), ("a", "a", "a", "c")),
        # Unknown once.
        (((1, 2), (None, 2), (2, 2), (1, 2)), (None,) * 4),
    ]
    rows = [
        snapshot_row("G", Observation(START_MS + at * MINUTE_MS + queue_id, *pair), queue_id=queue_id,
                     client_id=clients[at], run_id=f"r{at}")
        for queue_id, (pairs, clients) in enumerate(queues)
        for at, pair in enumerate(pairs)
    ]  # fmt: skip
    rows.append({**rows[-1], "queue_id": 3, "is_subscribed": False})
    # Rows that are there twice, one with a reset and a change of owners, and a row of another group.
    rows += [rows[0], rows[2], {**rows[0], "consumer_group": "H"}]
    sums = snapshot_sums(snapshot_table(rows))
    found = [tuple(row.values()) for row in sums if row["consumer_group"] == "G"]
    assert found == [
        ("L", "c1", "G", "r0", START_MS, 5, 0, 0),
        ("L", "c1", "G", "r1", START_MS + MINUTE_MS, None, 0, 0),
        ("L", "c1", "G", "r2", START_MS + 2 * MINUTE_MS, 10, 1, 1),
        ("L", "c1", "G", "r3", START_MS + 3 * MINUTE_MS, 1, 1, 1),
    ]
    assert len(sums) == 5


def test_snapshots_of_a_cluster_come_to_verdicts(
    sandbox: ThreadedSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One group stands still, the other follows, each on two brokers."""
    topic, places = "SmokeLag", ("broker-a:0", "broker-b:0")
    create_topic(sandbox, topic, queue_count=1)
    access = Access(name_servers=sandbox.addr, timeout_s=60)
    for number in range(3):
        for place in places:
            put(sandbox, topic, place, [f"{number}-{index}" for index in range(5)])
        leave(sandbox, "SmokeLagStill", topic, {"broker-a:0": 2, "broker-b:0": 3})
        leave(sandbox, "SmokeLagFollows", topic, dict.fromkeys(places, 5 * number + 5))
        now_ms, groups = START_MS + number * MINUTE_MS, ("SmokeLagStill", "SmokeLagFollows")
        monkeypatch.setattr(SystemClock, "now_ms", lambda _, now_ms=now_ms: now_ms)
        options = JobOptions(now_ms=now_ms, access=access, tables=str(tmp_path), groups=groups, topics=(topic,))
        SNAPSHOT.run(None, options)
    page = tmp_path / "page.html"
    outcome = JOB.run(None, JobOptions(now_ms=START_MS + HOUR_MS, tables=str(tmp_path), html=str(page)))

    html = page.read_text()
    assert [html.count(f"Lag of {name} at each snapshot") for name in ("SmokeLagStill", "SmokeLagFollows")] == [1, 1]
    assert "From 5 to 25, maximum 25 at " in html
    trend = {f"{row.consumer_group} {row.broker_name}:{row.queue_id}": row for row in stored_rows(tmp_path, LAG_TREND)}
    assert {
        queue: (row.topic, row.lag_first, row.lag_last, row.lag_max, row.offset_last, row.status)
        for queue, row in trend.items()
    } == {
        "SmokeLagStill broker-a:0": (topic, 3, 13, 13, 2, "STOP"),
        "SmokeLagStill broker-b:0": (topic, 2, 12, 12, 3, "STOP"),
        "SmokeLagFollows broker-a:0": (topic, 0, 0, 0, 15, "OK"),
        "SmokeLagFollows broker-b:0": (topic, 0, 0, 0, 15, "OK"),
    }
    assert [row.produce_rate for row in trend.values()] == [pytest.approx(5 / 60, rel=1e-9)] * 4
    assert [
        (row["group"], row["health"], row["lagAtStart"], row["lag"], row["queueCount"]) for row in outcome.rows
    ] == [
        ("SmokeLagStill", "STOP", 5, 25, 2),
        ("SmokeLagFollows", "OK", 0, 0, 2),
    ]
    assert outcome.rows[0]["worstQueue"] == "SmokeLag@broker-a:0"


def test_what_consumes_nothing_is_told_from_a_lag_of_0(
    spark: SparkSession, sandbox: ThreadedSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted groups, with and without their offsets, and a queue whose unread messages were deleted."""
    create_topic(sandbox, "SmokeGone", queue_count=1)
    put(sandbox, "SmokeGone", "broker-a:0", ["m0", "m1", "m2"])
    for name, offset in {"Read": 3, "Expired": 1, "Deleted": 3, "Kept": 2}.items():
        leave(sandbox, f"SmokeGone{name}", "SmokeGone", {"broker-a:0": offset})
    options = {"access": Access(name_servers=sandbox.addr, timeout_s=60), "groups": ("SmokeGone*",)}

    def take(number: int) -> list[dict[str, Any]]:
        at_ms = START_MS + number * MINUTE_MS
        monkeypatch.setattr(SystemClock, "now_ms", lambda _: at_ms)
        outcome = SNAPSHOT.run(None, JobOptions(now_ms=at_ms, tables=str(tmp_path), **options))
        return [dict(row) for row in outcome.rows if row["state"] == "GONE"]

    assert take(0) == []
    (last,) = put(sandbox, "SmokeGone", "broker-a:0", ["m3"])
    leave(sandbox, "SmokeGoneRead", "SmokeGone", {"broker-a:0": 4})
    delete_before(sandbox, "SmokeGone", last)
    sandbox.call(lambda inner: inner.brokers["broker-a"].store.queue("SmokeGone", 0).drop_before(2**62))
    delete_group(sandbox, "SmokeGoneDeleted", with_offsets=True)
    delete_group(sandbox, "SmokeGoneKept", with_offsets=False)
    assert [row["group"] for row in take(1)] == ["SmokeGoneDeleted"]
    # It is written once.
    assert take(2) == []
    assert take(3) == []

    assert {
        (row.consumer_group, row.lag_messages, row.lag_state, row.is_configured)
        for row in stored_rows(tmp_path, OFFSET_SNAPSHOTS)
        if row.snapshot_ts.timestamp() * 1000 >= START_MS + MINUTE_MS and row.broker_name in (None, "broker-a")
    } == {
        ("SmokeGoneRead", 0, "CAUGHT_UP", True),
        ("SmokeGoneExpired", 0, "EXPIRED", True),
        ("SmokeGoneKept", 0, "EXPIRED", False),
        ("SmokeGoneDeleted", None, "GROUP_GONE", None),
    }
    outcome = JOB.run(None, JobOptions(now_ms=START_MS, tables=str(tmp_path), window="10m"))
    assert {(row["group"], row["health"], row["cause"], row["lag"], row["lost"]) for row in outcome.rows} == {
        ("SmokeGoneRead", "OK", "CAUGHT_UP", 0, 0),
        ("SmokeGoneExpired", "STOP", "NOBODY_COMMITS", 0, 3),
        ("SmokeGoneKept", "GONE", "NOT_CONFIGURED", None, 0),
        ("SmokeGoneDeleted", "GONE", "GROUP_GONE", None, 0),
    }
    assert outcome.shows == {"lost"}
    assert {row.status for row in stored_rows(tmp_path, LAG_TREND) if row.consumer_group == "SmokeGoneKept"} == {"GONE"}
    tried = FLEET_WHATIF.run(spark, JobOptions(now_ms=START_MS + HOUR_MS, tables=str(tmp_path), strategies=("circle",)))
    assert tried.facts["groupCount"] == 2


def test_topics_that_a_group_has_left_are_not_part_of_its_lag(tmp_path: Path) -> None:
    left = {"topic": "Old", "is_subscribed": False}
    samples = [
        snapshot_row(group, Observation(START_MS + at * MINUTE_MS, offset, 10 + at, is_held=offset > 5), **other)
        for at in range(4)
        for group, offset, other in (("G", 10 + at, {"is_subscribed": True}), ("G", 5, left), ("All", 5, left))
    ]
    gone = {"broker_name": None, "queue_id": None, "lag_messages": None}
    samples += [
        # It was there, and is gone since the last snapshot; and one that came back.
        snapshot_row("G", Observation(START_MS, 1, 9), topic="Dropped"),
        snapshot_row(
            "G", Observation(START_MS + MINUTE_MS, None, None), topic="Dropped", lag_state="TOPIC_GONE", **gone
        ),
        snapshot_row(
            "G", Observation(START_MS - MINUTE_MS, None, None), topic="Orders", lag_state="TOPIC_GONE", **gone
        ),
    ]
    store_rows(tmp_path, samples)
    outcome = JOB.run(None, JobOptions(now_ms=START_MS, tables=str(tmp_path), window="10m"))
    found = {row["group"]: row for row in outcome.rows}
    assert {
        name: (row["health"], row["lag"], row["queueCount"], row["leftTopics"], row["goneTopics"])
        for name, row in found.items()
    } == {"G": ("OK", 0, 1, ["Old"], ["Dropped"]), "All": ("LEFT", None, 0, ["Old"], [])}
    assert outcome.shows == {"leftTopics", "goneTopics"}
    assert outcome.facts["groupCounts"]["LEFT"] == 1
