"""Members with protection that start one shortly after another, and then see a broker restart, never share a queue."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from functools import partial

from rmqctl.consumer import Batch, ConsumerSettings, PushConsumer, StoredMessage

from .churn import Consumed, observe
from .harness.cluster import Cluster

_PROTECT_S, _RATE = 15.0, 40
# Whether a member sees one change before another is chance: several groups have it at the same time.
_GAPS_S = (0.1, 0.2, 0.4, 0.8)


def test_members_with_protection_never_share_a_queue(cluster: Cluster) -> None:
    asyncio.run(_never_share(cluster))


async def _never_share(cluster: Cluster) -> None:
    topic, broker = "Protected", cluster.brokers["broker-b"]
    cluster.create_topic(topic, queue_count=4)
    consumed: dict[float, list[Consumed]] = defaultdict(list)

    async def consume(gap_s: float, name: str, messages: list[StoredMessage], batch: Batch) -> str:
        consumed[gap_s] += [Consumed(str(batch.mq), each.queue_offset, time.monotonic(), name) for each in messages]
        return "CONSUME_SUCCESS"

    async with AsyncExitStack() as running:
        for gap_s in _GAPS_S:
            for name in ("one", "two", "three"):
                settings = ConsumerSettings(protect_s=_PROTECT_S)
                listener = partial(consume, gap_s, name)
                group = f"Protected-{_GAPS_S.index(gap_s)}"
                consumer = PushConsumer(
                    cluster.namesrv, group=group, topics=[topic], listener=listener, settings=settings
                )
                await running.enter_async_context(consumer)
                await asyncio.sleep(gap_s)
        # Until all count, and each has queues.
        await _produce(cluster, topic, for_s=_PROTECT_S + 5)
        assert [{each.consumer for each in found} for found in consumed.values()] == [{"one", "two", "three"}] * 4
        broker.kill()
        try:
            await asyncio.sleep(5)
        finally:
            broker.start()
            await asyncio.to_thread(broker.wait)
        # Until heartbeats have told the broker of all members, every 30 s.
        await _produce(cluster, topic, for_s=35)
    ended_s = time.monotonic()
    assert {gap_s: observe(found, ended_s).shared_s < 1 for gap_s, found in consumed.items()} == dict.fromkeys(
        _GAPS_S, True
    )


async def _produce(cluster: Cluster, topic: str, *, for_s: float) -> None:
    await asyncio.to_thread(cluster.java.produce, topic, round(_RATE * for_s), rate=_RATE)
