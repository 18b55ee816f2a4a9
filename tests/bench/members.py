"""Makes a group of many members on a real cluster: clients of our own that heartbeat, and answer like a Java client."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import TypeVar

from rmqctl.client.link import Link
from rmqctl.net.clock import SystemClock
from rmqctl.net.stream import connect_tcp
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from tests.real.harness.cluster import Cluster

_T = TypeVar("_T")
MEMBER_COUNT = 200
TOPIC, GROUP = "Crowded", "crowd"


async def with_members(cluster: Cluster, measure: Callable[[], _T]) -> _T:
    """Run `measure` in a thread while the members are connected to every broker."""
    clock = SystemClock()
    links = []
    try:
        for number in range(MEMBER_COUNT):
            client_id = f"10.9.{number // 250}.{number % 250}@{number}#1"
            for broker in cluster.brokers.values():
                handlers = {RequestCode.GET_CONSUMER_RUNNING_INFO: _running_info(number, list(cluster.brokers))}
                link = Link(await connect_tcp(broker.address, clock, 5), clock, handlers)
                links.append(link)
                answer = await link.request(Command(RequestCode.HEART_BEAT, body=_heartbeat(client_id)), 10)
                assert answer.code == 0, answer.remark
        return await asyncio.to_thread(measure)
    finally:
        await asyncio.gather(*(link.aclose() for link in links))


def _heartbeat(client_id: str) -> bytes:
    subscription = {"topic": TOPIC, "subString": "*", "subVersion": int(time.time() * 1000), "expressionType": "TAG"}
    consumer = {
        "groupName": GROUP, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [subscription], "unitMode": False,
    }  # fmt: skip
    return json.dumps({"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": []}).encode()


def _running_info(number: int, broker_names: list[str]):  # type: ignore[no-untyped-def]
    """Return a handler that answers for a member holding one queue, with the bulk of properties that Java sends."""
    mq = {"brokerName": broker_names[number % 2], "queueId": number // 2, "topic": TOPIC}
    held = {"cachedMsgCount": 0, "cachedMsgMinOffset": 0, "cachedMsgMaxOffset": 0, "commitOffset": 5, "droped": False}
    properties = {
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "PROP_CONSUMEORDERLY": "false",
    }
    properties |= {f"property{i}": "some value of a Java consumer's field" for i in range(60)}
    subscriptions = [{"topic": TOPIC, "subString": "*", "subVersion": 1, "expressionType": "TAG", "tagsSet": []}]
    body = (
        f'{{"mqTable":{{{json.dumps(mq)}:{json.dumps(held)}}},"properties":{json.dumps(properties)},'
        f'"subscriptionSet":{json.dumps(subscriptions)},"statusTable":{{}}}}'
    ).encode()

    async def answer(address: str, request: Command) -> Command:
        return Command(0, body=body)

    return answer
