"""`rmqctl diagnose` on real brokers with real Java clients: each fault is named, and nothing is that is none.

A test makes several groups at once and diagnoses them in one run: one that sees what may be a rebalance waits 55 s.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing

import pytest

from rmqctl.consumer.rules.subscriptions import make_subscription, retry_subscription
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.consumer_requests import heartbeat
from tests.real.harness.conditions import wait_until
from tests.real.harness.diagnose_case import (
    LIMIT_S,
    QUEUES,
    SETTLE,
    Group,
    alike,
    another_jvm,
    check,
    codes,
    diagnose,
    produce,
    running,
    wait_consumed,
    wait_held,
)
from tests.repetition import repeating

from .harness.cluster import Cluster
from .harness.rmqctl import Rmqctl


@pytest.mark.smoke
def test_filters_that_differ_are_found(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("DiagSmoke")
    for name, tags in (("one", "TagA"), ("two", "TagB")):
        cluster.java.consume(f"smoke-{name}", "DiagSmoke", "DiagSmoke", expr=tags, instance=f"smoke-{name}")
    try:
        wait_until(
            lambda: (
                "SUB001"
                in diagnose(rmqctl, "DiagSmoke", "--for", "0s", "--settle", "0s", "--only", "SUB").codes["DiagSmoke"]
            ),
            timeout_s=120,
        )
        result = rmqctl("explain", "SUB001")
        assert (result.exit_code, "GROUP" in result.stdout) == (0, True)
    finally:
        for name in ("one", "two"):
            cluster.java.stop(f"smoke-{name}")


_SUBSCRIPTIONS = {
    "DiagSub-Tags": Group(codes("SUB001"), {"one": {"expr": "TagA"}, "two": {"expr": "TagB"}}),
    "DiagSub-Types": Group(codes("SUB003"), {"one": {"expr": "TagA"}, "two": {"sql": "TAGS = 'TagA'"}}),
    "DiagSub-Sql": Group(codes("SUB001"), {"one": {"sql": "a > 1"}, "two": {"sql": "a > 2"}}),
    # Half of the second topic's queues are the share of who does not subscribe to it.
    "DiagSub-Topics": Group(codes("SUB002", "ALO003"), {"one": {"also": "DiagSub-Other"}, "two": {}}),
}


@pytest.mark.timeout(LIMIT_S)
def test_members_that_do_not_agree_what_to_read(cluster: Cluster, rmqctl: Rmqctl) -> None:
    with running(cluster, _SUBSCRIPTIONS):
        found = diagnose(rmqctl, "DiagSub-*")
    check(found, {name: group.expected for name, group in _SUBSCRIPTIONS.items()})


_HEALTHY = {
    "DiagFine-Two": Group(codes(), alike("one", "two")),
    # As clients are unless told otherwise: a heartbeat each 30 s.
    "DiagFine-Slow": Group(codes(), alike("one", "two", heartbeat=30_000)),
    "DiagFine-Many": Group(codes(), alike("one", "two", "three"), held=2, queue_count=1),
    "DiagFine-Topics": Group(codes(), alike("one", "two", also="DiagFine-Other")),
    "DiagFine-Cast": Group(codes(), alike("one", "two", broadcast=1), held=4 * QUEUES, retry=0),
    "DiagFine-Order": Group(codes(), alike("one", "two", orderly=1)),
    "DiagFine-Hash": Group(codes(), alike("one", "two", strategy="AllocateMessageQueueConsistentHash")),
    "DiagFine-Circle": Group(codes(), alike("one", "two", strategy="AllocateMessageQueueAveragelyByCircle")),
    "DiagFine-Tags": Group(codes(), {"one": {"expr": "TagA || TagB"}, "two": {"expr": "TagB||TagA"}}),
}
# At a broker without the topic there may be no group: clients of 5.x send it no heartbeat, those of 4.9 do.
_LONELY = Group(codes(), alike("one", "two"), held=QUEUES, brokers=("broker-a",))
# What is sent is read by all of them; one topic gets nothing.
_SENT = ("DiagFine-Two", "DiagFine-Slow", "DiagFine-Many", "DiagFine-Topics", "DiagFine-Cast", "DiagFine-Order")


@pytest.mark.timeout(LIMIT_S)
def test_nothing_is_wrong_with_groups_that_consume(cluster: Cluster, rmqctl: Rmqctl) -> None:
    java = cluster.java
    is_5 = cluster.version.startswith("5")
    groups = {**_HEALTHY, "DiagFine-Lonely": _LONELY._replace(retry=1 if is_5 else 2)}
    expected = {name: group.expected for name, group in groups.items()}
    for name in ("DiagFine-Lite", "DiagFine-Offline", "DiagFine-Pop", "DiagFine-Fresh"):
        cluster.create_topic(name)
    java.produce("DiagFine-Offline", 40)
    java.consume("offline", "DiagFine-Offline", "DiagFine-Offline")
    java.wait_consumed("offline", 40)
    java.stop("offline")
    others = ["fresh"]
    java.consume("fresh", "DiagFine-Fresh", "DiagFine-Fresh")
    for number in range(2):
        java.lite(f"lite{number}", "DiagFine-Lite", "DiagFine-Lite")
        java.poll_on(f"lite{number}")
        others.append(f"lite{number}")
    if is_5:
        for address in cluster.addresses.values():
            java.mqadmin(
                "setConsumeMode", "-b", address, "-t", "DiagFine-Pop", "-g", "DiagFine-Pop", "-m", "POP", "-q", "0"
            )
        for number in range(2):
            java.consume(f"pop{number}", "DiagFine-Pop", "DiagFine-Pop", pop=1, instance=f"fine-pop{number}")
            others.append(f"pop{number}")
    try:
        with running(cluster, groups):
            for topic in (*_SENT, "DiagFine-Lite", "DiagFine-Pop"):
                java.produce(topic, 80)
            for name in _SENT:
                wait_consumed(java, [f"{name} {member}" for member in _HEALTHY[name].members], 80)
            wait_consumed(java, ["lite0", "lite1"], 80)
            if "pop0" in others:
                wait_consumed(java, ["pop0", "pop1"], 80)
            found = diagnose(rmqctl, "DiagFine-*")
    finally:
        for consumer_id in others:
            java.stop(consumer_id)
    expected |= {name: codes() for name in ("DiagFine-Lite", "DiagFine-Offline", "DiagFine-Fresh")}
    if is_5:
        expected["DiagFine-Pop"] = codes()
    check(found, expected)
    # 4.9.7's client has known defects.
    known = [] if is_5 else ["VER001"]
    assert sorted(item["code"] for item in found.items["DiagFine-Many"]) == ["MEM008", *known]


# How members differ, one group each.
_MEMBERS = {
    # Both take the first half; the other half is the share that the second one is counted for.
    "DiagMember-Shared": Group(
        codes("MEM001", "ALO003"),
        {"one": {"instance": "DiagMember-same"}, "two": {"instance": "DiagMember-same", "other": 1}},
        retry_queues=1,
    ),
    "DiagMember-Models": Group(codes("MEM003"), {"one": {}, "two": {"broadcast": 1}}, held=3 * QUEUES, retry=1),
    # Brokers nearly always have the model of who is heard more often.
    "DiagMember-Seldom": Group(
        codes("MEM003"), {"one": {}, "two": {"broadcast": 1, "heartbeat": 30_000}}, held=3 * QUEUES, retry=1
    ),
    "DiagMember-Types": Group(codes("MEM004"), {"one": {}, "two": {"lite": 1}}, held=QUEUES, retry=1),
    "DiagMember-Strategies": Group(
        codes("ALO001", "ALO003", "ALO004"), {"one": {}, "two": {"strategy": "AllocateMessageQueueAveragelyByCircle"}}
    ),
    # Their retry limits differ as well: orderly members have none.
    "DiagMember-Order": Group(codes("MEM007"), {"one": {}, "two": {"orderly": 1}}),
    "DiagMember-From": Group(codes("MEM006"), {"one": {"from": "first"}, "two": {"from": "last"}}),
    "DiagMember-Timeout": Group(codes("MEM006"), {"one": {}, "two": {"timeout": 5}}),
    "DiagMember-Retries": Group(codes("MEM006"), {"one": {}, "two": {"max": 3}}),
}


@pytest.mark.timeout(LIMIT_S)
def test_members_that_differ(cluster: Cluster, rmqctl: Rmqctl) -> None:
    with another_jvm(cluster) as other, running(cluster, _MEMBERS, other):
        found = diagnose(rmqctl, "DiagMember-*")
    check(found, {name: group.expected for name, group in _MEMBERS.items()})


_REFUSED = {
    "DiagPull-Off": Group(codes("PUL001", "CFG001"), alike("one")),
    "DiagPull-Retry": Group(codes("RTY001"), alike("one")),
    "DiagPull-Cast": Group(codes("PUL003"), alike("one", "two", broadcast=1), held=4 * QUEUES, retry=0),
    "DiagPull-Closed": Group(codes("PUL004"), alike("one", "two"), held=2 * QUEUES),
    "DiagPull-Fine": Group(codes(), alike("one")),
}
_FORBIDDEN = {
    "DiagPull-Topic": Group(codes("PUL002"), alike("one")),
    # Forbidden is another topic, which nobody wants.
    "DiagPull-Elsewhere": Group(codes(), alike("one")),
}


@pytest.mark.timeout(LIMIT_S)
def test_pulls_that_brokers_refuse(cluster: Cluster, rmqctl: Rmqctl) -> None:
    groups = {**_REFUSED, **(_FORBIDDEN if cluster.version.startswith("5") else {})}
    cluster.java.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", "DiagPull-Cast", "-d", "true")
    with running(cluster, groups):
        for words in (
            ("DiagPull-Off", "--no-consume", "--broker", "broker-a"),
            ("DiagPull-Retry", "--set", "retryQueueNums=0"),
            ("DiagPull-Cast", "--no-broadcast"),
        ):
            changed = rmqctl("group", "update", *words, "--yes")
            assert changed.exit_code == 0, changed.stderr
        cluster.create_topic("DiagPull-Closed", brokers=("broker-a",), perm=2)
        for name, topic in (("DiagPull-Topic", "DiagPull-Topic"), ("DiagPull-Elsewhere", "DiagPull-Fine")):
            for broker_name in cluster.brokers if name in groups else ():
                _forbid(cluster, broker_name, name, topic)
        # Routes are asked for every 30 s.
        closed = {f"DiagPull-Closed {member}": cluster.java for member in ("one", "two")}
        wait_held(closed, {"DiagPull-Closed": QUEUES})
        found = diagnose(rmqctl, "DiagPull-*")
    check(found, {name: group.expected for name, group in groups.items()})
    assert {item["topic"] for item in found.items["DiagPull-Closed"] if item["code"] == "PUL004"} == {"DiagPull-Closed"}


def _forbid(cluster: Cluster, broker_name: str, group: str, topic: str) -> None:
    with closing(cluster.asker(broker_name)) as asker:
        answer = asker("broker", RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, group=group, topic=topic, readable=False)
    assert answer is not None, broker_name
    assert answer.code == 0, answer.remark


def _store(cluster: Cluster, group: str, topic: str) -> None:
    """Store the offset 0 of a group without members in all queues."""
    cluster.java.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", group)
    for broker_name in cluster.brokers:
        with closing(cluster.asker(broker_name)) as asker:
            for queue_id in range(QUEUES):
                answer = asker(
                    "broker", RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=group, topic=topic, queueId=queue_id,
                    commitOffset=0,
                )  # fmt: skip
                assert answer is not None, broker_name
                assert answer.code == 0, answer.remark


@pytest.mark.timeout(LIMIT_S)
def test_lag_and_messages_that_are_not_where_the_others_are(cluster: Cluster, rmqctl: Rmqctl) -> None:
    every = [f"{broker_name}:{queue_id}" for broker_name in cluster.brokers for queue_id in range(QUEUES)]
    at_a = [queue for queue in every if queue.startswith("broker-a")]
    sent: dict[str, tuple[Sequence[str], int, frozenset[str]]] = {
        "DiagLag-Queue": (["broker-a:0"], 3000, codes("SKW001", "OFF005")),
        "DiagLag-Broker": (at_a, 1500, codes("SKW002", "OFF005")),
        "DiagLag-Even": (every, 1000, codes("OFF005")),
        # So few are caught up with at once.
        "DiagLag-Few": (["broker-b:3"], 100, codes("OFF005")),
        "DiagLag-None": ([], 0, codes()),
    }
    for name, (queues, count, _) in sent.items():
        cluster.create_topic(name)
        _store(cluster, name, name)
        produce(cluster.java, name, queues, count)
    hot = {"DiagLag-Hot": Group(codes("SKW003"), alike("one", "two"))}
    with (
        another_jvm(cluster) as other,
        running(cluster, hot),
        repeating(lambda: other.produce("DiagLag-Hot", 100, queue="broker-b:2", rate=300)),
    ):
        wait_consumed(cluster.java, ["DiagLag-Hot one", "DiagLag-Hot two"], 300)
        found = diagnose(rmqctl, "DiagLag-*", "--for", "5s")
    check(found, {name: codes for name, (_, _, codes) in sent.items()} | {"DiagLag-Hot": codes("SKW003")})


_GHOSTS = {
    # The ghost's filter stays, and is newer than any that a member can have within the hour.
    "DiagGhost-Gone": Group(codes("SUB004", "SUB006"), {"one": {"expr": "TagA"}}),
    "DiagGhost-Alike": Group(codes("SUB006"), {"one": {"expr": "TagB"}}),
    # It is still there, and does not tell what it wants.
    "DiagGhost-There": Group(codes("SUB006"), {"one": {"expr": "TagA"}}),
}


@pytest.mark.timeout(LIMIT_S)
def test_brokers_that_keep_the_filter_of_a_fast_clock(cluster: Cluster, rmqctl: Rmqctl) -> None:
    with running(cluster, _GHOSTS), ExitStack() as stack:
        for name in _GHOSTS:
            subscription = make_subscription(name, "TagB", version_ms=int(time.time() * 1000) + 3_600_000)
            for broker_name in cluster.brokers:
                said = heartbeat(f"10.0.0.9@{name}-ghost", name, [subscription, retry_subscription(name)])
                asker = cluster.asker(broker_name)
                answer = asker.connection("broker").ask(said)
                assert answer is not None, broker_name
                assert answer.code == 0, answer.remark
                if name == "DiagGhost-There":
                    stack.callback(asker.close)
                else:
                    asker.close()
        keys = {f"{name} one": name for name in _GHOSTS}
        for key, name in keys.items():
            wait_held({key: cluster.java}, {name: QUEUES if name == "DiagGhost-There" else 2 * QUEUES})
        found = diagnose(rmqctl, "DiagGhost-*")
    check(found, {name: group.expected for name, group in _GHOSTS.items()})


@pytest.mark.timeout(LIMIT_S)
def test_a_member_that_does_not_answer_leaves_checks_open(cluster: Cluster, rmqctl: Rmqctl) -> None:
    groups = {"DiagSilent-One": Group(codes(), {"one": {}, "two": {"other": 1}})}
    with another_jvm(cluster) as other, running(cluster, groups, other):
        other.java.pause()
        try:
            found = diagnose(rmqctl, "DiagSilent-*")
        finally:
            other.java.resume()
    check(found, {"DiagSilent-One": codes()})
    assert "MEM009" in [item["code"] for item in found.items["DiagSilent-One"]]
    unknown = {each["need"]: each["codes"] for each in found.groups["DiagSilent-One"]["unknown"]}
    assert {"ALO003", "ALO004", "SUB001"} <= set(unknown["MEMBERS"])
    assert found.exit_code == 8


@pytest.mark.timeout(LIMIT_S)
def test_a_rebalance_is_no_fault(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """One member joins the moment before; of another group, one member after the other is started again."""
    java = cluster.java
    groups = {
        "DiagMove-Join": Group(codes(), alike("one", "two", heartbeat=30_000)),
        "DiagMove-Roll": Group(codes(), alike("one", "two", "three", heartbeat=30_000)),
    }
    is_over = threading.Event()

    def roll() -> None:
        """Restart one after the other, as deployments do: under another id each."""
        for number in range(100):
            key = f"DiagMove-Roll {('one', 'two', 'three')[number % 3]}"
            java.stop(key)
            java.consume(
                key, "DiagMove-Roll", "DiagMove-Roll", instance=f"DiagMove-{number}", threads=2, heartbeat=30_000
            )
            if is_over.wait(12):
                return

    with running(cluster, groups):
        java.consume("third", "DiagMove-Join", "DiagMove-Join", instance="DiagMove-third", heartbeat=30_000)
        roller = threading.Thread(target=roll)
        roller.start()
        try:
            found = diagnose(rmqctl, "DiagMove-*")
        finally:
            is_over.set()
            roller.join()
            java.stop("third")
    check(found, {name: group.expected for name, group in groups.items()})


@pytest.mark.timeout(LIMIT_S)
def test_nothing_is_wrong_with_groups_that_have_just_started(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """Java's clients learn of their retry topic within 30 s, and share it 20 s later."""
    java = cluster.java
    groups = [f"DiagNew-{number}" for number in range(4)]
    for group in groups:
        cluster.create_topic(group)
    keys = [(f"{group} {member}", group) for group in groups for member in ("one", "two")]
    for key, group in keys:
        java.consume(key, group, group, instance=key.replace(" ", "-"), threads=2, heartbeat=30_000)
    try:
        found = diagnose(rmqctl, "DiagNew-*", "--settle", SETTLE)
    finally:
        for key, _ in keys:
            java.stop(key)
    check(found, {group: codes() for group in groups})
