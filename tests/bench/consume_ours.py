"""Consumes so many messages with our own consumer, and says "seconds cpuSeconds p50Ms p99Ms" from the first one on.

A process of its own, as those of the others:
python -m tests.bench.consume_ours NAMESRV GROUP TOPIC BATCH COUNT [orderly]
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence

from rmqctl.client.core import Client
from rmqctl.consumer.batch import Batch
from rmqctl.consumer.core import ConsumerCore
from rmqctl.consumer.rules.subscriptions import make_subscription
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.model.consumption import ConsumeFromWhere, ConsumeOrderlyStatus, ConsumeStatus
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.allocate import find_strategy


async def consume(namesrv: str, group: str, topic: str, batch_size: int, count: int, *, is_orderly: bool) -> str:
    """Return what was measured."""
    started: list[float] = []
    ended: list[float] = []
    ages_ms: list[int] = []
    success = ConsumeOrderlyStatus.SUCCESS if is_orderly else ConsumeStatus.CONSUME_SUCCESS
    loop, is_over = asyncio.get_running_loop(), asyncio.Event()

    def listen(messages: Sequence[StoredMessage], _: Batch) -> ConsumeStatus | ConsumeOrderlyStatus:
        if not started:
            started.extend((time.perf_counter(), time.process_time()))
        now_ms = time.time_ns() // 1_000_000
        ages_ms.extend([now_ms - message.born_at_ms for message in messages])
        if len(ages_ms) >= count and not ended:
            ended.extend((time.perf_counter(), time.process_time()))
            loop.call_soon_threadsafe(is_over.set)
        return success

    async with Client([namesrv], timeout_s=9, open_ended=True) as client:
        settings = ConsumerSettings(
            group=group, consume_from=ConsumeFromWhere.FIRST_OFFSET, batch_size=batch_size, is_orderly=is_orderly
        )
        consumer = ConsumerCore(client, settings, [make_subscription(topic)], listen, find_strategy("averagely"))
        await consumer.start()
        print("started", flush=True)
        await is_over.wait()
        await consumer.drain(10)
    ages_ms.sort()
    seconds, cpu_s = ended[0] - started[0], ended[1] - started[1]
    return f"{seconds:.4f} {cpu_s:.4f} {ages_ms[count // 2]} {ages_ms[count * 99 // 100]}"


if __name__ == "__main__":
    namesrv, group, topic, batch_size, count, *kind = sys.argv[1:]
    print(asyncio.run(consume(namesrv, group, topic, int(batch_size), int(count), is_orderly=bool(kind))))
