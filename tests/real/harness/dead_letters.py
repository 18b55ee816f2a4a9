"""Dead letters that are sent straight to a dead-letter topic: a consumer needs seconds for a hundred."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rmqctl.client.core import Client
from rmqctl.model.queue import MessageQueue
from rmqctl.model.send_result import OutgoingMessage
from rmqctl.producer.producer import Producer

from .cluster import Cluster

_BATCH_COUNT = 1_000


def put_letters(
    cluster: Cluster, group: str, origin: str, count: int, *, brokers: Sequence[str] = ("broker-a",),
    body_bytes: int = 100,
) -> None:  # fmt: skip
    """Make the group's dead-letter topic with one queue a broker, and store this many dead letters in turn.

    Each has a unique key of its own, and tells the topic that it came from.
    """
    topic = f"%DLQ%{group}"
    cluster.create_topic(topic, queue_count=1, brokers=tuple(brokers))
    letters = [_letter(f"{group}-{number}", origin, body_bytes) for number in range(count)]

    async def send() -> None:
        async with Client([cluster.namesrv]) as client:
            producer = Producer(client, "DeadLetters")
            for start in range(0, count, _BATCH_COUNT):
                mq = MessageQueue(topic, brokers[start // _BATCH_COUNT % len(brokers)], 0)
                async for _ in producer.send_batches(topic, letters[start : start + _BATCH_COUNT], mq=mq):
                    pass

    asyncio.run(send())


def _letter(key: str, origin: str, body_bytes: int) -> OutgoingMessage:
    properties = {"UNIQ_KEY": key, "KEYS": key, "TAGS": "A", "RETRY_TOPIC": origin, "WAIT": "true"}
    return OutgoingMessage(key.encode().ljust(body_bytes, b"."), properties)
