"""rmqctl tells the truth about Java clients and messages of a sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from .harness.queue_tables import progress, wait_until
from .harness.rmqctl import PATIENT, Rmqctl
from .harness.sandbox import SandboxProcess

TOPIC, GROUP = "Told", "ToldGroup"


class Scene(NamedTuple):
    """TOPIC has t0 to t5 (TagA, keys k0 to k5) and u0, u1 behind them in broker-a:0; GROUP has read all but the u's.

    Its one consumer is online and wants TagA. `unique_id` and `offset_id` are t5's.
    """

    client_id: str
    unique_id: str
    offset_id: str


@pytest.fixture(scope="module")
def scene(sandbox: SandboxProcess) -> Iterator[Scene]:
    java = sandbox.java
    sandbox.create_topic(TOPIC, queue_count=2)
    ids = java.produce(TOPIC, 6, prefix="t", keys="k", tag="TagA", queue="broker-a:0").split("\t")
    client_id = java.consume("told", GROUP, TOPIC, expr="TagA", stuck="u")
    java.wait_consumed("told", 6)
    java.produce(TOPIC, 2, prefix="u", tag="TagA", queue="broker-a:0")
    java.wait_started("told", 8)
    java.persist("told")
    wait_until(lambda: sum(row.diff for row in progress(sandbox, GROUP, TOPIC)) == 2, "the offsets")
    yield Scene(client_id, ids[0], ids[1])
    java.release("told")
    java.stop("told")


@pytest.fixture
def rmqctl_here(sandbox: SandboxProcess, scene: Scene) -> Rmqctl:
    return Rmqctl(sandbox.namesrv, timeout=PATIENT)


@pytest.mark.smoke
def test_offset_show(rmqctl_here: Rmqctl, scene: Scene) -> None:
    items = rmqctl_here.items("offset", "show", GROUP, "--topic", TOPIC)

    assert [(item["brokerName"], item["queueId"], item["maxOffset"]) for item in items] == [
        ("broker-a", 0, 8), ("broker-a", 1, 0), ("broker-b", 0, 0), ("broker-b", 1, 0)
    ]  # fmt: skip
    assert (items[0]["consumerOffset"], items[0]["lag"]) == (6, 2)
    assert {item["clientId"] for item in items} == {scene.client_id}


def test_group_members_and_describe(sandbox: SandboxProcess, rmqctl_here: Rmqctl, scene: Scene) -> None:
    (member,) = rmqctl_here.items("group", "members", GROUP)
    (listed,) = (item for item in rmqctl_here.items("group", "list") if item["group"] == GROUP)
    page = rmqctl_here("group", "describe", GROUP)

    assert member["clientId"] == scene.client_id
    assert (listed["state"], listed["memberCount"], listed["lag"]) == ("ONLINE", 1, 2)
    assert listed["topics"] == [f"%RETRY%{GROUP}", TOPIC]
    assert page.exit_code == 0, page.stderr
    assert scene.client_id in page.stdout
    assert sandbox.version in page.stdout


def test_topic_status(rmqctl_here: Rmqctl) -> None:
    page = rmqctl_here("topic", "status", TOPIC)

    assert page.exit_code == 0, page.stderr
    rows = [line.split()[:4] for line in page.stdout.splitlines()]
    assert ["broker-a", "0", "0", "8"] in rows
    assert ["broker-b", "1", "0", "0"] in rows


@pytest.mark.smoke
def test_messages(rmqctl_here: Rmqctl, scene: Scene) -> None:
    by_key = rmqctl_here.items("message", "find", TOPIC, "--key", "k5")
    by_id = rmqctl_here("message", "get", scene.offset_id)
    tail = rmqctl_here("message", "tail", TOPIC, "--from", "earliest", "--tag", "TagA", "--count", "8", "-o", "jsonl")

    assert [item["msgId"] for item in by_key] == [scene.unique_id]
    assert by_id.exit_code == 0, by_id.stderr
    assert scene.unique_id in by_id.stdout
    assert "t5" in by_id.stdout
    assert tail.exit_code == 0, tail.stderr
    expected = [f"t{number}" for number in range(6)] + ["u0", "u1"]
    assert sorted(word for word in expected if f'"{word}"' in tail.stdout) == expected
    assert len(tail.stdout.splitlines()) == 8
