"""mqadmin, each release's own, reads and changes the sandbox that plays it, and prints what is true."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rmqctl.protocol.java_json import loads

from .harness.mqadmin import ProgressRow, consumer_progress
from .harness.queue_tables import wait_until
from .harness.rmqctl import Rmqctl
from .harness.sandbox import SandboxProcess

_TAG_A = 2598919  # "TagA".hashCode()


class Scene(NamedTuple):
    """A topic with messages m0 to m5 (TagA, keys k0 to k5) in broker-a:0 and z0, z1 (TagB) in broker-b:1, all consumed.

    Its one consumer is online. `unique_id` and `offset_id` are m5's.
    """

    topic: str
    group: str
    client_id: str
    unique_id: str
    offset_id: str


@pytest.fixture(scope="module")
def scene(sandbox: SandboxProcess) -> Iterator[Scene]:
    topic, group, java = "Scene", "SceneGroup", sandbox.java
    sandbox.create_topic(topic, queue_count=2)
    ids = java.produce(topic, 6, keys="k", tag="TagA", queue="broker-a:0").split("\t")
    java.produce(topic, 2, prefix="z", tag="TagB", queue="broker-b:1")
    client_id = java.consume("scene", group, topic, expr="TagA || TagB", collect=1)
    java.wait_consumed("scene", 8)
    java.persist("scene")
    scene = Scene(topic, group, client_id, ids[0], ids[1])
    wait_until(lambda: sum(row.diff for row in of_topic(sandbox, group, topic)) == 0, "the offsets")
    yield scene
    java.stop("scene")


def test_cluster_list(sandbox: SandboxProcess, scene: Scene) -> None:
    rows = table(sandbox, "clusterList")
    totals = table(sandbox, "clusterList", "-m")

    version = f"V{sandbox.version.replace('.', '_')}"
    assert [row[:5] for row in rows] == [
        ["DefaultCluster", name, "0", address, version] for name, address in sandbox.addresses.items()
    ]
    assert [row[1] for row in totals] == list(sandbox.addresses)
    # Since last midnight, which can have been during the test.
    assert all(int(row[4]) >= 0 for row in totals)
    assert time.localtime().tm_hour == 0 or int(totals[0][4]) >= 6


def test_topic_list(sandbox: SandboxProcess, scene: Scene) -> None:
    names = sandbox.java.mqadmin("topicList").split()
    rows = [line.split() for line in sandbox.java.mqadmin("topicList", "-c").splitlines()]

    assert {scene.topic, f"%RETRY%{scene.group}", "TBW102", "SCHEDULE_TOPIC_XXXX", "DefaultCluster"} <= set(names)
    assert ["DefaultCluster", scene.topic, scene.group] in rows


def test_topic_route(sandbox: SandboxProcess, scene: Scene) -> None:
    route = loads(sandbox.java.mqadmin("topicRoute", "-t", scene.topic).encode())
    total = table(sandbox, "topicRoute", "-t", scene.topic, "-l")[-1]

    assert {broker["brokerName"]: broker["brokerAddrs"] for broker in route["brokerDatas"]} == {
        name: {"0": address} for name, address in sandbox.addresses.items()
    }
    assert [(row["perm"], row["readQueueNums"], row["writeQueueNums"]) for row in route["queueDatas"]] == [
        (6, 2, 2), (6, 2, 2)
    ]  # fmt: skip
    assert total == ["Total:", "2", "4", "4"]


def test_topic_status(sandbox: SandboxProcess, scene: Scene) -> None:
    rows = [row[:4] for row in table(sandbox, "topicStatus", "-t", scene.topic) if row[0].startswith("broker-")]

    assert rows == [
        ["broker-a", "0", "0", "6"], ["broker-a", "1", "0", "0"], ["broker-b", "0", "0", "0"],
        ["broker-b", "1", "0", "2"],
    ]  # fmt: skip


def test_update_topic(sandbox: SandboxProcess) -> None:
    options = ("-t", "Updated", "-r", "3", "-w", "2", "-p", "4")
    printed = sandbox.java.mqadmin("updateTopic", "-c", "DefaultCluster", *options)
    wait_until(
        lambda: sandbox.java.mqadmin("topicRoute", "-t", "Updated").count('"perm":4') == 2, "the route to be known"
    )

    assert len(re.findall(r"create topic to \S+ success", printed)) == 2
    route = loads(sandbox.java.mqadmin("topicRoute", "-t", "Updated").encode())
    assert [(row["perm"], row["readQueueNums"], row["writeQueueNums"]) for row in route["queueDatas"]] == [
        (4, 3, 2), (4, 3, 2)
    ]  # fmt: skip


def test_update_sub_group_and_get_consumer_config(sandbox: SandboxProcess) -> None:
    printed = sandbox.java.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", "Configured", "-q", "2", "-r", "3")
    shown = sandbox.java.mqadmin("getConsumerConfig", "-g", "Configured")

    assert len(re.findall(r"create subscription group to \S+ success", printed)) == 2
    assert sorted(re.findall(r"=+(DefaultCluster:broker-[ab])=+", shown)) == [
        f"DefaultCluster:{name}" for name in sandbox.addresses
    ]
    for name, value in {
        "groupName": "Configured", "consumeEnable": "true", "consumeBroadcastEnable": "false", "retryQueueNums": "2",
        "retryMaxTimes": "3", "whichBrokerWhenConsumeSlowly": "1", "notifyConsumerIdsChangedEnable": "true",
    }.items():  # fmt: skip
        assert re.findall(rf"^{name} += +(\S*)", shown, re.MULTILINE) == [value, value]


@pytest.mark.smoke
def test_consumer_progress(sandbox: SandboxProcess, scene: Scene) -> None:
    rows = of_topic(sandbox, scene.group, scene.topic)
    with_clients = sandbox.java.mqadmin("consumerProgress", "-g", scene.group, "-s", "true")
    overview = [line.split() for line in sandbox.java.mqadmin("consumerProgress").splitlines()]

    assert rows == [
        ProgressRow(scene.topic, "broker-a", 0, 6, 6, 0), ProgressRow(scene.topic, "broker-a", 1, 0, 0, 0),
        ProgressRow(scene.topic, "broker-b", 0, 0, 0, 0), ProgressRow(scene.topic, "broker-b", 1, 2, 2, 0),
    ]  # fmt: skip
    host = scene.client_id.partition("@")[0]
    assert sum(host in line for line in with_clients.splitlines() if line.startswith(scene.topic)) == 4
    version = f"V{sandbox.version.replace('.', '_')}"
    (ours,) = (row for row in overview if row[:1] == [scene.group])
    assert ours[1:5] == ["1", version, "PUSH", "CLUSTERING"]
    assert ours[-1] == "0"


@pytest.mark.smoke
def test_consumer_connection(sandbox: SandboxProcess, scene: Scene) -> None:
    printed = sandbox.java.mqadmin("consumerConnection", "-g", scene.group)

    (client,) = (line.split() for line in printed.splitlines() if line.startswith(scene.client_id))
    assert client[1].startswith("127.0.0.1:")
    assert client[2:] == ["JAVA", f"V{sandbox.version.replace('.', '_')}"]
    assert re.search(rf"^{scene.topic} +TagA \|\| TagB$", printed, re.MULTILINE)
    assert re.search(rf"^%RETRY%{scene.group} +\*$", printed, re.MULTILINE)
    assert "ConsumeType: CONSUME_PASSIVELY" in printed
    assert "MessageModel: CLUSTERING" in printed
    assert "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET" in printed


def test_consumer_status(sandbox: SandboxProcess, scene: Scene) -> None:
    of_all = sandbox.java.mqadmin("consumerStatus", "-g", scene.group)
    of_one = sandbox.java.mqadmin("consumerStatus", "-g", scene.group, "-i", scene.client_id)

    assert re.search(rf"^1 +{scene.client_id} +V{sandbox.version.replace('.', '_')} ", of_all, re.MULTILINE)
    assert "Same subscription in the same group of consumer" in of_all
    assert re.search(r"^PROP_CONSUME_TYPE +: CONSUME_PASSIVELY$", of_one, re.MULTILINE)
    assert re.search(rf"Topic: {scene.topic} .*SubExpression: TagA \|\| TagB", of_one)
    assert re.search(rf"^{scene.topic} +broker-a +0 +6 *$", of_one, re.MULTILINE)
    assert re.search(rf"^{scene.topic} +broker-a +0 +ProcessQueueInfo \[commitOffset=6,", of_one, re.MULTILINE)


def test_queries_of_one_message(sandbox: SandboxProcess, scene: Scene) -> None:
    java = sandbox.java
    by_key = [line.split() for line in java.mqadmin("queryMsgByKey", "-t", scene.topic, "-k", "k5").splitlines()]
    topic_for_5 = ("-t", scene.topic) if sandbox.version.startswith("5") else ()
    pages = [
        # Only once in a JVM: the command keeps the client that it has shut down.
        java.mqadmin("queryMsgByUniqueKey", "-t", scene.topic, "-i", scene.unique_id),
        java.mqadmin("queryMsgById", *topic_for_5, "-i", scene.offset_id),
        java.mqadmin("queryMsgByOffset", "-t", scene.topic, "-b", "broker-a", "-i", "0", "-o", "5"),
    ]

    assert [row[:3] for row in by_key if row[:1] == [scene.unique_id]] == [[scene.unique_id, "0", "5"]]
    for page in pages:
        fields = dict(re.findall(r"^([A-Z][A-Za-z ]+): +(.*)$", page, re.MULTILINE))
        assert fields["Topic"] == scene.topic
        assert fields["Tags"] == "[TagA]"
        assert fields["Keys"] == "[k5]"
        assert (fields["Queue ID"], fields["Queue Offset"], fields["Reconsume Times"]) == ("0", "5", "0")
        assert fields["CommitLog Offset"] == str(int(scene.offset_id[-16:], 16))
        assert fields["Store Host"] == sandbox.addresses["broker-a"]
        assert f"UNIQ_KEY={scene.unique_id}" in fields["Properties"]
        assert Path(fields["Message Body Path"]).read_text() == "m5"
        assert f"MessageTrack [consumerGroup={scene.group}, trackType=CONSUMED, exceptionDesc=null]" in page


def test_query_of_what_is_not_there(sandbox: SandboxProcess, scene: Scene) -> None:
    printed = sandbox.java.mqadmin("queryMsgByKey", "-t", scene.topic, "-k", "no-such-key")

    assert "no message" in printed or len(printed.strip().splitlines()) <= 1
    assert scene.unique_id not in printed


def test_a_message_consumed_directly(sandbox: SandboxProcess, scene: Scene) -> None:
    before = len(sandbox.java.attempts("scene"))
    topic_for_5 = ("-t", scene.topic) if sandbox.version.startswith("5") else ()
    printed = sandbox.java.mqadmin(
        "queryMsgById", *topic_for_5, "-i", scene.offset_id, "-g", scene.group, "-d", scene.client_id
    )
    again = sandbox.java.attempts("scene")[before:]

    assert "consumeResult=CR_SUCCESS" in printed
    assert [each.body for each in again] == ["m5"]


def test_print_and_consume_message(sandbox: SandboxProcess, scene: Scene) -> None:
    everything = sandbox.java.mqadmin("printMsg", "-t", scene.topic, "-d", "true")
    of_tag = sandbox.java.mqadmin("printMsg", "-t", scene.topic, "-d", "true", "-s", "TagB")
    some = sandbox.java.mqadmin("consumeMessage", "-t", scene.topic, "-b", "broker-a", "-i", "0", "-o", "1", "-c", "2")

    assert f"minOffset=0, maxOffset=6, MessageQueue [topic={scene.topic}, brokerName=broker-a, queueId=0]" in everything
    assert sorted(re.findall(r"BODY: (\w+)", everything)) == ["m0", "m1", "m2", "m3", "m4", "m5", "z0", "z1"]
    assert sorted(re.findall(r"BODY: (\w+)", of_tag)) == ["z0", "z1"]
    assert re.findall(r"queueOffset=(\d+)", some) == ["1", "2"]


def test_send_message(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("SentByAdmin", queue_count=2)
    (row,) = table(sandbox, "sendMessage", "-t", "SentByAdmin", "-p", "hello", "-k", "key", "-c", "TagS")
    place = ("-t", "SentByAdmin", "-b", row[0], "-i", row[1], "-o", "0")
    page = sandbox.java.mqadmin("queryMsgByOffset", *place)

    assert row[2] == "SEND_OK"
    assert f"UNIQ_KEY={row[3]}" in page
    assert "Tags:                [TagS]" in page
    assert "Keys:                [key]" in page


def test_query_cq(sandbox: SandboxProcess, scene: Scene) -> None:
    printed = sandbox.java.mqadmin(
        "queryCq", "-t", scene.topic, "-q", "0", "-i", "4", "-c", "10", "-b", sandbox.addresses["broker-a"],
        "-g", scene.group,
    )  # fmt: skip

    assert '"subString":"TagA || TagB"' in printed
    assert "max: 6, min: 0" in printed
    entries = re.findall(r"ConsumeQueueData\{physicOffset=(\d+), physicSize=(\d+), tagsCode=(-?\d+)", printed)
    assert re.findall(r"^idx: (\d+)", printed, re.MULTILINE) == ["4", "5"]
    assert [int(code) for _, _, code in entries] == [_TAG_A, _TAG_A]
    assert int(entries[1][0]) == int(scene.offset_id[-16:], 16) == int(entries[0][0]) + int(entries[0][1])


def test_broker_status(sandbox: SandboxProcess, scene: Scene) -> None:
    printed = sandbox.java.mqadmin("brokerStatus", "-b", sandbox.addresses["broker-a"])
    values = dict(re.findall(r"^(\S+) *: (.*)$", printed, re.MULTILINE))

    assert values["brokerVersionDesc"] == f"V{sandbox.version.replace('.', '_')}"
    assert abs(int(values["bootTimestamp"]) / 1000 - time.time()) < 3600
    assert int(values["commitLogMaxOffset"]) > int(values["commitLogMinOffset"])
    assert int(values["msgPutTotalTodayNow"]) >= int(values["msgPutTotalTodayMorning"])
    assert float(values["putTps"].split()[0]) >= 0


def test_stats_all(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("Counted", queue_count=1)
    sandbox.java.produce("Counted", 4)
    sandbox.java.consume("counted", "CountedGroup", "Counted")
    sandbox.java.wait_consumed("counted", 4)
    sandbox.java.stop("counted")
    sandbox.java.produce("Counted", 3)
    rows: list[list[str]] = []

    def is_counted() -> bool:
        rows[:] = [row for row in table(sandbox, "statsAll", "-t", "Counted") if row[1] == "CountedGroup"]
        return rows[0][5] == "7"

    # Real brokers take a sample every 10 s.
    wait_until(is_counted, "all messages to be counted", timeout_s=25)

    (row,) = rows
    assert row[2] == "3"  # behind
    assert row[6] == "4"  # went out


def test_reset_and_skip_of_a_group_that_nobody_is_in(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("ResetOffline", queue_count=1)
    group = "ResetOfflineGroup"
    sandbox.java.produce("ResetOffline", 3, queue="broker-a:0", prefix="early")
    time.sleep(1.1)  # times are compared at the broker, in ms; searches of 4.9 take what is nearer
    between_ms = int(time.time() * 1000)
    time.sleep(0.1)
    sandbox.java.produce("ResetOffline", 3, queue="broker-a:0", prefix="late")
    sandbox.java.consume("reset-offline", group, "ResetOffline")
    sandbox.java.wait_consumed("reset-offline", 6)
    sandbox.java.stop("reset-offline")
    assert stored(sandbox, group, "ResetOffline") == 6

    by_time = reset_rows(sandbox, "resetOffsetByTime", "-g", group, "-t", "ResetOffline", "-s", str(between_ms))
    assert stored(sandbox, group, "ResetOffline") == 3
    to_start = reset_rows(sandbox, "resetOffsetByTime", "-g", group, "-t", "ResetOffline", "-s", "0")
    assert stored(sandbox, group, "ResetOffline") == 0
    skip = reset_rows(sandbox, "skipAccumulatedMessage", "-g", group, "-t", "ResetOffline")
    assert stored(sandbox, group, "ResetOffline") == 6

    assert [rows["broker-a", 0] for rows in (by_time, to_start, skip)] == [3, 0, 6]


def test_reset_of_a_consumer_that_runs(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("ResetOnline", queue_count=1)
    group, java = "ResetOnlineGroup", sandbox.java
    java.produce("ResetOnline", 5, queue="broker-a:0")
    java.consume("reset-online", group, "ResetOnline", collect=1)
    java.wait_consumed("reset-online", 5)
    java.persist("reset-online")
    wait_until(lambda: stored(sandbox, group, "ResetOnline") == 5, "the offset")
    wait_until(lambda: len(java.queues("reset-online", "ResetOnline")) == 2, "both queues to be taken")

    reset_rows(sandbox, "resetOffsetByTime", "-g", group, "-t", "ResetOnline", "-s", "0")
    # 4.9's client waits 10 s before it obeys; 5.x's broker tells it at the next pull, which a long poll can put off.
    java.wait_consumed("reset-online", 10, timeout_s=40)
    attempts = java.attempts("reset-online")
    java.persist("reset-online")
    wait_until(lambda: stored(sandbox, group, "ResetOnline") == 5, "the offset to come back")
    java.stop("reset-online")

    assert sorted(each.body for each in attempts) == sorted(2 * [f"m{number}" for number in range(5)])


def test_clone_group_offset(sandbox: SandboxProcess, scene: Scene) -> None:
    sandbox.java.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", "SceneClone")
    sandbox.java.mqadmin("cloneGroupOffset", "-s", scene.group, "-d", "SceneClone", "-t", scene.topic)

    # consumerProgress shows no group that never had a consumer, for it has no retry topic.
    items = Rmqctl(sandbox.namesrv).items("offset", "show", "SceneClone", "--topic", scene.topic)
    assert [item["consumerOffset"] for item in items] == [6, 0, 0, 2]


def test_delete_sub_group_and_topic(sandbox: SandboxProcess) -> None:
    java = sandbox.java
    sandbox.create_topic("Deleted", queue_count=1)
    java.produce("Deleted", 2, queue="broker-a:0")
    java.consume("deleted", "DeletedGroup", "Deleted")
    java.wait_consumed("deleted", 2)
    java.stop("deleted")
    assert "%RETRY%DeletedGroup" in java.mqadmin("topicList").split()

    printed = java.mqadmin("deleteSubGroup", "-c", "DefaultCluster", "-g", "DeletedGroup", "-r", "true")
    assert printed.count("success") >= 2
    assert "groupName" not in java.mqadmin("getConsumerConfig", "-g", "DeletedGroup") or (
        sandbox.version.startswith("5")  # there the question makes the group again
    )
    assert of_topic(sandbox, "DeletedGroup", "Deleted") == []
    wait_until(lambda: "%RETRY%DeletedGroup" not in java.mqadmin("topicList").split(), "the retry topic to be gone")

    printed = java.mqadmin("deleteTopic", "-t", "Deleted", "-c", "DefaultCluster")
    assert "delete topic [Deleted] from NameServer success." in printed
    wait_until(lambda: "Deleted" not in java.mqadmin("topicList").split(), "the topic to be gone")
    assert java.mqadmin("topicRoute", "-t", "Deleted").strip() == ""


def table(sandbox: SandboxProcess, *words: str) -> list[list[str]]:
    """Run mqadmin; return the words of each line under the line of headings."""
    lines = sandbox.java.mqadmin(*words).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("#"))
    return [line.split() for line in lines[start + 1 :] if line.strip() and not line.startswith("--")]


def of_topic(sandbox: SandboxProcess, group: str, topic: str) -> list[ProgressRow]:
    """Return what consumerProgress says of a group's queues of a topic."""
    return [
        row for row in consumer_progress(sandbox.java.mqadmin("consumerProgress", "-g", group)) if row.topic == topic
    ]


def stored(sandbox: SandboxProcess, group: str, topic: str) -> int:
    """Return a group's offset of broker-a:0."""
    (row,) = (row for row in of_topic(sandbox, group, topic) if row.broker_name == "broker-a")
    return row.consumer_offset


def reset_rows(sandbox: SandboxProcess, *words: str) -> dict[tuple[str, int], int]:
    """Run a command that resets; return the offset that it prints of each queue."""
    printed = sandbox.java.mqadmin(*words)
    rows = re.findall(r"^(\S+) +(\d+) +(?:-?\d+ +-?\d+ +-?\d+ +)?(-?\d+) *$", printed, re.MULTILINE)
    assert rows, printed
    return {(broker, int(queue_id)): int(offset) for broker, queue_id, offset in rows}
