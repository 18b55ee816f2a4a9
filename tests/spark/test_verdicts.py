"""The example of docs/spark-jobs.md on real RocketMQ: Burrow's five verdicts, each reached and each avoided."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rmqctl.client.access import Access
from rmqctl.net.clock import SystemClock
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.lag.job import JOB as LAG
from rmqctl.pipeline.jobs.slo.job import JOB as SLO
from rmqctl.pipeline.jobs.snapshot.job import JOB as SNAPSHOT
from rmqctl.pipeline.tables.schemas import LAG_TREND
from tests.cli.calls import closed_address
from tests.real.harness.cluster import Cluster
from tests.real.harness.rmqctl import Rmqctl

from .samples import rows_of

_QUEUE = "broker-a:0"
# Members store their offsets every 5 s, and less than 30 s tell nothing.
_LOOKS, _APART_S = 5, 8.0
# What each group does, and what it comes to; a pair shows the same but for what the verdict is about.
_WANTED = {
    "KeepsUp": ("OK", "CAUGHT_UP"),
    "Falls": ("OK", "LAG_FALLS"),
    "Stays": ("OK", "LAG_STEADY"),
    "Grows": ("WARN", "LAG_GROWS"),
    "Hangs": ("STALL", "STANDS_STILL"),
    "Left": ("STOP", "NOBODY_COMMITS"),
    "Back": ("REWIND", "WENT_BACK"),
    "BackAndOn": ("OK", "LAG_FALLS"),
    "New": ("UNKNOWN", "TOO_FEW_SAMPLES"),
}

# Groups whose only member leaves before anybody looks.
_LEAVING = ("Stays", "Left", "Back", "BackAndOn", "New")


def _begin(cluster: Cluster, name: str, count: int, **options: object) -> None:
    """Start a member that has 10 messages behind it and then gets more."""
    topic = _topic(name)
    cluster.create_topic(topic, queue_count=1, brokers=("broker-a",))
    cluster.java.produce(topic, 10, queue=_QUEUE)
    cluster.java.consume(topic, topic, topic, threads=1, **options)
    cluster.java.wait_consumed(topic, 10)
    cluster.java.persist(topic)
    if name in _LEAVING:
        cluster.java.stop(topic)
    cluster.java.produce(topic, count, queue=_QUEUE, prefix="more", batch=min(count, 100))


def _topic(name: str) -> str:
    return f"Verdict{name}"


def test_a_group_that_dies_after_it_was_caught_up_is_not_ok(
    cluster: Cluster, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snapshots are minutes apart by their own clock, so that the test need not last as long."""
    name, folder = "Dies", tmp_path / "tables"
    _begin(cluster, name, 40)
    cluster.java.wait_consumed(_topic(name), 50)
    cluster.java.persist(_topic(name))
    began_ms = SystemClock().now_ms()
    found = []
    for number in range(8):
        monkeypatch.setattr(SystemClock, "now_ms", lambda _, number=number: began_ms + number * 60_000)
        _look(spark, cluster, folder, [name])
        row = LAG.run(spark, JobOptions(now_ms=0, tables=str(folder))).rows[0]
        found.append((row["health"], row["cause"], row["lag"]))
        if number == 0:
            cluster.java.stop(_topic(name))
        if number == 6:
            cluster.java.consume(f"{_topic(name)}Again", _topic(name), _topic(name))
            cluster.java.wait_consumed(f"{_topic(name)}Again", 60)
            cluster.java.stop(f"{_topic(name)}Again")
        else:
            cluster.java.produce(_topic(name), 10, queue=_QUEUE, prefix=f"round-{number}")
    assert found == [
        *(("OK", "CAUGHT_UP", 10 * number) for number in range(5)),
        *(("WARN", "FALLS_BEHIND", 10 * number) for number in (5, 6)),
        ("OK", "CAUGHT_UP", 0),
    ]
    # A snapshot counts until the next one, and four of them had more than 25 unread messages.
    options = JobOptions(
        now_ms=began_ms + 8 * 60_000, tables=str(folder), max_lags=("25",), since=str(began_ms - 60_000)
    )
    (week,) = SLO.run(None, options).rows
    assert week["outsideCount"] == 1
    assert 239_000 < week["outsideMs"] < 241_000
    assert week["lagMax"] == 60


def _reset(rmqctl: Rmqctl, name: str, offset: int) -> None:
    done = rmqctl("offset", "reset", _topic(name), "--topic", _topic(name), "--to-offset", str(offset), "--yes")
    assert done.exit_code == 0, done.stderr


def _look(spark: SparkSession, cluster: Cluster, folder: Path, groups: list[str]) -> None:
    access = Access(name_servers=cluster.namesrv, timeout_s=10)
    options = JobOptions(
        now_ms=int(time.time() * 1000), access=access, tables=str(folder), groups=tuple(map(_topic, groups))
    )
    assert SNAPSHOT.run(spark, options).row_count


@pytest.fixture
def groups(cluster: Cluster) -> Any:
    yield list(_WANTED)
    for name in _WANTED.keys() - _LEAVING:
        cluster.java.release(_topic(name))
        cluster.java.stop(_topic(name))


def test_each_verdict_is_reached_and_avoided(
    cluster: Cluster, spark: SparkSession, groups: list[str], tmp_path: Path
) -> None:
    rmqctl = Rmqctl(cluster.namesrv)
    _begin(cluster, "KeepsUp", 40)
    _begin(cluster, "Falls", 20_000, each=50)
    _begin(cluster, "Grows", 100, each=50)
    _begin(cluster, "Hangs", 40, stuck="more")
    for name in _LEAVING:
        _begin(cluster, name, 40)
    cluster.java.wait_consumed(_topic("KeepsUp"), 50)
    began_s = time.monotonic()
    for number in range(_LOOKS):
        time.sleep(max(0.0, began_s + number * _APART_S - time.monotonic()))
        if number == 1:
            _reset(rmqctl, "Back", 3)
            _reset(rmqctl, "BackAndOn", 3)
        if number == 3:
            _reset(rmqctl, "BackAndOn", 20)
        # Without a member, the offset moves by exactly as many as arrive.
        cluster.java.produce(_topic("Stays"), 5, queue=_QUEUE, prefix=f"round-{number}")
        _reset(rmqctl, "Stays", 15 + 5 * number)
        # Twenty a second are consumed.
        cluster.java.produce(_topic("Grows"), 400, queue=_QUEUE, batch=100)
        _look(spark, cluster, tmp_path / "tables", [name for name in groups if name != "New" or number >= _LOOKS - 2])

    page = tmp_path / "page.html"
    words = ("--tables", str(tmp_path / "tables"), "--html", str(page), "--window", "15m", "--limit", "100")
    # These jobs need no cluster.
    done = rmqctl("pipeline", "run", "lag", "fleet-whatif", *words, "-o", "json", namesrv=closed_address(), limit_s=200)
    assert (done.exit_code, done.stderr) == (0, "")
    items = done.document["items"]
    judged = {row["group"]: (row["health"], row["cause"]) for row in items if row["job"] == "lag"}
    assert judged == {_topic(name): wanted for name, wanted in _WANTED.items()}
    # In the table windows begin on the hour, so there can be two of a queue.
    rows = rows_of(spark, tmp_path / "tables", LAG_TREND).where("topic LIKE 'Verdict%'").collect()
    sample_counts = Counter[str]()
    for row in rows:
        sample_counts[row.topic] += row.sample_count
    assert sample_counts == {_topic(name): 2 if name == "New" else _LOOKS for name in groups}
    assert not any(row.is_stuck for row in rows)  # that takes a quarter of an hour
    html = page.read_text()
    assert all(_topic(name) in html for name in groups)
    tried = [row for row in items if row["job"] == "fleet-whatif"]
    # Those with members: the others have nobody to share anything.
    assert tried
    assert all(row["groupCount"] + row["refusedCount"] >= 4 for row in tried)
