"""clean-expired finds what is stuck, whatever client has it, and finds nothing where groups are healthy or slow."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from .harness.cluster import Cluster
from .harness.consumer import our_consumers
from .harness.go import GoConsumer, missing_go
from .harness.queue_tables import progress, wait_until
from .harness.rmqctl import Result, Rmqctl

_BROKER = "broker-a"
_BEHIND_COUNT = 1_200


@pytest.mark.smoke
def test_a_message_that_hangs_in_a_full_queue(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, group = "StuckFull", "StuckFullGroup"
    cluster.create_topic(topic, queue_count=1, brokers=(_BROKER,))
    client_id = cluster.java.consume("full", group, topic, stuck="X", threads=1)
    cluster.java.produce(topic, 3, prefix="ok")
    cluster.java.produce(topic, 1, prefix="X", keys="order-")
    cluster.java.produce(topic, _BEHIND_COUNT, batch=100, prefix="ok")
    try:
        cluster.java.wait_started("full", 4)
        # All that was done is stored, and the client has pulled all that it may have in hand.
        wait_until(lambda: progress(cluster, group, topic)[0].consumer_offset == 3, "the offset")
        found = _scan(rmqctl, group, "--for", "2s", "--older-than", "1s")
        assert found.exit_code == 10, found.stderr + found.stdout
        document = found.document
        (item,) = document["items"]
        assert (item["why"], item["isStuck"], item["clientId"]) == ("IN_CONSUMPTION", True, client_id)
        assert (item["headOffset"], item["keys"], item["body"]) == (3, ["order-0"], "X0")
        assert (item["advance"], item["consumerOffset"], item["maxOffset"]) == (0, 3, _BEHIND_COUNT + 4)
        assert item["flowControl"] == "QUEUE_COUNT"
        # Nothing behind it is processed; how far the client has pulled, 4.9's brokers do not note.
        assert item["duplicateRisk"] <= (0 if cluster.version != "4.9.7" else _BEHIND_COUNT)
        assert item["cachedMsgCount"] > 1000
        (client,) = document["clients"]
        assert (client["clientId"], client["threadCount"], client["busyThreadCount"]) == (client_id, 1, 1)
        assert any("Workbench.handle" in frame for frame in client["threads"][0]["frames"])
        assert progress(cluster, group, topic)[0].consumer_offset == 3
    finally:
        cluster.java.release("full")
    cluster.java.wait_consumed("full", _BEHIND_COUNT + 4)
    cluster.java.stop("full")


def _scan(rmqctl: Rmqctl, group: str, *words: str) -> Result:
    return rmqctl("clean-expired", group, *words, "-o", "json")


def _scan_all(rmqctl: Rmqctl, groups: list[str], *words: str) -> dict[str, Result]:
    """Scan groups at once: most of it is waiting."""
    with ThreadPoolExecutor(len(groups)) as threads:
        running = {group: threads.submit(_scan, rmqctl, group, *words) for group in groups}
        return {group: each.result() for group, each in running.items()}


def _kinds(result: Result) -> set[tuple[str, bool | None]]:
    return {(item["why"], item["isStuck"]) for item in result.document["items"]}


def test_each_client_and_why_its_queue_stands_still(cluster: Cluster, rmqctl: Rmqctl, tmp_path: Path) -> None:
    java = cluster.java
    kinds: dict[str, dict[str, Any]] = {
        "Behind": {"stuck": "X"}, "Orderly": {"stuck": "X", "orderly": 1}, "Poison": {"fail": "X", "orderly": 1},
        "Pool": {"stuck": "X", "threads": 1},
    }  # fmt: skip
    names = [*kinds, "Ours", "Offline", *([] if missing_go() else ["Go"])]
    for name in names:
        cluster.create_topic(f"Still{name}", queue_count=2, brokers=(_BROKER,))
    groups = {name: f"Still{name}Group" for name in names}
    with our_consumers(cluster.namesrv, tmp_path / "ours") as ours:
        ours("stuck", groups["Ours"], "StillOurs", SLOW="X")
        for name, options in kinds.items():
            java.consume(f"Still{name}", groups[name], f"Still{name}", **options)
        java.consume("StillOffline", groups["Offline"], "StillOffline")
        go = None if missing_go() else GoConsumer(cluster, "still", groups["Go"], "StillGo", pause_ms=3_600_000)
        try:
            for name in names:
                for prefix in ("ok", "X", "ok"):
                    java.produce(f"Still{name}", 2, queue=f"{_BROKER}:0", prefix=prefix)
            java.produce("StillPool", 2, queue=f"{_BROKER}:1", prefix="X")
            java.wait_consumed("StillOffline", 6)
            java.stop("StillOffline")
            java.produce("StillOffline", 4, prefix="later")
            java.wait_started("StillBehind", 6)
            java.wait_started("StillOrderly", 3)
            java.wait_started("StillPoison", 4)
            if go is not None:
                go.wait_consumed(1)
            time.sleep(5)
            found = _scan_all(rmqctl, list(groups.values()), "--older-than", "5s", "--for", "6s")
            why = {name: _kinds(found[group]) for name, group in groups.items() if name != "Go"}
            waits = {
                name: rmqctl.items("whatif", "expiry", groups[name], "--for", "1s")[0]
                for name in ("Behind", "Orderly", "Ours")
            }
            if go is not None:
                # For 10 s after its first messages a Go client can't say what it is doing.
                hangs = {("IN_HAND", True)}
                quick = ("--older-than", "1s", "--for", "1s")
                wait_until(lambda: _kinds(_scan(rmqctl, groups["Go"], *quick)) == hangs, "the Go client's own word")
        finally:
            for name in kinds:
                java.release(f"Still{name}")
            if go is not None:
                go.kill()
    assert why == {
        "Behind": {("IN_CONSUMPTION", True)},
        "Orderly": {("BLOCKED_IN_ORDER", True)},
        "Poison": {("BLOCKED_IN_ORDER", True)},
        "Pool": {("IN_CONSUMPTION", True)},
        "Ours": {("IN_CONSUMPTION", True)},
        "Offline": {("NO_MEMBERS", False)},
    }, {name: each.stdout for name, each in found.items()}
    assert {found[groups[name]].exit_code for name in why if name != "Offline"} == {10}
    assert found[groups["Offline"]].exit_code == 0
    # Java's client has looked 15 min after its start at the earliest.
    assert 900_000 < waits["Behind"]["rocketmqMs"] <= 1_800_000
    assert 0 < waits["Behind"]["nextLookInMs"] <= 900_000
    assert waits["Orderly"]["reasons"]["rocketmqMs"] == "CONSUMED_IN_ORDER"
    assert waits["Ours"]["reasons"]["rocketmqMs"] == "EXACT_TIMER"
    (behind,) = found[groups["Behind"]].document["items"]
    assert behind["duplicateRisk"] == 2
    (ours_item,) = found[groups["Ours"]].document["items"]
    assert ours_item["ageSource"] == "REPORTED"
    for name in kinds:
        java.stop(f"Still{name}")


def test_groups_that_are_healthy_or_slow_have_nothing_stuck(cluster: Cluster, rmqctl: Rmqctl) -> None:
    java = cluster.java
    kinds: dict[str, dict[str, Any]] = {
        "Quick": {}, "Orderly": {"orderly": 1}, "Batches": {"batch": 16}, "Filtered": {"expr": "a || b"},
        "Latest": {"from": "last"}, "OneThread": {"threads": 1}, "TwoMembers": {},
        # Slow: a message a second, four seconds each in one thread for two queues, and in order.
        "Second": {"each": 1_000, "threads": 2}, "Four": {"each": 4_000, "threads": 1},
        "FourInOrder": {"each": 4_000, "orderly": 1},
    }  # fmt: skip
    for name, options in kinds.items():
        cluster.create_topic(f"Well{name}", queue_count=2, brokers=(_BROKER,))
        java.consume(f"Well{name}", f"Well{name}Group", f"Well{name}", **options)
    java.consume("WellTwoMembersAgain", "WellTwoMembersGroup", "WellTwoMembers", instance="again")
    for name in kinds:
        java.produce(f"Well{name}", 60, prefix="ok", tag="c" if name == "Filtered" else "a")
    # At the first look their clients must hold the queues: how far one goes on is not known otherwise.
    for name in ("Four", "FourInOrder"):
        java.wait_started(f"Well{name}", 1)
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(_scan_all, rmqctl, [f"Well{name}Group" for name in kinds])
        while not found.done():
            for name in ("Quick", "Orderly", "Batches", "Filtered", "Latest", "OneThread", "TwoMembers"):
                java.produce(f"Well{name}", 5, prefix="more", tag="b")
            time.sleep(0.5)
    for group, result in found.result().items():
        assert result.exit_code == 0, (group, result.stdout)
        assert {kind for kind, _ in _kinds(result)} <= {"SLOW"}, (group, result.stdout)
    slow = {group for group, result in found.result().items() if result.document["items"]}
    assert {"WellFourGroup", "WellFourInOrderGroup"} <= slow
    for name in [*kinds, "TwoMembersAgain"]:
        java.stop(f"Well{name}")
