"""Makes a group of many members on a real cluster: clients of our own that heartbeat, and answer like a Java client."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from rmqctl.client.link import Link
from rmqctl.net.clock import SystemClock
from rmqctl.net.stream import connect_tcp
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from tests.real.harness.cluster import Cluster

_T = TypeVar("_T")
MEMBER_COUNT = 200


class Crowd(NamedTuple):
    """A group of so many members, each of which holds so many queues of its topic."""

    group: str
    topic: str
    queues_each: int

    @property
    def queue_count(self) -> int:
        """The queues at each of two brokers."""
        return MEMBER_COUNT * self.queues_each // 2


CROWD = Crowd("crowd", "Crowded", 1)
VAST_CROWD = Crowd("vast-crowd", "Vast", 5)


async def with_members(cluster: Cluster, crowd: Crowd, measure: Callable[[], _T]) -> _T:
    """Run `measure` in a thread while the members are connected to every broker."""
    cluster.create_topic(crowd.topic, queue_count=crowd.queue_count)
    cluster.java.produce(crowd.topic, 2_000, batch=10)
    clock = SystemClock()
    queues = [(name, queue_id) for name in sorted(cluster.brokers) for queue_id in range(crowd.queue_count)]
    links = []
    try:
        for number in range(MEMBER_COUNT):
            client_id = f"10.9.0.{number:03}@{number:03}#1"
            own = queues[number * crowd.queues_each : (number + 1) * crowd.queues_each]
            for broker in cluster.brokers.values():
                handlers = {RequestCode.GET_CONSUMER_RUNNING_INFO: _running_info(crowd.topic, own)}
                link = Link(await connect_tcp(broker.address, clock, 5), clock, handlers)
                links.append(link)
                answer = await link.request(Command(RequestCode.HEART_BEAT, body=_heartbeat(crowd, client_id)), 10)
                assert answer.code == 0, answer.remark
        return await asyncio.to_thread(measure)
    finally:
        await asyncio.gather(*(link.aclose() for link in links))


def _heartbeat(crowd: Crowd, client_id: str) -> bytes:
    subscription = {
        "topic": crowd.topic,
        "subString": "*",
        "subVersion": int(time.time() * 1000),
        "expressionType": "TAG",
    }
    consumer = {
        "groupName": crowd.group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [subscription], "unitMode": False,
    }  # fmt: skip
    return json.dumps({"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": []}).encode()


def _running_info(topic: str, queues: Sequence[tuple[str, int]]):  # type: ignore[no-untyped-def]
    """Return a handler that answers for a member holding queues, with the bulk of properties that Java sends."""
    held = {"cachedMsgCount": 0, "cachedMsgMinOffset": 0, "cachedMsgMaxOffset": 0, "commitOffset": 5, "droped": False}
    table = ",".join(
        json.dumps({"brokerName": name, "queueId": queue_id, "topic": topic}) + ":" + json.dumps(held)
        for name, queue_id in queues
    )
    properties = {
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "PROP_CONSUMEORDERLY": "false",
        "allocateMessageQueueStrategy": "org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely@1",
    }
    properties |= {f"property{i}": "some value of a Java consumer's field" for i in range(60)}
    subscriptions = [{"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG", "tagsSet": []}]
    body = (
        f'{{"mqTable":{{{table}}},"properties":{json.dumps(properties)},'
        f'"subscriptionSet":{json.dumps(subscriptions)},"statusTable":{{}}}}'
    ).encode()

    async def answer(address: str, request: Command) -> Command:
        return Command(0, body=body)

    return answer
