"""Scripts of requests about statistics and progress: topic and consume stats, time spans, queue entries."""

from __future__ import annotations

import dataclasses
import re
import time

from msgspec.structs import replace

from rmqctl.protocol.command import Command
from tests.real.differential.answering import Member
from tests.real.differential.asker import Asker

PULL, QUERY_OFFSET, STORE_OFFSET, MAX_OFFSET, SEND = 11, 14, 15, 30, 310
TOPIC_STATS, CONSUME_STATS, WHO_CONSUMES, TIME_SPAN, BROKER_STATS, ALL_CONSUME_STATS = 202, 208, 300, 303, 315, 317
QUEUE_ENTRIES, TOPICS_OF_GROUP, SUBSCRIPTION_OF_GROUP = 321, 343, 345
UNREGISTER = 35


def send(ask: Asker, topic: str, queue_id: int, *, tag: str = "", body: bytes = b"x") -> Command | None:
    """Store a message; a topic that there is not is made with two queues."""
    # An id of its own: the one that a broker makes is as long as its address.
    properties = "UNIQ_KEY\x017F00000100002A139A5518B4AAC20000\x02" + (f"TAGS\x01{tag}\x02" if tag else "")
    return ask(
        "broker", SEND, body, client="producer", a="P", b=topic, c="TBW102", d=2, e=queue_id, f=0, g=1_700_000_000_000,
        h=0, i=properties, j=0, k=False, m=False,
    )  # fmt: skip


def await_stored(ask: Asker, topic: str, queue_id: int, count: int) -> None:
    """Wait until messages are in their queue: a real broker enters them a little after it answers the send.

    How often it asks is a matter of luck, so this is not kept.
    """
    connection = ask.connection("broker", "waiting")
    fields = {"topic": topic, "queueId": str(queue_id)}
    for _ in range(200):
        answer = connection.ask(Command(MAX_OFFSET, fields))
        if answer is not None and int(answer.ext_fields["offset"]) >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"{topic} does not get {count} messages")


def make_group(ask: Asker, group: str, topic: str) -> None:
    """Let a group be configured, with nobody connected: a member comes and goes."""
    Member(ask, "passer-by", {}).join(group, topic)
    ask("broker", UNREGISTER, client="passer-by", clientID="passer-by", consumerGroup=group)


def pull(ask: Asker, group: str, topic: str, queue_id: int, offset: int, count: int = 32) -> None:
    """Read messages, with the subscription in the request; nothing is committed."""
    ask(
        "broker", PULL, consumerGroup=group, topic=topic, queueId=queue_id, queueOffset=offset, maxMsgNums=count,
        sysFlag=4, commitOffset=0, suspendTimeoutMillis=0, subscription="*", subVersion=0, expressionType="TAG",
    )  # fmt: skip


def store_offset(ask: Asker, group: str, topic: str, queue_id: int, offset: int) -> None:
    """Store an offset of a group."""
    ask("broker", STORE_OFFSET, consumerGroup=group, topic=topic, queueId=queue_id, commitOffset=offset)


def script_topic_stats(ask: Asker) -> None:
    topic = ask.name("RTopicS")
    ask("broker", TOPIC_STATS, topic=topic)
    ask("broker", TOPIC_STATS, topic="")
    send(ask, topic, 0)
    await_stored(ask, topic, 0, 1)
    ask("broker", TOPIC_STATS, topic=topic)
    send(ask, topic, 1)
    send(ask, topic, 1)
    await_stored(ask, topic, 1, 2)
    ask("broker", TOPIC_STATS, topic=topic)


def script_consume_stats(ask: Asker) -> None:
    topic, other, group = ask.name("RTopicC"), ask.name("ROtherC"), ask.name("RGroupC")
    ask("broker", CONSUME_STATS, consumerGroup=group)
    ask("broker", CONSUME_STATS, consumerGroup=group, topic=topic)
    for _ in range(3):
        send(ask, topic, 0)
    send(ask, topic, 1)
    send(ask, other, 0)
    await_stored(ask, topic, 0, 3)
    await_stored(ask, other, 0, 1)
    ask("broker", CONSUME_STATS, consumerGroup=group, topic=topic)
    make_group(ask, group, topic)
    ask("broker", CONSUME_STATS, consumerGroup=group)
    ask("broker", CONSUME_STATS, consumerGroup=group, topic=topic)
    store_offset(ask, group, topic, 0, 2)
    store_offset(ask, group, other, 0, 1)
    ask("broker", CONSUME_STATS, consumerGroup=group)
    ask("broker", CONSUME_STATS, consumerGroup=group, topic="")
    ask("broker", CONSUME_STATS, consumerGroup=group, topic=" ")
    ask("broker", CONSUME_STATS, consumerGroup=group, topic=topic)
    ask("broker", CONSUME_STATS, consumerGroup=group, topicList=f"{topic};")
    ask("broker", CONSUME_STATS, consumerGroup=group, topicList=f"{topic};;{other};{ask.name('RNone')}")
    ask("broker", CONSUME_STATS, consumerGroup=group, topicList=" ")
    pull(ask, group, topic, 0, 0)
    pull(ask, group, topic, 1, 0)
    ask("broker", CONSUME_STATS, consumerGroup=group)
    store_offset(ask, group, topic, 0, 99)
    store_offset(ask, group, topic, 1, -5)
    store_offset(ask, group, topic, 7, 3)
    ask("broker", CONSUME_STATS, consumerGroup=group)
    member = Member(ask, "member", {}).join(group, topic)
    ask("broker", CONSUME_STATS, consumerGroup=group)
    ask("broker", CONSUME_STATS, consumerGroup=group, topic=other)
    ask("broker", CONSUME_STATS, consumerGroup=group, topicList=other)
    member.leave()


def script_consume_stats_of_all(ask: Asker) -> None:
    topic, group = ask.name("RTopicA"), ask.name("RGroupA")
    send(ask, topic, 0)
    await_stored(ask, topic, 0, 1)
    make_group(ask, group, topic)
    for is_order in (False, True, "no"):
        _of_all(ask, is_order)
    store_offset(ask, group, topic, 0, 1)
    store_offset(ask, group, ask.name("RNoneA"), 0, 1)
    _of_all(ask, False)
    _of_all(ask, True)
    member = Member(ask, "member", {}).join(group, ask.name("ROtherA"))
    _of_all(ask, False)
    member.leave()


def _of_all(ask: Asker, is_order: object) -> None:
    """Ask for all groups, and keep the answer without the sums, in which other tests' groups are as well."""
    answer = ask("broker", ALL_CONSUME_STATS, isOrder=is_order)
    assert answer is not None
    body = re.sub(rb'("total\w+"):-?\d+', rb"\1:0", answer.body)
    ask.exchanges[-1] = dataclasses.replace(ask.exchanges[-1], answer=replace(answer, body=body))


def script_time_span(ask: Asker) -> None:
    topic, group = ask.name("RTopicT"), ask.name("RGroupT")
    ask("broker", TIME_SPAN, topic=topic, group=group)
    send(ask, topic, 0)
    await_stored(ask, topic, 0, 1)
    ask("broker", TIME_SPAN, topic=topic, group=group)
    send(ask, topic, 0)
    await_stored(ask, topic, 0, 2)
    make_group(ask, group, topic)
    store_offset(ask, group, topic, 0, 0)
    ask("broker", TIME_SPAN, topic=topic, group=group)
    store_offset(ask, group, topic, 0, 1)
    store_offset(ask, group, topic, 1, 1)
    ask("broker", TIME_SPAN, topic=topic, group=group)
    store_offset(ask, group, topic, 0, 2)
    ask("broker", TIME_SPAN, topic=topic, group=group)
    store_offset(ask, group, topic, 0, 50)
    ask("broker", TIME_SPAN, topic=topic, group=group)


def script_who_consumes(ask: Asker) -> None:
    topic, other, group = ask.name("RTopicW"), ask.name("ROtherW"), ask.name("RGroupW")
    ask("broker", WHO_CONSUMES, topic=topic)
    ask("broker", TOPICS_OF_GROUP, group=group)
    ask("broker", SUBSCRIPTION_OF_GROUP, group=group, topic=topic)
    send(ask, topic, 0)
    send(ask, other, 0)
    make_group(ask, group, topic)
    store_offset(ask, group, other, 0, 1)
    ask("broker", WHO_CONSUMES, topic=topic)
    ask("broker", WHO_CONSUMES, topic=other)
    ask("broker", TOPICS_OF_GROUP, group=group)
    ask("broker", SUBSCRIPTION_OF_GROUP, group=group, topic=other)
    member = Member(ask, "member", {}).join(group, topic)
    ask("broker", WHO_CONSUMES, topic=topic)
    ask("broker", WHO_CONSUMES, topic=other)
    ask("broker", TOPICS_OF_GROUP, group=group)
    ask("broker", SUBSCRIPTION_OF_GROUP, group=group, topic=topic)
    ask("broker", SUBSCRIPTION_OF_GROUP, group=group, topic=other)
    ask("broker", SUBSCRIPTION_OF_GROUP, group=group)
    member.leave()


def script_broker_stats(ask: Asker) -> None:
    topic, group = ask.name("RTopicB"), ask.name("RGroupB")
    ask("broker", BROKER_STATS, statsName="TOPIC_PUT_NUMS", statsKey=topic)
    ask("broker", BROKER_STATS, statsName="NO_SUCH_NAME", statsKey=topic)
    ask("broker", BROKER_STATS, statsName="TOPIC_PUT_NUMS")
    send(ask, topic, 0)
    send(ask, topic, 0)
    await_stored(ask, topic, 0, 2)
    make_group(ask, group, topic)
    pull(ask, group, topic, 0, 0)
    for name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"):
        answer = ask("broker", BROKER_STATS, statsName=name, statsKey=topic)
        # What the last ten seconds hold is a matter of luck; that there is an answer is not.
        assert answer is not None
        assert answer.code == 0
    for name in ("GROUP_GET_NUMS", "GROUP_GET_SIZE", "GROUP_GET_LATENCY", "SNDBCK_PUT_NUMS"):
        ask("broker", BROKER_STATS, statsName=name, statsKey=f"{topic}@{group}")


def script_queue_entries(ask: Asker) -> None:
    topic, group = ask.name("RTopicQ"), ask.name("RGroupQ")
    ask("broker", QUEUE_ENTRIES, topic=topic, queueId=0, index=0, count=10)
    send(ask, topic, 0, tag="TagA")
    send(ask, topic, 0)
    send(ask, topic, 0, tag="TagB")
    await_stored(ask, topic, 0, 3)
    ask("broker", QUEUE_ENTRIES, topic=topic, queueId=0, index=0, count=10)
    ask("broker", QUEUE_ENTRIES, topic=topic, queueId=0, index=1, count=1)
    ask("broker", QUEUE_ENTRIES, topic=topic, queueId=0, index=1, count=0)
    ask("broker", QUEUE_ENTRIES, topic=topic, queueId=0, index=1, count=-1)
    ask("broker", QUEUE_ENTRIES, topic=topic, queueId=0, index=3, count=10)
    ask("broker", QUEUE_ENTRIES, topic=topic, queueId=0, index=4, count=10)
    ask("broker", QUEUE_ENTRIES, topic=topic, queueId=0, index=-1, count=10)
    ask("broker", QUEUE_ENTRIES, topic=topic, queueId=1, index=0, count=10)
    ask("broker", QUEUE_ENTRIES, topic=topic, queueId=9, index=0, count=10)
    ask("broker", QUEUE_ENTRIES, topic=topic, queueId=-1, index=0, count=10)
    ask("broker", QUEUE_ENTRIES, topic=topic, queueId=0, index=0)
    ask("broker", QUEUE_ENTRIES, topic=topic, index=0, count=3)
    ask("broker", QUEUE_ENTRIES, topic=topic, queueId=0, index=0, count=1, consumerGroup=group)
    ask("broker", QUEUE_ENTRIES, topic=topic, queueId=0, index=0, count=1, consumerGroup="")
    member = Member(ask, "member", {}).join(group, topic)
    ask("broker", QUEUE_ENTRIES, topic=topic, queueId=0, index=0, count=1, consumerGroup=group)
    member.leave()
