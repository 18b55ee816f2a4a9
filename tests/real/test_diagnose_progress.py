"""Checks of progress on real brokers with real Java clients: groups that stand still, fall behind, or only catch up."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from rmqctl.protocol.codes import RequestCode
from tests.real.harness.conditions import wait_until
from tests.real.harness.diagnose_case import (
    LIMIT_S,
    Found,
    Group,
    alike,
    another_jvm,
    check,
    codes,
    diagnose,
    running,
    wait_consumed,
)
from tests.repetition import repeating

from .harness.cluster import Cluster
from .harness.jars import VERSIONS
from .harness.rmqctl import PATIENT, Rmqctl

_A, _B = "broker-a:0", "broker-b:0"


def _one(*expected: str, **options: Any) -> Group:
    """Return a group of one member and one queue at each broker."""
    held = 2
    return Group(codes(*expected), {"one": options}, held=held, queue_count=1, retry=0 if "broadcast" in options else 2)


_GROUPS = {
    "DiagProg-Stuck": _one("PRG001", stuck="stop"),
    "DiagProg-Order": _one("PRG001", stuck="stop", orderly=1),
    # Most of its lag is in the queue that is not pulled.
    "DiagProg-Span": _one("PRG001", "PRG005", "SKW001", stuck="stop", threads=3),
    "DiagProg-Paused": _one("PRG002"),
    "DiagProg-CastPaused": _one("PRG002", broadcast=1),
    "DiagProg-Rewind": _one("PRG003"),
    "DiagProg-Grows": _one("PRG004", "PRG006", each=100),
    "DiagProg-Cast": _one("OFF010", "PRG001", stuck="stop", broadcast=1, threads=1),
    "DiagProg-Catch": _one(each=20),
    "DiagProg-Old": _one(each=3000, **{"from": "last"}),
    "DiagProg-Quiet": Group(codes(), alike("one", "two"), held=2, queue_count=1),
    "DiagProg-Empty": _one(),
}


def _store(cluster: Cluster, broker_name: str, group: str, queue_offset: int) -> Callable[[], None]:
    """Return what stores an offset of a group in the first queue of the topic of its name."""

    def store() -> None:
        with closing(cluster.asker(broker_name)) as asker:
            answer = asker(
                "broker", RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=group, topic=group, queueId=0,
                commitOffset=queue_offset,
            )  # fmt: skip
        assert answer is not None, broker_name
        assert answer.code == 0, answer.remark

    return store


@pytest.mark.timeout(2 * LIMIT_S)
def test_groups_that_stand_still_and_groups_that_do_not(cluster: Cluster, rmqctl: Rmqctl) -> None:
    java = cluster.java
    cluster.create_topic("DiagProg-Old", queue_count=1)
    java.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", "DiagProg-Old")
    for broker_name, queue in (("broker-a", _A), ("broker-b", _B)):
        java.produce("DiagProg-Old", 200, queue=queue, batch=100)
        _store(cluster, broker_name, "DiagProg-Old", 0)()
    with another_jvm(cluster) as other, running(cluster, _GROUPS), ExitStack() as stack:
        stack.enter_context(repeating(lambda: other.produce("DiagProg-Grows", 50, rate=100)))
        java.call("backdate", id="DiagProg-Old one", ms=-3_600_000)  # as if the messages were an hour older
        for name in ("Stuck", "Order", "Span", "Paused", "CastPaused", "Rewind", "Cast", "Quiet"):
            java.produce(f"DiagProg-{name}", 300, batch=100, queue=_A, prefix="ok")
            members = [f"DiagProg-{name} {member}" for member in _GROUPS[f"DiagProg-{name}"].members]
            wait_consumed(java, members, 300)
        stack.enter_context(repeating(_store(cluster, "broker-a", "DiagProg-Rewind", 0), 0.01))
        for name, count in (("Stuck", 20), ("Order", 20), ("Span", 2_100), ("Cast", 1_500)):
            java.produce(f"DiagProg-{name}", 1, queue=_A, prefix="stop")
            java.produce(f"DiagProg-{name}", count, queue=_A, batch=100, prefix="ok")
        # A client counts its span between messages that are not finished.
        java.produce("DiagProg-Span", 1, queue=_A, prefix="stop")
        java.produce("DiagProg-Span", 900, queue=_A, batch=100, prefix="ok")
        for name in ("Paused", "CastPaused"):
            java.suspend(f"DiagProg-{name} one")
            java.produce(f"DiagProg-{name}", 50, queue=_A)
        for queue in (_A, _B):
            java.produce("DiagProg-Catch", 20_000, queue=queue, batch=200)
        expected = {name: group.expected for name, group in _GROUPS.items()}
        seen: dict[str, frozenset[str]] = {}

        def is_so() -> bool:
            seen.update(diagnose(rmqctl, "DiagProg-*", "--settle", "0s", "--only", "PRG,OFF,SKW").codes)
            return all(expected[name] <= seen[name] for name in expected)

        wait_until(is_so, timeout_s=240, why=lambda: {name: (seen.get(name), expected[name]) for name in expected})
        found = diagnose(rmqctl, "DiagProg-*", "--for", "5s")
    check(found, expected)
    told = {name: {item["code"] for item in items} for name, items in found.items.items()}
    assert {"PRG005", "PRG006"} <= told["DiagProg-Catch"]
    assert "OFF008" in told["DiagProg-Old"]
    paused = [item for name in ("Paused", "CastPaused") for item in found.items[f"DiagProg-{name}"]]
    assert {item["severity"] for item in paused if item["code"] == "PRG002"} == {"ERROR"}
    # The clock of a member that has consumed nothing is known by --probe alone.
    assert {each["need"] for group in found.groups.values() for each in group["unknown"]} <= {"CLOCKS"}


@pytest.mark.timeout(LIMIT_S)
def test_members_that_pull_by_themselves_and_members_that_no_longer_do(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """Its pull threads end when a topic is not readable; push and lite consumers go on once it is."""
    java = cluster.java
    names = [f"DiagPull-{name}" for name in ("Ended", "Unpolled", "Live", "Lite", "Tail", "Push", "Slow")]
    ended, unpolled, live, lite, tail, push, slow = names
    for name in names:
        cluster.create_topic(name, queue_count=4 if name == slow else 1)
    java.pull_on("ended", ended, ended)
    java.pull_on("live", live, live)
    java.lite("unpolled", unpolled, unpolled)
    java.lite("lite", lite, lite)
    java.lite("tail", tail, tail, expr="A")
    java.lite("slow", slow, slow)
    java.poll_on("lite")
    java.poll_on("tail")
    java.consume("push", push, push, instance="DiagPull-push")
    for name in names:
        java.produce(name, 20, queue=_A, tag="A")
    java.produce(slow, 800, batch=10)
    wait_consumed(java, ["ended", "live", "lite", "tail", "push"], 20)
    assert len(java.poll("unpolled", 20)) == 20

    def is_stored() -> bool:  # a client commits first 10 s after it started
        rows = rmqctl("offset", "show", ended, "-o", "json").document["items"]
        return any(row["consumerOffset"] == 20 for row in rows)

    wait_until(is_stored)
    for name in (ended, lite, push):
        cluster.create_topic(name, queue_count=1, perm=2)
    time.sleep(25)  # longer than a pull waits at the broker
    for name in (ended, lite, push):
        cluster.create_topic(name, queue_count=1, perm=6)
    time.sleep(5)
    # Each poll serves one of eight queues: the others wait for longer than a minute.
    polling = repeating(lambda: java.poll("slow", 1), 15.0)
    with polling, repeating(lambda: [java.produce(name, 1, queue=_A, tag="B") for name in names], 1.0):
        seen: list[Found] = []
        expected = {name: codes() for name in names} | dict.fromkeys((ended, unpolled), codes("PRG002"))

        def is_so() -> bool:
            seen.append(diagnose(rmqctl, "DiagPull-*", "--settle", "0s", "--only", "PRG,ALO"))
            return seen[-1].codes == expected

        wait_until(is_so, timeout_s=240, why=lambda: seen[-1])
        gate = {name: rmqctl("check", name, "--timeout", PATIENT).exit_code for name in (ended, live, lite, tail, slow)}
    assert gate == {ended: 2, live: 0, lite: 0, tail: 0, slow: 0}
    for name in ("ended", "live", "unpolled", "lite", "tail", "push", "slow"):
        java.stop(name)


@pytest.mark.timeout(LIMIT_S)
def test_a_paused_member_that_pops_and_members_that_go_on(cluster: Cluster, rmqctl: Rmqctl) -> None:
    if cluster.version == "4.9.7":
        pytest.skip("4.9 has no pops")
    java = cluster.java
    paused, slow, tail = names = [f"DiagPop-{name}" for name in ("Paused", "Slow", "Tail")]
    for name in names:
        cluster.create_topic(name, queue_count=2)
        java.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", name)
        for address in cluster.addresses.values():
            java.mqadmin("setConsumeMode", "-b", address, "-t", name, "-g", name, "-m", "POP", "-n", "8")
    java.consume(paused, paused, paused, pop=1, instance=paused)
    java.consume(slow, slow, slow, pop=1, instance=slow, threads=1, each=5000)
    java.consume(tail, tail, tail, pop=1, instance=tail, expr="A")
    java.produce(paused, 20)
    wait_consumed(java, [paused], 20)
    java.suspend(paused)
    time.sleep(2)  # a pop that is under way
    for name in (paused, slow):
        java.produce(name, 400, batch=10)
    expected = {paused: codes("PRG002"), slow: codes(), tail: codes()}
    seen: list[Found] = []

    def is_so() -> bool:
        seen.append(diagnose(rmqctl, "DiagPop-*", "--settle", "0s", "--only", "PRG"))
        return seen[-1].codes == expected

    with repeating(lambda: java.produce(tail, 1, tag="B"), 1.0):
        wait_until(is_so, timeout_s=240, why=lambda: seen[-1])
        gate = {name: rmqctl("check", name, "--timeout", PATIENT).exit_code for name in (paused, tail)}
    assert gate == {paused: 2, tail: 0}
    for name in names:
        java.stop(name)


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_old", [True, False])
def test_messages_of_new_queues_are_skipped_where_the_broker_does_not_answer_0(
    version: str, is_old: bool, tmp_path: Path
) -> None:
    """A broker answers 0 for a queue that begins at 0, and that there is none when its first messages are gone."""
    settings = {"fileReservedTime": 0, "mappedFileSizeCommitLog": 1 << 20}
    cluster = Cluster(version, tmp_path / "home", settings=settings)
    rmqctl = Rmqctl(cluster.namesrv, timeout=PATIENT)
    try:
        java = cluster.wait().java
        cluster.create_topic("DiagNew", queue_count=1)
        # It hears of the new queue only when it is told to ask.
        java.consume("one", "DiagNew", "DiagNew", instance="DiagNew-one", routes=600_000, **{"from": "last"})
        wait_until(lambda: java.queues("one", "DiagNew") == {_A})

        def is_consumed() -> bool:  # what is sent before its first pull may be skipped
            java.produce("DiagNew", 1, queue=_A)
            time.sleep(0.2)
            return int(java.call("consumed", id="one")) > 0

        wait_until(is_consumed)
        java.persist("one")
        # With a pull that is answered, the member would have a position, and store it.
        assert rmqctl("group", "update", "DiagNew", "--no-consume", "--yes").exit_code == 0
        cluster.create_topic("DiagNew", queue_count=2)
        java.produce("DiagNew", 800, queue="broker-a:1", size=4_000, batch=100)
        if is_old:
            java.mqadmin("deleteExpiredCommitLog", "-b", cluster.addresses["broker-a"])  # done a minute after its start

            def begins_at() -> int:
                rows = rmqctl("offset", "show", "DiagNew", "-o", "json").document["items"]
                return max(int(row["minOffset"]) for row in rows if row["topic"] == "DiagNew")

            wait_until(lambda: begins_at() > 0, timeout_s=120)

        def is_taken() -> bool:
            java.call("rebalance", id="one")
            return java.queues("one", "DiagNew") == {_A, "broker-a:1"}

        wait_until(is_taken)
        found = diagnose(rmqctl, "DiagNew", "--settle", "0s")
        assert ("OFF009" in found.codes["DiagNew"]) == is_old, found
    finally:
        cluster.stop()
