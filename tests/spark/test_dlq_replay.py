"""The job `dlq-replay` on executors of their own: each dead letter once, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rmqctl.protocol.codes import RequestCode
from tests.real.harness.cluster import Cluster
from tests.real.harness.conditions import wait_until
from tests.real.harness.dead_letters import put_letters
from tests.real.harness.late_relay import DroppingRelay
from tests.real.harness.replay_kills import stored_count

from .by_hand import stored
from .process import RMQCTL, call

_COUNT = 50_000
_EXECUTORS = (
    "--master", "local-cluster[2,1,1024]", "--conf", f"spark.pyspark.python={sys.executable}",
    "--conf", "spark.ui.enabled=false",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)


@pytest.fixture
def letters(cluster: Cluster) -> str:
    """50,000 dead letters of a group of their own on two brokers; the retry topic is there, and no consumer."""
    group = f"Sharded{time.time_ns()}"
    assert call("-n", cluster.namesrv, "group", "create", group, "--yes").returncode == 0
    cluster.create_topic(f"%RETRY%{group}", queue_count=2)
    put_letters(cluster, group, "ShardedOrigin", _COUNT, brokers=("broker-a", "broker-b"))
    return group


def _words(cluster: Cluster, group: str, *more: str) -> list[str]:
    return ["-n", cluster.namesrv, "pipeline", "run", "dlq-replay", "--group", group, "--yes", "-o", "json", *more]


@contextmanager
def _running(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([RMQCTL, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


def _executors(process: subprocess.Popen[str]) -> list[int]:
    """Return the processes of executors below a process."""
    parents: dict[int, int] = {}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            if "CoarseGrainedExecutorBackend" in (folder / "cmdline").read_text():
                found.append(int(folder.name))
        except OSError:
            continue
        parents[int(folder.name)] = int(words[1])

    def is_below(pid: int) -> bool:
        while pid > 1:
            if pid == process.pid:
                return True
            pid = parents.get(pid, 0)
        return False

    return [pid for pid in found if is_below(pid)]


def _copies(cluster: Cluster, group: str) -> Counter[str]:
    return Counter(message.properties["UNIQ_KEY"] for _, message in stored(cluster, f"%RETRY%{group}"))


def _check_each_once(cluster: Cluster, group: str) -> None:
    copies = _copies(cluster, group)
    assert len(copies) == _COUNT
    assert {key: count for key, count in copies.items() if count > 1} == {}


def _summary(out: str) -> dict[str, Any]:
    (job,) = json.loads(out)["jobs"]
    summary: dict[str, Any] = job["facts"]["summary"]
    return summary


def test_each_once_through_a_killed_driver_and_killed_executors(cluster: Cluster, letters: str) -> None:
    topic = f"%RETRY%{letters}"

    def wait_for(count: int) -> None:
        wait_until(lambda: stored_count(cluster, topic) >= count, timeout_s=120)

    with _running(_words(cluster, letters, *_EXECUTORS)):
        wait_for(3_000)
    # The command resumes it, though its executors may not have ended yet.
    done = call("-n", cluster.namesrv, "dlq", "replay", letters, "--max", "1000", "--yes", "-o", "json")
    assert done.returncode == 0, done.stderr
    with _running(_words(cluster, letters, *_EXECUTORS)) as process:
        for count in (20_000, 35_000):
            wait_for(count)
            os.kill(_executors(process)[0], signal.SIGKILL)
        out, _ = process.communicate(timeout=240)
    assert process.returncode == 0, out
    assert _summary(out)["foundCount"] > 0
    _check_each_once(cluster, letters)


def test_an_answer_that_is_lost_is_found_on_the_target(cluster: Cluster, letters: str) -> None:
    broker = cluster.brokers["broker-b"]
    relay = DroppingRelay(broker.port, RequestCode.SEND_MESSAGE_V2, 10_000)
    try:
        done = call(*_words(cluster, letters, *_EXECUTORS, "--map-address", f"127.0.0.1:{broker.port}={relay.address}"))
    finally:
        relay.close()
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert relay.dropped_count == _summary(done.stdout)["foundCount"] > 0
    _check_each_once(cluster, letters)
