"""What tests do to a cluster without Java, and read of it without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rmqctl.admin.messages.pull import ALL, PULL_ANSWERS, pull_request
from rmqctl.admin.offsets.write import store_offset
from rmqctl.client.access import Access
from rmqctl.client.core import Client
from rmqctl.model.queue import MessageQueue
from rmqctl.model.send_result import OutgoingMessage
from rmqctl.pipeline.source.options import TopicChoice
from rmqctl.pipeline.source.retained_queues import fetch_retained_queues
from rmqctl.producer.producer import Producer
from rmqctl.protocol.message import StoredMessage, iter_messages
from tests.real.harness.cluster import Cluster

_T = TypeVar("_T")


def ask(cluster: Cluster, question: Callable[[Client], Awaitable[_T]]) -> _T:
    async def run() -> _T:
        async with await Access(cluster.namesrv, 10).connect() as client:
            return await question(client)

    return asyncio.run(run())


def stored(cluster: Cluster, topic: str) -> list[tuple[MessageQueue, StoredMessage]]:
    """Return all messages of a topic, pulled one answer after the other."""

    async def pull(client: Client) -> list[tuple[MessageQueue, StoredMessage]]:
        messages = []
        for mq, span in (await fetch_retained_queues(client, TopicChoice((topic,)))).spans.items():
            at = span.min_offset
            while at < span.max_offset:
                answer = await client.ask(span.address, pull_request(mq, at, ALL, 32), accept=PULL_ANSWERS)
                for message in iter_messages(answer.body):
                    messages.append((mq, message))
                    at = message.queue_offset + 1
        return messages

    return ask(cluster, pull)


def send(cluster: Cluster, topic: str, *messages: OutgoingMessage) -> None:
    """Send messages with the properties that they have, UNIQ_KEY too."""

    async def run(client: Client) -> None:
        producer = Producer(client, "by-hand")
        for message in messages:
            await producer.send_message(topic, message)

    ask(cluster, run)


def put_offset(cluster: Cluster, group: str, mq: MessageQueue, queue_offset: int) -> None:
    """Store an offset of a group that is not running."""
    address = cluster.addresses[mq.broker_name]
    assert ask(cluster, lambda client: store_offset(client, address, group, mq, queue_offset))
