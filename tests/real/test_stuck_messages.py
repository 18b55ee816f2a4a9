"""clean-expired finds what is stuck, whatever client has it, and finds nothing where groups are healthy or slow."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from .harness.cluster import Cluster
from .harness.consumer import our_consumers
from .harness.go import GoConsumer, missing_go
from .harness.queue_tables import progress, wait_stored, wait_until
from .harness.rmqctl import Result, Rmqctl
from .harness.workbench import WorkbenchError

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


def test_a_member_that_does_not_answer_the_first_look(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """Its JVM is stopped meanwhile: what it did not answer does not make its message move."""
    java, topic, group = cluster.java, "StuckSilent", "StuckSilentGroup"
    cluster.create_topic(topic, queue_count=1, brokers=(_BROKER,))
    java.consume("silent", group, topic, stuck="X")
    java.produce(topic, 1, prefix="X")
    java.produce(topic, 5, prefix="b")
    java.wait_consumed("silent", 5)
    time.sleep(5)
    java.java.pause()
    try:
        with ThreadPoolExecutor(1) as threads:
            # With its one broker, and then with the others, the first look takes less than this.
            scanning = threads.submit(_scan, rmqctl, group, "--older-than", "5s", "--for", "10s")
            time.sleep(9)
            java.java.resume()
            found = scanning.result()
    finally:
        java.java.resume()
        java.release("silent")
    # Whether its last answer alone shows how long depends on when the client last finished another message.
    (seen,) = _kinds(found)
    assert (found.exit_code, seen) in ((10, ("IN_CONSUMPTION", True)), (8, ("IN_CONSUMPTION", None))), found.stdout
    assert found.document["items"][0]["headOffset"] == 0
    java.stop("silent")


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


@pytest.mark.timeout(600)
def test_messages_that_fail_and_that_no_broker_takes_back(cluster: Cluster, rmqctl: Rmqctl, tmp_path: Path) -> None:
    """The client retries them by itself. They cannot be cleaned either, until the retry topic is writable again."""
    java, names = cluster.java, ("Later", "Raise", "Ours")
    topics = {name: f"Local{name}" for name in names}
    groups = {name: f"Local{name}Group" for name in names}
    for name in names:
        cluster.create_topic(topics[name], queue_count=1, brokers=(_BROKER,))
        # A heartbeat creates the retry topic at every broker, and leaves one alone that exists.
        cluster.create_topic(f"%RETRY%{groups[name]}", queue_count=1, perm=4)
    with our_consumers(cluster.namesrv, tmp_path / "ours") as ours:
        java.consume("LocalLater", groups["Later"], topics["Later"], fail="X", collect=1)
        java.consume("LocalRaise", groups["Raise"], topics["Raise"], **{"raise": "X"}, collect=1)
        member = ours("local", groups["Ours"], topics["Ours"], FAIL="X", FAIL_BELOW=1_000_000)
        for topic in topics.values():
            for prefix, count in (("a", 3), ("X", 1), ("b", 3)):
                java.produce(topic, count, prefix=prefix)
        quick = ("--older-than", "3s", "--for", "4s")
        found: dict[str, Result] = {}

        def is_said() -> bool:
            # A client counts failures of the last minute from one sample to the next, which are 10 s apart.
            found.update(_scan_all(rmqctl, list(groups.values()), *quick))
            return all(_kinds(each) == {("LOCAL_RETRY", True)} for each in found.values())

        wait_until(is_said, "the clients' count of failures", 120)
        for name, group in groups.items():
            (item,) = found[group].document["items"]
            assert (item["headOffset"], item["body"], found[group].exit_code) == (3, "X0", 10), name
            assert "without write permission" in item["explanation"], item
            refused = rmqctl("clean-expired", group, *quick, "--yes", "-o", "json")
            assert refused.exit_code == 1, refused.stdout
            assert "without write permission" in refused.stderr
            assert progress(cluster, group, topics[name])[0].consumer_offset == 3, name
        for group in groups.values():
            cluster.create_topic(f"%RETRY%{group}", queue_count=1)
        for name, group in groups.items():
            _wait_offset(cluster, group, topics[name], 7)
        wait_until(lambda: any(each.from_topic.startswith("%RETRY%") for each in member.heard("BEGAN")), "its retry")
        for name in ("LocalLater", "LocalRaise"):
            _wait_retried(cluster, name)
            java.stop(name)


def _wait_offset(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    wait_until(lambda: progress(cluster, group, topic)[0].consumer_offset == offset, f"offset of {group}", 120)


def _wait_retried(cluster: Cluster, name: str) -> None:
    """Wait until a consumer has seen all messages, and one of them through the retry topic."""
    java = cluster.java
    wait_until(lambda: any("RETRY_TOPIC" in each.properties for each in java.read(name)), "the retry", 120)
    assert {each.body for each in java.attempts(name)} == {"X0", *_AB}


_AB = {f"{prefix}{number}" for prefix in "ab" for number in range(3)}


def test_a_member_that_is_paused(cluster: Cluster, rmqctl: Rmqctl) -> None:
    java, topic, group = cluster.java, "StuckPaused", "StuckPausedGroup"
    cluster.create_topic(topic, queue_count=1, brokers=(_BROKER,))
    client_id = java.consume("paused", group, topic)
    java.produce(topic, 3, prefix="a")
    java.wait_consumed("paused", 3)
    wait_stored(cluster, "paused", group, topic)
    java.suspend("paused")
    java.produce(topic, 1, prefix="a")
    # A pull that waits at the broker takes this message, unless it ends just before.
    with suppress(WorkbenchError):
        java.wait_consumed("paused", 4, timeout_s=20)
    java.produce(topic, 5, prefix="b")
    found = _scan(rmqctl, group)
    assert found.exit_code == 0, found.stdout
    (item,) = found.document["items"]
    read_count = int(java.call("consumed", id="paused"))
    assert (item["why"], item["isStuck"], item["clientId"]) == ("PAUSED", False, client_id)
    assert (item["headOffset"], item["lag"]) == (None, 9 - read_count)
    # There is nothing in hand that could be cleaned.
    assert rmqctl("clean-expired", group, "--older-than", "1s", "--for", "2s", "--yes").exit_code == 0
    assert progress(cluster, group, topic)[0].consumer_offset == read_count
    java.resume("paused")
    java.wait_consumed("paused", 9)
    java.stop("paused")


# Where the delayed copy of what Java's client sends back is stored at once: level 3.
_SCHEDULED = ("SCHEDULE_TOPIC_XXXX", "--queue", f"{_BROKER}:2")
# Between the client's construction, from which its looks are counted, and its start; and a look that is late.
_LOOK_TOLERANCE_MS = 5_000


@pytest.mark.timeout(900)
def test_when_javas_client_sends_messages_back_by_itself(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """whatif expiry says at which of its looks, once a minute here. A look takes 16 heads of a queue."""
    java, topic, group = cluster.java, "StuckExpires", "StuckExpiresGroup"
    cluster.create_topic(topic, queue_count=1, brokers=(_BROKER,))
    java.consume("expires", group, topic, stuck="expires", once=1, collect=1, threads=40, timeout=1)
    # The looks come one and two minutes after this: only the second finds the messages old enough.
    time.sleep(10)
    java.produce(topic, 18, prefix="expires")
    java.wait_started("expires", 18)
    time.sleep(5)
    told = [_expiry(rmqctl, group)]
    wait_until(lambda: len(_sent_back(rmqctl)) >= 16, "the look that finds them", 180)
    # Of what is left the client does not tell since when it has it, only that it has finished nothing since then.
    told.append(_expiry(rmqctl, group))
    wait_until(lambda: len(_sent_back(rmqctl)) == 18, "the look after it", 180)
    sent_at_ms = _sent_back(rmqctl)
    for (at_ms, item), offset in zip(told, (0, 16), strict=True):
        assert item["headOffset"] == offset
        earliest_ms, latest_ms = at_ms + item["sentBackInAtLeastMs"], at_ms + item["sentBackInAtMostMs"]
        sent_ms = sent_at_ms[offset]
        assert earliest_ms - _LOOK_TOLERANCE_MS <= sent_ms <= latest_ms + _LOOK_TOLERANCE_MS, (item, sent_at_ms)
    assert told[0][1]["sentBackInAtLeastMs"] == told[0][1]["sentBackInAtMostMs"]
    # 16 at one look, the others a minute later.
    assert sent_at_ms[15] - sent_at_ms[0] < 30_000 < sent_at_ms[16] - sent_at_ms[15], sent_at_ms
    wait_until(lambda: sum(each.reconsume_times == 1 for each in java.attempts("expires")) == 18, "the copies")
    java.release("expires")
    java.stop("expires")


def _expiry(rmqctl: Rmqctl, group: str) -> tuple[int, dict[str, Any]]:
    """Return what is told of the head in hand, and when that was."""
    (item,) = rmqctl.items("whatif", "expiry", group, "--for", "5s")
    return time.time_ns() // 1_000_000, item


def _sent_back(rmqctl: Rmqctl) -> list[int]:
    """Return when the copies of the messages were stored, in ms, in that order."""
    found = rmqctl.items("message", "find", *_SCHEDULED, "--contains", "expires", "--limit", "1000")
    return [item["storeTimestamp"] for item in found]
