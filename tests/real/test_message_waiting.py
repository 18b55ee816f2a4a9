"""Messages that wait until they are due, in the index of real brokers: delayed ones, and one between two tries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from rmqctl.client.core import Client
from rmqctl.protocol.sends import send_back
from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.rmqctl import PATIENT, Rmqctl
from .harness.small_disk import SmallDiskCluster
from .harness.workbench import WorkbenchError
from .test_message_get import wait_indexed

_HOUR_MS = 3_600_000


def _found(cluster: Cluster, rmqctl: Rmqctl, unique_key: str, key: str, topic: str) -> Iterator[dict[str, Any]]:
    """Yield what each way to ask finds."""
    wait_indexed(cluster, topic, key, 1)
    for words in (
        ("get", unique_key, "--topic", topic),
        ("get", "--topic", topic, "--key", key),
        ("find", topic, "--key", key),
    ):
        (item,) = rmqctl.items("message", *words)
        assert (item["msgId"], item["keys"]) == (unique_key, [key])
        yield item


def test_delayed_messages_are_found_where_they_wait(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Waiting", queue_count=1)
    ways = {"level": (("--delay-level", "17"), 17), "timer": (("--delay", "1h"), None)}
    for key, (options, level) in ways.items():
        if level is None and cluster.version == "4.9.7":
            continue
        (sent,) = rmqctl.items("message", "send", "Waiting", "x", "--key", key, *options)
        for item in _found(cluster, rmqctl, sent["msgId"], key, "Waiting"):
            waits = item["waits"]
            assert (item["brokerName"], waits["topic"], waits["queueId"]) == (
                sent["brokerName"], "Waiting", sent["queueId"]
            )  # fmt: skip
            assert (waits["delayLevel"], item["topic"]) == (
                level, "SCHEDULE_TOPIC_XXXX" if level else "rmq_sys_wheel_timer"
            )  # fmt: skip
            # A timer's slot is a second; the broker looks at its clock before it stores the message.
            assert abs(waits["dueTimestamp"] - item["storeTimestamp"] - _HOUR_MS) <= (0 if level else 1_000)


def test_a_delayed_message_is_in_its_topic_when_it_was_due(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("WaitedFor", queue_count=1, brokers=("broker-a",))
    (sent,) = rmqctl.items("message", "send", "WaitedFor", "x", "--key", "k", "--delay-level", "4")
    waiting = next(_found(cluster, rmqctl, sent["msgId"], "k", "WaitedFor"))

    def delivered() -> list[dict[str, Any]]:
        return [item for item in rmqctl.items("message", "find", "WaitedFor", "--key", "k") if "waits" not in item]

    wait_until(lambda: bool(delivered()), why=lambda: "it was not delivered")
    (item,) = delivered()
    assert (item["topic"], item["msgId"]) == ("WaitedFor", sent["msgId"])
    assert item["storeTimestamp"] >= waiting["waits"]["dueTimestamp"]


def test_a_message_between_two_tries_is_found_in_the_retry_topic(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("WaitsAgain", queue_count=1, brokers=("broker-a",))
    (sent,) = rmqctl.items("message", "send", "WaitsAgain", "x", "--key", "again")
    (first,) = rmqctl.items("message", "get", sent["offsetMsgId"])
    command = send_back(
        "WaitsAgainG", first["commitLogOffset"], delay_level=17, max_reconsume_times=16,
        origin_message_id=first["offsetMsgId"], origin_topic="WaitsAgain", broker_name="broker-a",
    )  # fmt: skip

    async def give_back() -> None:
        async with Client([cluster.namesrv], timeout_s=60) as client:
            await client.ask(cluster.addresses["broker-a"], command)

    asyncio.run(give_back())
    cluster.wait_for_route("%RETRY%WaitsAgainG", 1)
    for item in _found(cluster, rmqctl, sent["msgId"], "again", "%RETRY%WaitsAgainG"):
        waits = item["waits"]
        assert (waits["topic"], waits["delayLevel"], item["reconsumeTimes"]) == ("%RETRY%WaitsAgainG", 17, 1)
        assert waits["dueTimestamp"] == item["storeTimestamp"] + _HOUR_MS


def test_keys_with_other_white_space_than_blanks_are_one_key(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("WideKeys", queue_count=1, brokers=("broker-a",))
    for key in ("订单\u30001024", "a\u00a0b", "a\tb", "end\n"):
        (sent,) = rmqctl.items("message", "send", "WideKeys", "x", "--key", key)
        wait_indexed(cluster, "WideKeys", key, 1)
        (item,) = rmqctl.items("message", "get", "--topic", "WideKeys", "--key", key)
        assert (item["msgId"], item["keys"]) == (sent["msgId"], [key])


def test_a_broker_that_delivers_late_is_told_with_how_late(small_disk: SmallDiskCluster) -> None:
    """A full disk keeps a broker from delivering; so does a setting of its timers."""
    rmqctl = Rmqctl(small_disk.namesrv, timeout=PATIENT)
    small_disk.create_topic("Late", queue_count=1)
    (address,) = small_disk.addresses.values()
    is_5 = small_disk.version != "4.9.7"
    if is_5:
        small_disk.java.mqadmin("updateBrokerConfig", "-b", address, "-k", "timerStopEnqueue", "-v", "true")
        small_disk.java.produce("Late", 1, key="timer", timer=3_000)
    small_disk.fill()
    # The broker looks at its disk every 10 s, 5.4 from 60 s after its start on.
    keys: list[str] = []

    def is_full() -> bool:
        try:
            small_disk.java.produce("Late", 1, key=f"level{len(keys)}", delay=3)
        except WorkbenchError:
            return True
        keys.append(f"level{len(keys)}")
        return False

    wait_until(is_full, timeout_s=120)
    level = keys[-1]

    def item(key: str) -> dict[str, Any]:
        return rmqctl.items("message", "get", "--topic", "Late", "--key", key)[-1]

    wait_until(lambda: (item(level).get("waits") or {}).get("overdueMs", 0) > 10_000, timeout_s=60)
    (row,) = rmqctl.items("doctor", "--where", "check=delays")
    assert (row["status"], set(row["measured"]["lateLevels"])) == ("WARN", {"3"})
    if is_5:
        assert item("timer")["waits"]["overdueMs"] > 10_000
        assert row["measured"]["timersOverdueMs"] > 10_000
        small_disk.java.mqadmin("updateBrokerConfig", "-b", address, "-k", "timerStopEnqueue", "-v", "false")
    small_disk.free()
    wait_until(lambda: "waits" not in item(level), timeout_s=120)
