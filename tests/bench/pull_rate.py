"""rmqctl's own pull loop over the 8 queues of a topic at one broker."""

from __future__ import annotations

import asyncio
import time

from rmqctl.admin.messages.pull import pull_queue
from rmqctl.client.core import Client
from rmqctl.model.queue import MessageQueue

QUEUE_COUNT = 8


async def pull_rate(namesrv: str, address: str, topic: str, message_count: int) -> float:
    """Pull all messages and read one field of each; return how many in a second. Every queue has the same number."""
    per_queue = message_count // QUEUE_COUNT

    async def pull(client: Client, queue_id: int) -> int:
        seen = total = 0
        async for messages in pull_queue(client, address, MessageQueue(topic, "broker-a", queue_id), 0, per_queue):
            seen += len(messages)
            for message in messages:
                total += message.queue_offset
        assert total == per_queue * (per_queue - 1) // 2
        return seen

    async with Client([namesrv], timeout_s=300) as client:
        started = time.perf_counter()
        counts = await asyncio.gather(*(pull(client, queue_id) for queue_id in range(QUEUE_COUNT)))
        seconds = time.perf_counter() - started
    assert sum(counts) == message_count
    return message_count / seconds
