"""What `consume run` says of failures and outages, and when it ends: beside real brokers and a Java member."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.consumer import OurConsumers, our_consumers
from .harness.rmqctl import Result, Rmqctl

_OK = "def f(messages, context): return 'CONSUME_SUCCESS'"
_FIRST = "def f(messages, context): return 'CONSUME_SUCCESS' if messages[0].reconsume_times else None"
_NEVER = "def f(messages, context): return {}['id']"


@pytest.fixture
def ours(cluster: Cluster, tmp_path: Path) -> Iterator[OurConsumers]:
    with our_consumers(cluster.namesrv, tmp_path / "ours") as made:
        yield made


def _run(cluster: Cluster, tmp_path: Path, group: str, text: str, *words: str, topic: str = "") -> Result:
    """Consume until the group has caught up."""
    path = tmp_path / "listener.py"
    path.write_text(text)
    more = ("--handler", f"{path}:f", "--from", "earliest", "--until-caught-up", "--for", "2m", "--yes")
    return Rmqctl(cluster.namesrv)("consume", "run", group, topic or group, *more, *words)


def test_it_ends_when_all_is_consumed_and_says_what_is_not(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("caught")
    cluster.java.produce("caught", 200)
    all_of_it = _run(cluster, tmp_path, "caught", _OK)
    assert (all_of_it.exit_code, "200 consumed, 0 failed" in all_of_it.stderr) == (0, True), all_of_it.stderr
    again = _run(cluster, tmp_path, "caught", _OK)
    assert (again.exit_code, "0 consumed, 0 failed" in again.stderr) == (0, True), again.stderr
    failing = _run(cluster, tmp_path, "failing", _FIRST, "--delay-level", "1", topic="caught")
    assert failing.exit_code == 8
    assert "the listener returned None, not a status (RETURNNULL). 1 message goes back" in failing.stderr
    # The retries are due after a second.
    wait_until(lambda: "0 failed" in _run(cluster, tmp_path, "failing", _OK, topic="caught").stderr, 30)
    dead = _run(cluster, tmp_path, "dying", _NEVER, "--max-reconsume-times", "0", topic="caught")
    assert dead.exit_code == 8
    assert "the listener raised KeyError: 'id' at listener.py:1 (EXCEPTION). 1 message becomes a dead" in dead.stderr
    assert "; 200 dead letters; " in dead.stderr
    assert [item["count"] for item in Rmqctl(cluster.namesrv).items("dlq", "list", "dying")] == [200]


def test_a_java_members_queues_count_for_it(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("beside")
    cluster.java.produce("beside", 100)
    cluster.java.consume("beside", "beside", "beside", collect=1, instance="beside")
    wait_until(lambda: len(cluster.java.bodies("beside")) == 100, 60)
    cluster.java.produce("beside", 100, prefix="more-")
    result = _run(cluster, tmp_path, "beside", _OK)
    assert result.exit_code == 0, result.stderr
    assert " 0 failed" in result.stderr
    rows = Rmqctl(cluster.namesrv).items("offset", "show", "beside", "--topic", "beside")
    assert [row["lag"] for row in rows] == [0] * len(rows)


def test_an_outage_is_one_line_and_its_end_another(cluster: Cluster, ours: OurConsumers) -> None:
    cluster.create_topic("outage")
    cluster.java.produce("outage", 40)
    member = ours("outage", "outage", "outage", "--from", "earliest")
    wait_until(lambda: len(member.heard()) >= 40, 60, lambda: member.said)
    broker = cluster.brokers["broker-b"]
    broker.kill()
    wait_until(lambda: "Cannot pull from broker-b" in member.said, 60, lambda: member.said)
    broker.start()
    broker.wait()
    wait_until(lambda: "Pulling from broker-b works again after " in member.said, 120, lambda: member.said)
    assert member.terminate() == 0, member.said
    lines = [line for line in member.said.splitlines() if "Cannot pull from broker-b" in line]
    assert len([line for line in lines if "Again, " not in line]) <= 3, lines
