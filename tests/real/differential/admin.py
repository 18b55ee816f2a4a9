"""Topics and groups made, changed, listed and deleted; a broker's settings and state."""

from __future__ import annotations

import json
from typing import Any

from rmqctl.protocol.java_json import loads

from .asker import Asker

TOPIC, TOPICS, ALL_TOPICS, DELETE_TOPIC, ONE_TOPIC = 17, 18, 21, 215, 351
GROUP, ALL_GROUPS, DELETE_GROUP, GROUPS, ONE_GROUP, FORBIDDEN = 200, 201, 207, 225, 352, 353
UPDATE_CONFIG, CONFIG, RUNTIME, SYSTEM_TOPICS = 25, 26, 28, 305
QUERY_OFFSET, UPDATE_OFFSET, ROUTE = 14, 15, 105


def make_topic(ask: Asker, name: str, **fields: object) -> None:
    """Send an UPDATE_AND_CREATE_TOPIC as clients do; a field that is None is left out."""
    whole = {
        "topic": name, "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False, **fields,
    }  # fmt: skip
    ask("broker", TOPIC, **{key: value for key, value in whole.items() if value is not None})


def look(ask: Asker, *topics: str) -> None:
    """Ask for the route of topics, and for their configuration."""
    for name in topics:
        ask("namesrv", ROUTE, topic=name)
        if ask.is_5:
            ask("broker", ONE_TOPIC, topic=name)


def script_topics(ask: Asker) -> None:
    """Topics are made and changed; numbers are taken as they come."""
    one, two = ask.name("AT1"), ask.name("AT2")
    make_topic(ask, one)
    look(ask, one)
    make_topic(ask, one)
    make_topic(ask, one, readQueueNums=8, writeQueueNums=6, perm=4)
    look(ask, one)
    make_topic(ask, two, readQueueNums=0, writeQueueNums=-1, perm=99)
    look(ask, two)
    make_topic(ask, two, topicFilterType="MULTI_TAG", topicSysFlag=3, order=True, perm=7)
    look(ask, two)
    make_topic(ask, ask.name("AT3"), topicSysFlag=None, order=None, defaultTopic=None)
    look(ask, ask.name("AT3"), ask.name("ANone"))
    if ask.is_5:
        ask("broker", ONE_TOPIC)


def script_bad_topics(ask: Asker) -> None:
    """Names that no topic may have, fields that are missing or no numbers."""
    for name in (
        "A T",
        "",
        " ",
        "Aä",
        "A.b",
        "A" * 128,
        "%RETRY%" + "A" * 249,
        "TBW102",
        "rmq_sys_A",
        "DefaultCluster",
    ):
        make_topic(ask, name)
    for name in (
        "broker-a",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRACE_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
    ):
        make_topic(ask, name)
    # Names of full length, with what makes them unique.
    for name in (ask.name("A" * 118), "%RETRY%" + ask.name("A" * 118), "%DLQ%" + ask.name("A%|_-")):
        make_topic(ask, name)
        look(ask, name)
    name = ask.name("AB")
    for field in ("topic", "topicFilterType", "readQueueNums", "writeQueueNums", "perm"):
        make_topic(ask, name, **{field: None})
    make_topic(ask, name, topicFilterType="NOPE")
    make_topic(ask, name, readQueueNums="x")
    look(ask, name)


def script_attributes(ask: Asker) -> None:
    """Attributes are added, changed and removed since 5.x; 4.9 passes them over."""
    one, two = ask.name("AA1"), ask.name("AA2")
    for changes in (
        "-message.type", "message.type=FIFO", "+message.type", "+message.type=", "+=1", "+", "-", "+nope=1",
        "+message.type=NOPE", "+message.type=MIXED", "+queue.type=x", "+cleanup.policy=x", "+reserve.time=-5",
        "+reserve.time=x", "+message.type=FIFO,+message.type=DELAY", "+lite.topic.expiration=x",
        "+lite.topic.expiration=43201", "+lite.topic.expiration=-1",
        "+message.type=FIFO,+reserve.time=100", "+message.type=DELAY", "", "-reserve.time", "-reserve.time",
        "+queue.type=SimpleCQ", "+message.type=MIXED", "+message.type=LITE", "+lite.topic.expiration=30",
    ):  # fmt: skip
        make_topic(ask, one, attributes=changes)
    look(ask, one)
    make_topic(ask, two, attributes="+queue.type=BatchCQ,+cleanup.policy=COMPACTION")
    make_topic(ask, two, attributes="-queue.type")
    make_topic(ask, two, perm=4)
    look(ask, two)


def script_topic_lists(ask: Asker) -> None:
    """Several topics at once: none where one has a bad name, or is already as it shall be."""
    one, two, three = (ask.name(f"AL{number}") for number in range(3))

    def item(name: str, **more: Any) -> dict[str, Any]:
        return {
            "topicName": name, "readQueueNums": 3, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0, "order": False, **more,
        }  # fmt: skip

    for items in (
        [item(one), item(two, perm=4)],
        [item(three), item(one), item(two, perm=6)],
        [item(three), item("A T")],
        [item(three), item("TBW102")],
        [item(three, attributes={"+message.type": "MIXED"})],
        [item(three, attributes={"message.type": "FIFO"})],
        [item(two, perm=2), item(three, attributes={"+nope": "1"}), item(one, perm=2)],
        [item(three, attributes={"+message.type": "FIFO"})],
        [{"topicName": ask.name("AL4")}],
        [],
        [{}],
    ):
        ask("broker", TOPICS, {"topicConfigList": items})
        look(ask, one, two, three)
    look(ask, ask.name("AL4"))
    ask("broker", TOPICS)


script_topic_lists.since_5 = True  # type: ignore[attr-defined]


def script_deleted_topics(ask: Asker) -> None:
    """What goes with a topic, and what stays at the name server."""
    one, two, group = ask.name("AD1"), ask.name("AD2"), ask.name("ADG")
    make_topic(ask, one)
    make_topic(ask, two)
    ask("broker", GROUP, {"groupName": group})
    for name in (one, two):
        ask("broker", UPDATE_OFFSET, consumerGroup=group, topic=name, queueId=1, commitOffset=5)
    for retry in (f"%RETRY%{group}_{one}", f"%RETRY%{group}+{one}", f"%RETRY%{group}"):
        make_topic(ask, retry)
    ask("broker", DELETE_TOPIC, topic=one)
    look(ask, one, two, f"%RETRY%{group}_{one}", f"%RETRY%{group}")
    for name in (one, two):
        ask("broker", QUERY_OFFSET, consumerGroup=group, topic=name, queueId=1, setZeroIfNotFound=False)
    ask("broker", DELETE_TOPIC, topic=one)
    ask("namesrv", 216, topic=one, clusterName="DefaultCluster")
    look(ask, one)
    ask("broker", DELETE_TOPIC, topic=ask.name("ANone"))
    for name in ("TBW102", "rmq_sys_A", "", " ", "A T"):
        ask("broker", DELETE_TOPIC, topic=name)
    ask("broker", DELETE_TOPIC)


def script_groups(ask: Asker) -> None:
    """Groups are made and changed; what is missing gets its default."""
    one = ask.name("AG1")
    for more in (
        {}, {}, {"retryMaxTimes": 3, "consumeEnable": False, "unknownKey": 1}, {"retryQueueNums": -3, "brokerId": 7},
        {"retryMaxTimes": None, "consumeEnable": None}, {"retryMaxTimes": "7", "consumeEnable": "false"},
        {"retryMaxTimes": ""}, {"retryMaxTimes": "x"}, {"notifyConsumerIdsChangedEnable": "x"},
        {"whichBrokerWhenConsumeSlowly": 2, "consumeBroadcastEnable": False, "consumeFromMinEnable": False},
        {"consumeMessageOrderly": True, "consumeTimeoutMinute": 5, "groupSysFlag": 1},
        {"groupRetryPolicy": {"type": "EXPONENTIAL"}},
        {"groupRetryPolicy": {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1000}}},
        {"groupRetryPolicy": {"type": "CUSTOMIZED", "customizedRetryPolicy": {}}},
        {"groupRetryPolicy": {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2]}}},
        {"subscriptionDataSet": [{"topic": "T", "expressionType": "TAG", "expression": "*", "version": 3}]},
        {"attributes": {"+priority.factor": "1"}}, {"attributes": {"+priority.factor": "101"}},
        {"attributes": {"+x": "1"}}, {"attributes": {"x": "1"}}, {"attributes": {"-x": ""}}, {},
        {"attributes": {"+lite.bind.topic": "P"}}, {"attributes": {"+lite.sub.model": "x"}},
        {"attributes": {"+lite.sub.client.quota": "-2"}}, {"attributes": {"+lite.sub.reset.offset.exclusive": "x"}},
        {"attributes": {"-lite.bind.topic": ""}}, {"attributes": {"+lite.sub.client.max.event.cnt": "9"}},
    ):  # fmt: skip
        ask("broker", GROUP, {"groupName": one, **more})
        ask("broker", ALL_GROUPS)


def script_bad_groups(ask: Asker) -> None:
    """Names that no group may have since 5.x; bodies that are none."""
    if ask.is_5:
        for name in ("A G", "", " ", "Gä", "A" * 121, None):
            ask("broker", GROUP, {"groupName": name})
            ask("broker", ONE_GROUP, **({} if name is None else {"group": name}))
        ask("broker", GROUPS, {"groupConfigList": [{"groupName": ask.name("ABa")}, {"groupName": "A G"}]})
        ask("broker", GROUPS, {"groupConfigList": [{"groupName": ask.name("ABb")}, {"groupName": ask.name("ABc")}]})
        ask("broker", GROUPS, {"groupConfigList": []})
        ask("broker", GROUPS)
    for body in (b"", b"xx", b"[1]", b"{}"):
        ask("broker", GROUP, body)
    ask("broker", GROUP, {"groupName": ask.name("A G.ä")})
    ask("broker", ALL_GROUPS)


def script_one_group(ask: Asker) -> None:
    """To ask for a group makes it."""
    ask("broker", ONE_GROUP, group=ask.name("AO1"))
    ask("broker", ONE_GROUP, group=ask.name("AO 2"))
    ask("broker", ONE_GROUP, group=ask.name("CID_RMQ_SYS_A"))
    ask("broker", ONE_GROUP)
    ask("broker", ALL_GROUPS)


script_one_group.since_5 = True  # type: ignore[attr-defined]


def script_deleted_groups(ask: Asker) -> None:
    """A group goes without its offsets, unless they are asked for, under each release's own name."""
    topic, group = ask.name("ADT"), ask.name("ADG")
    make_topic(ask, topic)
    for flags in ({}, {"cleanOffset": True}, {"removeOffset": True}, {"cleanOffset": True, "removeOffset": True}):
        ask("broker", GROUP, {"groupName": group})
        ask("broker", UPDATE_OFFSET, consumerGroup=group, topic=topic, queueId=1, commitOffset=5)
        ask("broker", DELETE_GROUP, groupName=group, **flags)
        ask("broker", QUERY_OFFSET, consumerGroup=group, topic=topic, queueId=1)
    ask("broker", ALL_GROUPS)
    ask("broker", DELETE_GROUP, groupName=ask.name("ANone"))
    ask("broker", DELETE_GROUP, groupName="")
    ask("broker", DELETE_GROUP)


def script_forbidden(ask: Asker) -> None:
    """A group is kept from topics one by one, and let to all at once."""
    group, one, two = ask.name("AFG"), ask.name("AF1"), ask.name("AF2")
    ask("broker", GROUP, {"groupName": group})
    for name, flag in ((one, None), (one, False), (one, None), (two, False), (one, False), (one, True), (two, None)):
        ask("broker", FORBIDDEN, group=group, topic=name, **({} if flag is None else {"readable": flag}))
        ask("broker", ALL_GROUPS)
    ask("broker", FORBIDDEN, group=group, topic=one, readable=False)
    ask("broker", DELETE_GROUP, groupName=group)
    ask("broker", FORBIDDEN, group=group, topic=one)
    ask("broker", FORBIDDEN, group=ask.name("ANone"), topic=ask.name("ANone"), readable=True)
    ask("broker", FORBIDDEN, group=group)
    ask("broker", FORBIDDEN)


script_forbidden.since_5 = True  # type: ignore[attr-defined]


def script_tables(ask: Asker) -> None:
    """Whole tables: what every broker has from its start."""
    make_topic(ask, ask.name("AW"))
    ask("broker", GROUP, {"groupName": ask.name("AW")})
    for code in (ALL_TOPICS, ALL_GROUPS, SYSTEM_TOPICS):
        ask("broker", code)


def script_pages(ask: Asker) -> None:
    """Pages of tables since 5.x; they start again where the table has changed."""
    for code, first, count in ((ALL_TOPICS, "topicSeq", "maxTopicNum"), (ALL_GROUPS, "groupSeq", "maxGroupNum")):
        whole = ask("broker", code)
        assert whole is not None
        version = json.dumps(loads(whole.body)["dataVersion"])
        for at in ({first: 0, count: 100_000}, {first: 0}, {first: 100_000, count: 2}):
            ask("broker", code, **at)
            ask("broker", code, **at, dataVersion=version)
            ask("broker", code, **at, dataVersion='{"counter":-1,"timestamp":1}')
        for bad in ({count: 2}, {"dataVersion": version}, {first: 0, count: 0}, {first: 0, count: -1}, {first: "x"}):
            ask("broker", code, **bad)
        ask("broker", code, **{first: 0}, dataVersion="xx")


def script_settings(ask: Asker) -> None:
    """What is read, what must not be changed, and what is passed over."""
    ask("broker", CONFIG)
    for text in ("", "xx", "noSuchKey=1\n", "maxMessageSize=zz\n", "flushDiskType=zz\n", "longPollingEnable=TRUE\n"):
        ask("broker", UPDATE_CONFIG, text.encode())
    if ask.is_5:
        ask("broker", UPDATE_CONFIG, b"brokerConfigPath=1\n")
        ask("broker", UPDATE_CONFIG, b"configBlackList=1\nmaxMessageSize=1\n")
    ask("broker", CONFIG)


def script_upkeep(ask: Asker) -> None:
    """How the broker is doing, and orders to clean."""
    for code in (RUNTIME, 306, 316, 329):
        ask("broker", code)


def script_unknown_requests(ask: Asker) -> None:
    """What is unknown to both releases, or to one."""
    for code in (99999, 13, 22) if ask.is_5 else (99999, 13, 22, TOPICS, GROUPS, ONE_TOPIC, ONE_GROUP, FORBIDDEN):
        ask("broker", code)
