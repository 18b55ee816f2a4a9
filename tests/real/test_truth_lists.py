"""What lists and pages must not leave out: cuts, lower bounds, members' own words, queues that nobody can read."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rmqctl.client.link import Link
from rmqctl.net.clock import SystemClock
from rmqctl.net.stream import connect_tcp
from rmqctl.protocol.writes import update_consumer_offset
from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.rmqctl import Rmqctl


def _store(address: str, group: str, topic: str, queue_id: int, offset: int) -> None:
    """Store an offset as a client would; brokers ask nobody whether there is such a queue."""

    async def store() -> None:
        clock = SystemClock()
        link = Link(await connect_tcp(address, clock, 5), clock)
        answer = await link.request(update_consumer_offset(group, topic, queue_id, offset), 5)
        await link.aclose()
        assert answer.code == 0, answer.remark

    asyncio.run(store())


def _offline(cluster: Cluster, group: str) -> None:
    cluster.java.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", group)


def _group(rmqctl: Rmqctl, group: str) -> dict[str, Any]:
    (item,) = rmqctl.items("group", "list", group)
    return item


def _described(rmqctl: Rmqctl, group: str, settled: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Describe a group until its members have settled; the last page is returned in any case."""
    give_up_at = time.monotonic() + 45
    while True:
        (item,) = rmqctl.items("group", "describe", group)
        if settled(item) or time.monotonic() > give_up_at:
            return item


@contextmanager
def _members(cluster: Cluster, group: str, **members: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Run push consumers of one group, each with its options; gives their client ids."""
    names = {name: f"{group}-{name}" for name in members}
    ids = {
        name: cluster.java.consume(names[name], group, instance=name, heartbeat=1000, **options)
        for name, options in members.items()
    }
    for name in names.values():  # now that each is known to the brokers, rather than in 20 s
        cluster.java.call("rebalance", id=name)
    try:
        yield ids
    finally:
        for name in names.values():
            cluster.java.stop(name)


def test_a_cut_at_the_limit_is_told_in_every_format(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Cut", queue_count=1, brokers=("broker-a",))
    cluster.java.produce("Cut", 121)
    for form in ("csv", "tsv", "jsonl", "name", "table"):
        result = rmqctl("message", "find", "Cut", "-o", form, "-q")
        assert result.exit_code == 0
        assert result.stderr == "rmqctl: Only 100 messages are shown (--limit). There may be more.\n"
        assert len(result.stdout.splitlines()) == 100 + (form in ("csv", "tsv", "table"))


def test_lower_bounds_are_compared_and_sorted(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Bounds", queue_count=2, brokers=("broker-a",))
    for queue_id in range(2):
        cluster.java.produce("Bounds", 50, queue=f"broker-a:{queue_id}")
    address = cluster.brokers["broker-a"].address
    for group, offsets in (("Bound-Some", {0: 0}), ("Bound-Few", {0: 48, 1: 48}), ("Bound-None", {})):
        _offline(cluster, group)
        for queue_id, offset in offsets.items():
            _store(address, group, "Bounds", queue_id, offset)
    words = ("group", "list", "Bound-*", "-o", "name")

    some = _group(rmqctl, "Bound-Some")
    assert (some["lag"], some["lagAtLeast"], some["reasons"]["lag"]) == (None, 50, "NEVER_COMMITTED")
    behind = rmqctl(*words, "--where", "lag>10")
    assert behind.stdout.split() == ["Bound-Some"]
    assert behind.stderr == "rmqctl: 1 row with unknown lag was not compared (--where).\n"
    few = rmqctl(*words, "--where", "lag<10")
    assert few.stdout.split() == ["Bound-Few"]
    assert rmqctl(*words, "--sort=-lag").stdout.split() == ["Bound-Some", "Bound-Few", "Bound-None"]

    few_item = _group(rmqctl, "Bound-Few")
    assert (few_item["lag"], few_item["attention"]) == (4, ["OFF005"])
    (described,) = rmqctl.items("group", "describe", "Bound-Few")
    assert 0 < few_item["timeLagMs"] <= described["topics"][0]["timeLagMs"] + 60_000


def test_members_own_settings_and_what_they_do_not_agree_on(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Own", queue_count=1, brokers=("broker-a",))
    options: dict[str, Any] = {"topic": "Own"}
    with _members(
        cluster, "OwnGroup", one={**options, "from": "last", "max": 2}, two={**options, "orderly": 1, "from": "first"}
    ) as ids:
        item = _described(rmqctl, "OwnGroup", lambda item: "1 of 2 members holds" in " ".join(item["attention"]))
        text = rmqctl("group", "describe", "OwnGroup").stdout
    members = {member["clientId"]: member for member in item["members"]}
    one, two = members[ids["one"]], members[ids["two"]]
    assert (one["consumeFromWhere"], two["consumeFromWhere"]) == (
        "CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET",
    )  # fmt: skip
    assert (one["maxReconsumeTimes"], two["maxReconsumeTimes"]) == (2, -1)
    assert (one["consumeTimeoutMs"], two["consumeTimeoutMs"]) == (900_000, 900_000)
    assert (item["consumeFromWhere"], item["reasons"]["consumeFromWhere"]) == (None, "MEMBERS_DIFFER")
    assert "16 (configured); members use 2 and no limit, 1 retry queue" in text
    attention = " ".join(item["attention"])
    assert f"Only some members consume in order: {ids['two']}." in attention
    assert "Members have different start positions: CONSUME_FROM_FIRST_OFFSET" in attention
    assert f"Members have different retry limits: 2 ({ids['one']}), no limit ({ids['two']})." in attention
    # One queue, two members.
    assert "1 of 2 members holds no queue: " in attention


def test_messages_in_queues_that_no_consumer_can_read(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("TruthUnread", queue_count=5, brokers=("broker-a",))
    address = cluster.brokers["broker-a"].address
    _offline(cluster, "TruthUnreadGroup")
    for queue_id in range(5):
        cluster.java.produce("TruthUnread", 6, queue=f"broker-a:{queue_id}")
        if queue_id < 3:
            _store(address, "TruthUnreadGroup", "TruthUnread", queue_id, 2)
    cluster.java.mqadmin("updateTopic", "-b", address, "-t", "TruthUnread", "-r", "3", "-w", "5")

    def is_known() -> bool:
        return _group(rmqctl, "TruthUnreadGroup")["unreadableMessageCount"] == 12

    give_up_at = time.monotonic() + 10
    while not is_known() and time.monotonic() < give_up_at:
        pass
    group = _group(rmqctl, "TruthUnreadGroup")
    shown = rmqctl("offset", "show", "TruthUnreadGroup", "-o", "json")
    (described,) = rmqctl.items("group", "describe", "TruthUnreadGroup")
    assert (group["lag"], group["unreadableMessageCount"]) == (12, 12)
    assert "OFF004" in group["attention"]
    assert shown.document["summary"]["lag"] == described["lag"] == 12
    sentence = "12 messages of TruthUnread are in 2 queues that no consumer can read until readQueueNums is 5."
    assert shown.stderr == f"rmqctl: {sentence}\n"
    assert sentence in described["attention"]
    assert [queue["queueId"] for queue in described["unreadableQueues"]] == [3, 4]


def test_offsets_beyond_the_end_and_of_queues_that_do_not_exist(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Wrong", queue_count=2, brokers=("broker-a",))
    cluster.java.produce("Wrong", 10, queue="broker-a:0")
    address = cluster.brokers["broker-a"].address
    _offline(cluster, "WrongGroup")
    _store(address, "WrongGroup", "Wrong", 0, 11)
    _store(address, "WrongGroup", "Wrong", 7, 9)
    group = _group(rmqctl, "WrongGroup")
    (described,) = rmqctl.items("group", "describe", "WrongGroup")
    assert group["attention"] == ["OFF002"]
    assert [finding["code"] for finding in described["findings"]] == ["OFF002", "OFF003"]
    beyond, leftover = (finding["sentence"] for finding in described["findings"])
    assert beyond.startswith("The offset is beyond the end of 1 queue of Wrong: ")
    assert leftover.endswith("a queue that does not exist: Wrong@broker-a:7.")


def test_nobody_gets_what_a_member_without_the_subscription_would_have(cluster: Cluster, rmqctl: Rmqctl) -> None:
    for topic in ("Nobody1", "Nobody2"):
        cluster.create_topic(topic, queue_count=2)
    with _members(cluster, "UnsharedTeam", one={"topic": "Nobody1"}, two={"topic": "Nobody2"}) as ids:
        _described(rmqctl, "UnsharedTeam", lambda item: sum(len(each["queues"] or ()) for each in item["members"]) >= 4)
        give_up_at = time.monotonic() + 45
        while True:
            (item,) = rmqctl.items("whatif", "allocate", "UnsharedTeam")
            if item["isAsComputed"] or time.monotonic() > give_up_at:
                break
    assert item["isAsComputed"] is True
    moved = [move for move in item["moved"] if move["topic"].startswith("Nobody")]
    assert moved == []
    unowned = [queue for queue in item["unownedQueues"] if queue["topic"].startswith("Nobody")]
    assert len(unowned) == 4
    wanted = {ids["one"]: "Nobody1", ids["two"]: "Nobody2"}
    for client_id, share in item["allocation"].items():
        assert {queue["topic"] for queue in share} - {"%RETRY%UnsharedTeam"} == {wanted[client_id]}


@pytest.mark.timeout(180)
def test_a_trace_says_what_its_broker_has_deleted(tmp_path: Path) -> None:
    cluster = Cluster(
        "5.4.0", tmp_path / "home", settings={"mappedFileSizeCommitLog": 256 * 1024, "traceTopicEnable": "true"}
    )
    try:
        rmqctl = Rmqctl(cluster.wait().namesrv)
        cluster.create_topic("Gone")
        unique_key, _ = cluster.java.produce("Gone", 1, trace=1).split("\t")
        give_up_at = time.monotonic() + 40
        while (whole := rmqctl("message", "trace", unique_key)).exit_code == 5 and time.monotonic() < give_up_at:
            pass
        assert (whole.exit_code, "PUBLISHED" in whole.stdout) == (0, True)

        # As brokers do, which begin with it a minute after their start: the oldest files go.
        cluster.java.produce("Gone", 500, size=1024)
        broker = cluster.brokers["broker-a"]
        broker.kill()
        files = sorted((cluster.folder / "store-broker-a-master" / "commitlog").iterdir())
        assert len(files) > 2
        for file in files[:-1]:
            file.unlink()
        broker.start()
        broker.wait()
        cluster.wait_for_route("RMQ_SYS_TRACE_TOPIC", 1)
        result = rmqctl("message", "trace", unique_key, "-o", "json")
        assert result.exit_code == 8, result
        errors = json.loads(result.stdout)["errors"]
        assert [(error["brokerName"], error["name"]) for error in errors] == [("broker-a", "DELETED")]
        stderr = rmqctl("message", "trace", unique_key).stderr
        assert "older records were deleted. The trace may be incomplete." in stderr
    finally:
        cluster.stop()


def test_what_waits_and_who_hangs_is_marked(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """truth N9, N10: failed messages in a retry topic that nobody reads, and listeners that never come back."""
    cluster.create_topic("Marked", queue_count=4)
    with _members(cluster, "marked-hung", one={"topic": "Marked", "stuck": "X", "from": "first"}):
        cluster.java.consume("marked-failing", "marked-failing", "Marked", fail="X", **{"from": "first"})
        cluster.java.produce("Marked", 20, prefix="X")
        cluster.java.wait_started("marked-failing", 20)
        wait_until(lambda: _waiting(rmqctl, "marked-failing"), why=lambda: _group(rmqctl, "marked-failing"))
        cluster.java.stop("marked-failing")
        wait_until(lambda: "OFF005" in _group(rmqctl, "marked-failing")["attention"], 90)
        shown = rmqctl("topic", "status", "%RETRY%marked-failing")
        assert "No group consumes it" not in shown.stdout + shown.stderr
        # Members are not asked by a list: it says so, and whoever asks is told.
        assert {each["part"] for each in _group(rmqctl, "marked-hung")["unchecked"]} == {"MEMBERS"}
        wait_until(lambda: "PRG001" in _codes(rmqctl, "marked-hung"), 120, why=lambda: _codes(rmqctl, "marked-hung"))


def _codes(rmqctl: Rmqctl, group: str) -> set[str]:
    (item,) = rmqctl.items("group", "describe", group)
    return {finding["code"] for finding in item["findings"]}


def _waiting(rmqctl: Rmqctl, group: str) -> bool:
    shown = rmqctl("topic", "status", f"%RETRY%{group}", "-o", "json")
    return shown.exit_code == 0 and sum(item["messageCount"] or 0 for item in shown.document["items"]) >= 20
