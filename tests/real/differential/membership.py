"""Heartbeats and who is told of them, lists of members, locks, stored offsets and the like."""

from __future__ import annotations

import time
from typing import Any

from .asker import Asker, Exchange
from .pulling import (
    MAX_OFFSET,
    MIN_OFFSET,
    PULL,
    SEARCH,
    await_stored,
    heartbeat,
    heartbeat_body,
    pull_fields,
    send,
    subscription,
)  # fmt: skip

LIST, CONNECTIONS = 38, 203


def pushed(ask: Asker) -> None:
    """Keep what the broker pushed to each client since the last call."""
    for name, commands in ask.pushes(0.2).items():
        for command in commands:
            ask.exchanges.append(Exchange(f"broker to {name}", command.code, {}, command))
        ask.exchanges.append(Exchange(f"broker to {name}", 0, {"pushes": str(len(commands))}, None))
        commands.clear()


def members(ask: Asker, group: str) -> None:
    """Ask for a group's members both ways."""
    for code in (LIST, CONNECTIONS):
        ask("broker", code, client="watcher", consumerGroup=group)


def script_members_come_and_go(ask: Asker) -> None:
    """Two connections join, change and leave; whoever is there is told."""
    group, topic = ask.name("PMemG"), ask.name("PMemT")
    members(ask, group)
    heartbeat(ask, "p1", group, topic, client="one")
    pushed(ask)
    heartbeat(ask, "p2", group, topic, client="two")
    pushed(ask)
    heartbeat(ask, "p2", group, topic, client="two")
    pushed(ask)
    members(ask, group)
    # Other topics, other versions, other types.
    heartbeat(ask, "p2", group, topic, ask.name("PMemT2"), client="two")
    pushed(ask)
    members(ask, group)
    heartbeat(
        ask, "p1", group, subscription(topic, "TagA", 7), client="one", consumeFromWhere="CONSUME_FROM_FIRST_OFFSET"
    )
    pushed(ask)
    members(ask, group)
    heartbeat(ask, "p2", group, subscription(topic, "TagB", 6), client="two", consumeType="CONSUME_ACTIVELY")
    pushed(ask)
    members(ask, group)
    # One client id on both, then leaving.
    heartbeat(ask, "p1", group, topic, client="two")
    members(ask, group)
    ask("broker", 35, client="two", clientID="p9", consumerGroup=ask.name("POther"))
    ask("broker", 35, client="two", clientID="p9", consumerGroup=group)
    pushed(ask)
    ask("broker", 35, client="two", clientID="p9", consumerGroup=group)
    pushed(ask)
    members(ask, group)
    heartbeat(ask, "p3", group, topic, client="three")
    pushed(ask)
    ask.connection("broker", "three").socket.close()
    del ask._connections["broker", "three"]
    time.sleep(0.2)
    pushed(ask)
    members(ask, group)
    ask("broker", 35, client="one", clientID="p1", consumerGroup=group)
    pushed(ask)
    members(ask, group)


script_members_come_and_go.waits = True  # type: ignore[attr-defined]


def script_silent_groups(ask: Asker) -> None:
    """Groups whose members are told of nothing: broadcasting ones, and those that are configured so."""
    group, topic = ask.name("PBroad"), ask.name("PBroadT")
    for client in ("one", "two"):
        heartbeat(ask, client, group, topic, client=client, messageModel="BROADCASTING")
        pushed(ask)
    ask("broker", 35, client="two", clientID="two", consumerGroup=group)
    pushed(ask)
    # The last heartbeat decides what the group is.
    heartbeat(ask, "two", group, topic, client="two")
    pushed(ask)
    heartbeat(ask, "one", group, topic, client="one", messageModel="BROADCASTING")
    members(ask, group)
    heartbeat(ask, "three", group, topic, client="three", messageModel="BROADCASTING")
    pushed(ask)
    ask.connection("broker", "three").socket.close()
    del ask._connections["broker", "three"]
    time.sleep(0.2)
    pushed(ask)
    quiet = ask.name("PQuiet")
    ask("broker", 200, {"groupName": quiet, "notifyConsumerIdsChangedEnable": False})
    for client in ("four", "five"):
        heartbeat(ask, client, quiet, topic, client=client)
        pushed(ask)
    ask("broker", 35, client="five", clientID="five", consumerGroup=quiet)
    pushed(ask)
    heartbeat(ask, "five", quiet, topic, client="five")
    ask.connection("broker", "five").socket.close()
    del ask._connections["broker", "five"]
    time.sleep(0.2)
    pushed(ask)


script_silent_groups.waits = True  # type: ignore[attr-defined]


def script_heartbeat_v2(ask: Asker) -> None:
    """Heartbeats with a fingerprint, and such without subscriptions."""
    group, topic = ask.name("PV2G"), ask.name("PV2T")

    def beat(fingerprint: int, *topics: Any, client: str = "one", without: bool = False) -> None:
        top = {"heartbeatFingerprint": fingerprint, "withoutSub": without}
        ask("broker", 34, heartbeat_body(client, group, *topics, top=top), client=client)
        members(ask, group)

    beat(5, topic)
    pushed(ask)
    beat(5, topic)
    beat(5, without=True)
    beat(6, topic, ask.name("PV2T2"))
    beat(5, client="two", without=True)
    pushed(ask)
    beat(0, topic, client="two")
    beat(5, topic, client="one")
    beat(5, without=True)
    pushed(ask)
    ask("broker", 35, client="one", clientID="one", consumerGroup=group)
    ask("broker", 35, client="two", clientID="two", consumerGroup=group)
    beat(7, client="three", without=True)
    beat(7, client="three")


script_heartbeat_v2.waits = True  # type: ignore[attr-defined]


def script_heartbeats_that_are_odd(ask: Asker) -> None:
    """Bodies that no client sends."""
    group, topic = ask.name("POddG"), ask.name("POddT")
    ask("broker", 34)
    ask("broker", 34, b"not json")
    ask("broker", 34, {})
    ask("broker", 34, [])
    ask("broker", 34, {"clientID": "p1"})
    ask("broker", 34, {"clientID": "p1", "consumerDataSet": [], "producerDataSet": []})
    for changes in (
        {"groupName": None}, {"groupName": ""}, {"consumeType": None},
        {"consumeType": "NONE"}, {"messageModel": None}, {"consumeFromWhere": None}, {"more": 1},
    ):  # fmt: skip
        ask("broker", 34, heartbeat_body("p1", group, topic, **changes))
        members(ask, group)
    for item in (
        {"topic": topic}, {"topic": None, "subString": "*"}, {"topic": topic, "subString": None, "subVersion": 5},
        {"topic": topic, "subVersion": "6"}, {"topic": topic, "subVersion": 7, "tagsSet": None, "codeSet": None},
        {"topic": topic, "subVersion": 8, "tagsSet": ["TagA"], "subString": "TagA"},
    ):  # fmt: skip
        ask("broker", 34, heartbeat_body("p1", group, item))
        members(ask, group)
    ask("broker", 34, heartbeat_body("p2", group, topic))
    members(ask, group)
    for name in ("P bad!", "x" * 121, "x" * 256):
        heartbeat(ask, "p1", name, topic)
        ask("broker", CONNECTIONS, consumerGroup=name)
        ask("broker", 351 if ask.is_5 else 202, topic=f"%RETRY%{name}")
    for code in (LIST, CONNECTIONS, 35, 204):
        ask("broker", code)
    ask("broker", LIST, consumerGroup="")
    ask("broker", 35, clientID="p1")
    ask("broker", 35, consumerGroup=group)
    members(ask, group)


def script_groups_made_by_heartbeats(ask: Asker) -> None:
    """A heartbeat makes a group and its retry topic; so does a pull, but for the topic."""
    group, topic = ask.name("PMadeG"), ask.name("PMadeT")
    retry = f"%RETRY%{group}"
    heartbeat(ask, "p1", group, topic)
    ask("broker", 202, topic=retry)
    ask("broker", PULL, **pull_fields(retry, group))
    ask("broker", PULL, **pull_fields(topic, group))
    other = ask.name("PMadeByPull")
    ask("broker", PULL, **pull_fields(topic, other))
    ask("broker", 202, topic=f"%RETRY%{other}")
    none = ask.name("PNoRetry")
    ask("broker", 200, {"groupName": none, "retryQueueNums": 0})
    heartbeat(ask, "p1", none, topic)
    ask("broker", 202, topic=f"%RETRY%{none}")
    members(ask, none)
    broad = ask.name("PBroadMade")
    heartbeat(ask, "p1", broad, topic, messageModel="BROADCASTING")
    ask("broker", 202, topic=f"%RETRY%{broad}")


def script_group_configuration(ask: Asker) -> None:
    """Pulls of groups that may not consume, or not in that way; topics that can't be read."""
    group, topic = ask.name("PConfG"), ask.name("PConfT")
    send(ask, topic, "one")
    ask("broker", 200, {"groupName": group, "consumeEnable": False})
    ask("broker", PULL, **pull_fields(topic, group))
    ask("broker", PULL, **pull_fields(ask.name("PNone"), group))
    ask("broker", 200, {"groupName": group, "consumeBroadcastEnable": False})
    ask("broker", PULL, **pull_fields(topic, group))
    heartbeat(ask, "p1", group, topic, messageModel="BROADCASTING")
    ask("broker", PULL, **pull_fields(topic, group))
    ask("broker", PULL, **pull_fields(topic, group, sysFlag=0))
    ask("broker", PULL, **pull_fields(ask.name("PConfT"), group, sysFlag=0, subVersion=99))
    heartbeat(ask, "p1", group, topic)
    ask("broker", PULL, **pull_fields(topic, group, sysFlag=0))
    if ask.is_5:
        ask("broker", 200, {"groupName": group, "groupSysFlag": 5})
        ask("broker", PULL, **pull_fields(topic, group))
        ask("broker", 353, group=group, topic=topic, readable=False)
        ask("broker", PULL, **pull_fields(topic, group, sysFlag=0))
        ask("broker", PULL, **pull_fields(topic, group))
        ask("broker", 353, group=group, topic=topic, readable=True)
    make = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 2, "order": False,
    }  # fmt: skip
    for perm in (6, 2, 4):
        ask("broker", 17, perm=perm, **make)
        ask("broker", PULL, **pull_fields(topic, group))
        ask("broker", PULL, **pull_fields(topic, group, queueId=9))


def script_producers(ask: Asker) -> None:
    """Producer groups, and who is in them."""
    group = ask.name("PProd")
    ask("broker", 204, producerGroup=group)
    for client in ("one", "two", "one"):
        ask(
            "broker",
            34,
            {"clientID": client, "consumerDataSet": [], "producerDataSet": [{"groupName": group}]},
            client=client,
        )
        ask("broker", 204, producerGroup=group, topic="x")
    ask("broker", 35, client="two", clientID="two", producerGroup=group)
    ask("broker", 328)
    ask("broker", 204, producerGroup=group)
    ask("broker", 35, client="one", clientID="one", producerGroup=group)
    ask("broker", 204, producerGroup=group)


def script_locks(ask: Asker) -> None:
    """Who holds which queue."""
    group = ask.name("PLockG")
    queues = [{"brokerName": "b", "queueId": number, "topic": "PLock"} for number in range(3)]

    def lock(code: int, client_id: Any, items: Any, name: Any = group, **more: Any) -> None:
        ask("broker", code, {"clientId": client_id, "consumerGroup": name, "mqSet": items, **more})

    lock(41, "p1", queues[:2], onlyThisBroker=False)
    lock(41, "p2", queues)
    lock(41, "p1", queues, onlyThisBroker=True)
    lock(42, "p2", queues[:1])
    lock(41, "p2", queues[:1])
    lock(42, "p1", queues[:1], onlyThisBroker=False)
    lock(41, "p2", queues[:1])
    lock(41, "p2", queues[:1], ask.name("PLockG2"))
    lock(42, "p1", [], group)
    lock(41, "p1", [])
    lock(42, "p1", queues, ask.name("PUnknown"))
    for code in (41, 42):
        ask("broker", code)
        ask("broker", code, b"not json")
        ask("broker", code, {})
        lock(code, None, queues)
        lock(code, "p1", queues, None)
        lock(code, "p1", None)
        lock(code, "p1", [{"topic": "PLock", "brokerName": "b", "queueId": 8}])


def script_stored_offsets(ask: Asker) -> None:
    """Offsets: stored, asked for, none or zero."""
    group, topic = ask.name("POffG"), ask.name("POffT")
    unknown = ask.name("PUnknown")
    for name in (unknown, group):
        ask("broker", 14, consumerGroup=name, topic=topic, queueId=0)
    ask("broker", 15, consumerGroup=group, topic=topic, queueId=0, commitOffset=1)
    send(ask, topic, "one", "two")
    ask("broker", 15, consumerGroup=group, topic=topic, queueId=0, commitOffset=1)
    for queue_id in (0, 1, 2, 77, -1):
        for flag in ({}, {"setZeroIfNotFound": True}, {"setZeroIfNotFound": False}):
            ask("broker", 14, consumerGroup=group, topic=topic, queueId=queue_id, **flag)
    heartbeat(ask, "p1", group, topic)
    for queue_id, offset in ((0, 2), (0, 1), (77, 5), (-1, 3), (1, -5), (1, 2**40)):
        ask("broker", 15, consumerGroup=group, topic=topic, queueId=queue_id, commitOffset=offset)
        ask("broker", 14, consumerGroup=group, topic=topic, queueId=queue_id)
    ask("broker", 15, consumerGroup=group, topic=unknown, queueId=0, commitOffset=1)
    for code in (14, 15):
        good = {"consumerGroup": group, "topic": topic, "queueId": 0, "commitOffset": 5}
        for name in good:
            ask("broker", code, **{key: value for key, value in good.items() if key != name})
            ask("broker", code, **{**good, name: "x"})
        ask("broker", code)


def script_queue_ends(ask: Asker) -> None:
    """The ends of queues, and where a time stands in them."""
    topic = ask.name("PEnds")
    for code in (MAX_OFFSET, MIN_OFFSET, 32, SEARCH):
        more = {"timestamp": 0} if code == SEARCH else {}
        ask("broker", code, topic=topic, queueId=0, **more)
    times = []
    for body in ("one", "two", "three", "four"):
        send(ask, topic, body)
        answer = ask("broker", PULL, **pull_fields(topic, ask.name("PEndsG"), queueOffset=len(times)))
        assert answer is not None
        times.append(int.from_bytes(answer.body[56:64], "big"))
        time.sleep(0.01 if body == "one" else 0.05)
    await_stored(ask, topic, 0, 4)
    for code in (MAX_OFFSET, MIN_OFFSET, 32):
        for queue_id in (0, 1, 5, -1):
            ask("broker", code, topic=topic, queueId=queue_id)
    ask("broker", MAX_OFFSET, topic=topic, queueId=0, committed=False)
    between = (times[1] + times[2]) // 2
    wanted = [
        0, -1, times[0] - 1, times[0], times[0] + 1, times[1] - 1, times[1], times[1] + 1, between - 5, between + 5,
        times[2] - 1, times[2], times[3], times[3] + 1, 2**62,
    ]  # fmt: skip
    for bound in ("", "lower", "upper", "UPPER", "none"):
        more = {"boundaryType": bound} if bound else {}
        for time_ms in wanted:
            ask("broker", SEARCH, topic=topic, queueId=0, timestamp=time_ms, **more)
        ask("broker", SEARCH, topic=topic, queueId=1, timestamp=times[0], **more)
    for code in (MAX_OFFSET, MIN_OFFSET, 32, SEARCH):
        good = {"topic": topic, "queueId": 0, "timestamp": 0}
        for name in good:
            ask("broker", code, **{key: value for key, value in good.items() if key != name})
            ask("broker", code, **{**good, name: "x"})


def script_all_offsets(ask: Asker) -> None:
    """The whole table of stored offsets."""
    group, topic = ask.name("PAllG"), ask.name("PAllT")
    send(ask, topic, "one")
    heartbeat(ask, "p1", group, topic)
    for queue_id, offset in ((0, 1), (1, 7), (77, 0)):
        ask("broker", 15, consumerGroup=group, topic=topic, queueId=queue_id, commitOffset=offset)
    ask("broker", 43)
    ask("broker", 43, more="fields")
