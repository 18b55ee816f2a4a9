"""`topic list`, `route`, `status` and `producers` against real brokers, with mqadmin as the second opinion."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.client.core import Client
from rmqctl.protocol import bodies
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command

from .harness.cluster import Cluster
from .harness.conditions import wait_until
from .harness.held import held, held_when_quiet
from .harness.rmqctl import Rmqctl


@pytest.fixture(scope="module")
def topics(cluster: Cluster) -> Cluster:
    """Make topics of every shape: even, uneven, on one broker, read-only, ordered, and with unread queues."""
    address = cluster.brokers["broker-a"].address
    cluster.create_topic("Even", queue_count=4)
    cluster.create_topic("OnlyA", queue_count=2, brokers=("broker-a",))
    cluster.create_topic("Uneven", queue_count=3, brokers=("broker-a",))
    cluster.create_topic("Uneven", queue_count=5, brokers=("broker-b",))
    cluster.java.mqadmin("updateTopic", "-b", address, "-t", "Unread", "-r", "2", "-w", "4")
    cluster.java.mqadmin("updateTopic", "-b", address, "-t", "ReadOnly", "-r", "3", "-w", "3", "-p", "4")
    cluster.java.mqadmin("updateTopic", "-c", "DefaultCluster", "-t", "InOrder", "-r", "3", "-w", "3", "-o", "true")
    cluster.wait_for_route("Unread", 1)
    cluster.wait_for_route("ReadOnly", 1)
    cluster.wait_for_route("InOrder", 2)
    cluster.java.produce("Even", 40)
    cluster.java.produce("Unread", 8)
    cluster.java.consume("even", "EvenGroup", "Even")
    cluster.java.wait_consumed("even", 40)
    # A group that is gone stays in what brokers know, and writes no more offsets.
    cluster.java.stop("even")
    return cluster


def test_topic_list_has_the_names_that_mqadmin_has(topics: Cluster, rmqctl: Rmqctl) -> None:
    printed = set(topics.java.mqadmin("topicList").split())
    ours = {item["topic"]: item for item in rmqctl.items("topic", "list", "--system")}

    assert {name for name, item in ours.items() if item["atNameServer"]} == printed
    assert {name for name, item in ours.items() if item["kind"] == "NORMAL"} >= {"Even", "OnlyA", "Uneven", "InOrder"}
    assert ours["%RETRY%EvenGroup"]["kind"] == "RETRY"


def test_system_topics_are_those_that_brokers_say(topics: Cluster, rmqctl: Rmqctl) -> None:
    async def told() -> set[str]:
        async with Client([topics.namesrv]) as client:
            found = await fetch_cluster(client)
            command = Command(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
            answers = [await client.ask_broker(broker, command) for broker in found.brokers]
            return {name for answer in answers for name in bodies.decode_topic_names(answer.command.body)}

    items = rmqctl.items("topic", "list", "--system")
    ours = {item["topic"] for item in items if item["kind"] in ("SYSTEM", "DELAY")}
    # Brokers also name some that they make only when they are needed.
    assert ours == asyncio.run(told()) & {item["topic"] for item in items}


def test_differences_and_permissions_are_found(topics: Cluster, rmqctl: Rmqctl) -> None:
    items = {item["topic"]: item for item in rmqctl.items("topic", "list", "--with-stats")}

    assert (items["Uneven"]["findings"], items["Unread"]["findings"]) == (["QUEUES_DIFFER"], ["UNREAD_QUEUES"])
    assert (items["Even"]["findings"], items["OnlyA"]["findings"]) == ([], [])
    assert (items["ReadOnly"]["perm"], items["Even"]["order"]) == (4, False)
    # A 4.9 broker does not keep the flag that it is sent: it learns it from the name server, within 30 s.
    assert items["InOrder"]["order"] or topics.version.startswith("4.")
    assert items["OnlyA"]["brokerNames"] == ["broker-a"]
    assert (items["Even"]["messageCount"], items["Unread"]["messageCount"]) == (40, 8)
    if topics.version.startswith("4."):
        assert items["Even"]["reasons"]["topicPutTps"] == "BROKER_TOO_OLD"
    else:
        assert items["Even"]["topicPutTps"] >= 0


@pytest.mark.since_5
def test_a_topics_message_type_is_shown(topics: Cluster, rmqctl: Rmqctl) -> None:
    topics.java.mqadmin(
        "updateTopic", "-c", "DefaultCluster", "-t", "Typed", "-r", "2", "-w", "2", "-a", "+message.type=DELAY"
    )
    topics.wait_for_route("Typed", 2)
    (item,) = rmqctl.items("topic", "list", "Typed")
    assert item["messageType"] == "DELAY"


@pytest.mark.parametrize("topic", ["Even", "OnlyA", "Uneven", "Unread", "ReadOnly", "InOrder"])
def test_topic_route_equals_mqadmin(topic: str, topics: Cluster, rmqctl: Rmqctl) -> None:
    printed = re.sub(r"\s", "", topics.java.mqadmin("topicRoute", "-t", topic))
    queue_parts = re.findall(r'\{"brokerName":"([^"]+)","perm":(\d+),"readQueueNums":(\d+),"topicSysFlag":0,'
                             r'"writeQueueNums":(\d+)\}', printed)  # fmt: skip
    addresses = re.findall(r'"brokerAddrs":\{"?0"?:"([^"]+)"\},"brokerName":"([^"]+)"', printed)
    result = rmqctl("topic", "route", topic, "-o", "json")
    items = result.document["items"]

    assert [
        (item["brokerName"], str(item["perm"]), str(item["readQueueNums"]), str(item["writeQueueNums"]))
        for item in items
    ] == sorted(queue_parts)
    assert {(item["masterAddr"], item["brokerName"]) for item in items} == set(addresses)
    assert all(item["nameServers"] == [topics.namesrv] for item in items)
    assert result.document["nameServersAgree"] is True
    conf = result.document["orderTopicConf"][topics.namesrv]
    assert (sorted(conf.split(";")) if conf else None) == (["broker-a:3", "broker-b:3"] if topic == "InOrder" else None)


@pytest.mark.parametrize("topic", ["Even", "Uneven", "Unread", "ReadOnly"])
def test_topic_status_equals_mqadmin(topic: str, topics: Cluster, rmqctl: Rmqctl) -> None:
    printed = topics.java.mqadmin("topicStatus", "-t", topic)
    rows = re.findall(r"^(broker-\w)\s+(\d+)\s+(\d+)\s+(\d+)", printed, re.MULTILINE)
    items = rmqctl.items("topic", "status", topic)

    assert [
        (item["brokerName"], *(str(item[key]) for key in ("queueId", "minOffset", "maxOffset"))) for item in items
    ] == sorted(rows)
    for item in items:
        assert (item["earliestTimestamp"] is not None) == (item["messageCount"] > 0)
        if item["messageCount"]:
            assert item["earliestTimestamp"] <= item["lastUpdateTimestamp"]


def test_topic_status_has_consumers_and_unread_messages(topics: Cluster, rmqctl: Rmqctl) -> None:
    even = rmqctl("topic", "status", "Even", "-o", "json").document
    unread = rmqctl("topic", "status", "Unread")

    assert even["summary"]["groups"] == [{"group": "EvenGroup", "brokerNames": ["broker-a", "broker-b"]}]
    assert even["findings"] == []
    assert "UNREAD_MESSAGES" in unread.stderr
    assert [line.split()[-1] for line in unread.stdout.splitlines()[1:]] == ["read-write"] * 2 + ["write-only"] * 2


def test_topic_producers_are_those_of_mqadmin(topics: Cluster, rmqctl: Rmqctl) -> None:
    # The topics' producer has sent to both brokers, and sends heartbeats to both within 30 s.
    def seen() -> list[dict[str, Any]]:
        return rmqctl.items("topic", "producers", "Even", "--group", "WORKBENCH_PRODUCER")

    wait_until(lambda: [item["brokerNames"] for item in seen()] == [["broker-a", "broker-b"]])
    (item,) = seen()
    printed = "".join(topics.java.mqadmin("producer", "-b", address) for address in topics.addresses.values())
    rows = re.findall(r"\(WORKBENCH_PRODUCER\) instance : clientId=([^,]+),remoteIP=/([^,]+), language=(\w+)", printed)
    addresses = [address for at_broker in item["clientAddrs"].values() for address in at_broker]
    assert rows == [(item["clientId"], address, item["language"]) for address in addresses]
    assert (item["clientVersion"], item["unseenAt"], item["untoldAt"]) == (topics.version, [], [])
    # A Java consumer and mqadmin are only in RocketMQ's own producer group.
    groups = {each["producerGroup"] for each in rmqctl.items("topic", "producers", "Even")}
    system = {each["producerGroup"] for each in rmqctl.items("topic", "producers", "Even", "--system")}
    assert system - groups == {"CLIENT_INNER_PRODUCER"}


def test_these_reads_leave_no_trace(topics: Cluster, rmqctl: Rmqctl) -> None:
    topics.create_topic("Quiet")
    before = held_when_quiet(topics.namesrv, ["EvenGroup"])
    folders = sorted(path for path in topics.folder.glob("store-*/consumequeue/*/*"))

    assert rmqctl("topic", "list", "--system", "--with-stats").exit_code == 0
    assert rmqctl("topic", "list", "Typo*").exit_code == 5
    for topic, code in (("Even", 0), ("Quiet", 0), ("TypoTopic", 5)):
        assert rmqctl("topic", "route", topic).exit_code == code
        assert rmqctl("topic", "status", topic).exit_code == code
        assert rmqctl("topic", "producers", topic).exit_code == code
    assert rmqctl("broker", "show", "broker-a", "--config", "--runtime").exit_code == 0

    assert held(topics.namesrv, ["EvenGroup"]) == before
    assert sorted(path for path in topics.folder.glob("store-*/consumequeue/*/*")) == folders


def test_a_topic_deleted_on_one_broker_only_is_a_difference(topics: Cluster, rmqctl: Rmqctl) -> None:
    topics.create_topic("Halved")
    asyncio.run(_delete(topics, "Halved", "broker-b"))

    # The name server drops it at the broker's next registration, or never, according to its version: all must be read
    # on the same side of that.
    before, route = None, {"broker-a", "broker-b"}
    while before != route:
        before = route
        (item,) = rmqctl.items("topic", "list", "Halved")
        status = rmqctl("topic", "status", "Halved", "-o", "json").document
        route = {row["brokerName"] for row in rmqctl.items("topic", "route", "Halved")}
    assert item["brokerNames"] == ["broker-a"]
    expected = ["NOT_ON_BROKER"] if "broker-b" in route else []
    assert (item["findings"], status["findings"]) == (expected, expected)


async def _delete(cluster: Cluster, topic: str, broker_name: str) -> None:
    async with Client([cluster.namesrv]) as client:
        command = Command(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        await client.ask(cluster.brokers[broker_name].address, command)
