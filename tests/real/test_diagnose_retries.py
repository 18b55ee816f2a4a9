"""What `rmqctl diagnose` says of the retry path, of locks of orderly members and of members that come and go."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from rmqctl.protocol.codes import RequestCode
from tests.real.harness.conditions import wait_until
from tests.real.harness.diagnose_case import LIMIT_S, QUEUES, Found, Group, another_jvm, codes, diagnose, running
from tests.repetition import repeating

from .harness.cluster import Cluster
from .harness.consumer import our_consumers
from .harness.rmqctl import Rmqctl

_ONLY = "RTY,ORD,CFG003,DLQ,MEM010"


def _wait_found(rmqctl: Rmqctl, pattern: str, expected: Mapping[str, set[str]]) -> Found:
    """Look until each group has these findings and no other; members count what fails over a minute."""
    found: list[Found] = []

    def seen() -> dict[str, set[str]]:
        return {name: {item["code"] for item in items} for name, items in found[-1].items.items()}

    def is_found() -> bool:
        found.append(diagnose(rmqctl, pattern, "--only", _ONLY, "--for", "0s", "--settle", "0s"))
        return seen() == expected

    wait_until(is_found, timeout_s=180, why=lambda: (seen(), expected))
    return found[-1]


def _alone(**options: Any) -> Group:
    return Group(codes(), {"one": options})


_FAILING = {
    "RetryFails-Most": _alone(fail="bad"),
    "RetryFails-Some": _alone(fail="bad"),
    "RetryFails-Dead": _alone(fail="bad", max=0),
    "RetryFails-Order": _alone(fail="bad", orderly=1),
    "RetryFails-Limit": _alone(fail="bad", orderly=1, max=3),
    "RetryFails-None": _alone(),
    "RetryFails-Quiet": _alone(),
}


@pytest.mark.timeout(LIMIT_S)
def test_messages_that_fail(cluster: Cluster, rmqctl: Rmqctl) -> None:
    java = cluster.java
    with another_jvm(cluster) as other, running(cluster, _FAILING):
        for broker in cluster.addresses:
            changed = rmqctl(
                "group", "update", "RetryFails-Quiet", "--set", "notifyConsumerIdsChangedEnable=false",
                "--broker", broker, "--yes",
            )  # fmt: skip
            assert changed.exit_code == 0, changed.stderr
        java.produce("RetryFails-Some", 200, batch=20)
        for name in _FAILING:
            java.produce(name, 20, prefix="bad", batch=10)

        def send() -> None:
            for name in ("RetryFails-Most", "RetryFails-Dead"):
                other.produce(name, 5, prefix="bad")

        with repeating(send, 1):
            _wait_found(
                rmqctl,
                "RetryFails-*",
                {
                    "RetryFails-Most": {"RTY004"},
                    "RetryFails-Some": set(),
                    "RetryFails-Dead": {"RTY004", "DLQ001", "DLQ002"},
                    "RetryFails-Order": {"RTY004", "RTY005"},
                    # In order, and with a limit: given up after three tries.
                    "RetryFails-Limit": {"DLQ001", "DLQ002"},
                    "RetryFails-None": set(),
                    "RetryFails-Quiet": {"CFG003"},
                },
            )


@contextmanager
def _read_only(cluster: Cluster, broker_name: str) -> Iterator[None]:
    words = ("updateBrokerConfig", "-b", cluster.addresses[broker_name], "-k", "brokerPermission", "-v")
    cluster.java.mqadmin(*words, "4")
    try:
        yield
    finally:
        cluster.java.mqadmin(*words, "6")


_PLACES = {"RetryPlace-Blocked": _alone(), "RetryPlace-Elsewhere": _alone(), "RetryPlace-Cast": _alone(broadcast=1)}


@pytest.mark.timeout(LIMIT_S)
def test_brokers_that_take_no_failed_messages(cluster: Cluster, rmqctl: Rmqctl) -> None:
    groups = {**_PLACES, "RetryPlace-Cast": _PLACES["RetryPlace-Cast"]._replace(retry=0)}
    with running(cluster, groups), _read_only(cluster, "broker-b"):
        cluster.create_topic("%RETRY%RetryPlace-Blocked", queue_count=1, brokers=("broker-a",), perm=4)
        found = _wait_found(
            rmqctl,
            "RetryPlace-*",
            {"RetryPlace-Blocked": {"RTY002"}, "RetryPlace-Elsewhere": {"RTY002"}, "RetryPlace-Cast": set()},
        )
        severities = {
            name: {item["severity"] for item in items if item["code"] == "RTY002"}
            for name, items in found.items.items()
        }
        assert severities["RetryPlace-Blocked"] == {"WARNING"}
        assert severities["RetryPlace-Elsewhere"] == {"INFO"}


def _lock(cluster: Cluster, group: str, topic: str, owners: Sequence[str]) -> None:
    """Give all queues of the topic from the first client to the second one."""
    old, new = owners
    for broker_name in cluster.addresses:
        queues = [{"topic": topic, "brokerName": broker_name, "queueId": number} for number in range(QUEUES)]
        with closing(cluster.asker(broker_name)) as asker:
            for code, client_id in ((RequestCode.UNLOCK_BATCH_MQ, old), (RequestCode.LOCK_BATCH_MQ, new)):
                body = {"consumerGroup": group, "clientId": client_id, "mqSet": queues}
                answer = asker("broker", code, body)
                assert answer is not None, broker_name
                assert answer.code == 0, answer.remark


@pytest.mark.timeout(LIMIT_S)
def test_locks_of_orderly_members(cluster: Cluster, rmqctl: Rmqctl, tmp_path: Path) -> None:
    """Java's and ours, in groups of their own."""
    java = cluster.java
    groups = {
        "OrderLock-Lost": _alone(orderly=1),
        "OrderLock-Kept": _alone(orderly=1, stuck="stuck", threads=2 * QUEUES),
        "OrderLock-Fine": Group(codes(), {"one": {"orderly": 1}, "two": {"orderly": 1}}),
    }
    our_lost, our_kept = "OrderLock-OurLost", "OrderLock-OurKept"
    for name in (our_lost, our_kept):
        cluster.create_topic(name, queue_count=QUEUES)
    seconds = {"OrderLock-Kept": "kept", our_kept: "our-kept"}
    with running(cluster, groups), our_consumers(cluster.namesrv, tmp_path / "ours") as ours:
        (client_id,) = {item["clientId"] for item in rmqctl.items("group", "members", "OrderLock-Lost")}
        owners = {"OrderLock-Lost": client_id, our_lost: ours("lost", our_lost, our_lost, "--orderly").wait_joined()}
        kept = ours("kept", our_kept, our_kept, "--orderly", SLOW="stuck")
        for name in seconds:
            java.produce(name, 80, prefix="stuck")
        wait_until(lambda: int(java.call("started", id="OrderLock-Kept one")) >= 2 * QUEUES, timeout_s=60)
        wait_until(lambda: len(kept.heard("BEGAN")) >= 2 * QUEUES, timeout_s=60)
        # A second member is to have half of the queues, and the first cannot let go of any: its threads work on all.
        for name, member in seconds.items():
            java.consume(member, name, name, orderly=1, instance=f"{name}-two")
        try:
            seen: dict[str, set[str]] = {name: set() for name in (*groups, our_lost, our_kept)}
            # Ours gives up a queue that it cannot lock. Java's of 5.x give up one whose batch runs, after 20 s.
            expected = {
                "OrderLock-Lost": "ORD001", our_lost: "ALO002", "OrderLock-Kept": "ORD002", our_kept: "ORD002",
            }  # fmt: skip

            def is_seen() -> bool:
                # Members renew their locks each 20 s, others lose theirs after 60 s.
                for name, owner in owners.items():
                    _lock(cluster, name, name, (owner, "ghost"))
                found = diagnose(rmqctl, "OrderLock-*", "--only", "ORD,ALO002", "--for", "0s", "--settle", "0s")
                for name, items in found.items.items():
                    seen[name].update(item["code"] for item in items)
                return all(code in seen[name] for name, code in expected.items())

            wait_until(is_seen, timeout_s=180, why=lambda: seen)
            assert not seen["OrderLock-Fine"]
        finally:
            for member in seconds.values():
                java.stop(member)


@pytest.mark.timeout(LIMIT_S)
def test_members_that_come_and_go(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """One restarts all the time; those of another group are restarted one after the other, once each."""
    java = cluster.java
    groups = {
        "Flap-Loop": Group(codes(), {"one": {}, "two": {}}),
        "Flap-Roll": Group(codes(), {"one": {}, "two": {}, "three": {}}),
        "Flap-Fine": Group(codes(), {"one": {}, "two": {}}),
    }
    rolling = ["one", "two", "three"]

    def restart(name: str, member: str) -> None:
        java.stop(f"{name} {member}")
        time.sleep(3)
        java.consume(f"{name} {member}", name, name, instance=f"{name}-{member}", threads=2)

    def churn() -> None:
        restart("Flap-Loop", "two")
        if rolling:
            restart("Flap-Roll", rolling.pop())

    with running(cluster, groups), repeating(churn, 3):
        found = diagnose(rmqctl, "Flap-*", "--only", "MEM010", "--for", "45s", "--settle", "0s")
    assert found.codes == {"Flap-Loop": {"MEM010"}, "Flap-Roll": set(), "Flap-Fine": set()}
