"""Joins a group with a listener that never comes back, and says how much memory that took at most, in MiB.

A process of its own: python -m tests.bench.consume_stuck NAMESRV GROUP TOPIC SECONDS
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import threading
from collections.abc import Sequence

from rmqctl.client.core import Client
from rmqctl.consumer import Batch, ConsumeFromWhere, ConsumerSettings, ConsumeStatus
from rmqctl.consumer.core import ConsumerCore
from rmqctl.consumer.rules.subscriptions import make_subscription
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.allocate import find_strategy


def _hang(_: Sequence[StoredMessage], __: Batch) -> ConsumeStatus:
    threading.Event().wait()
    return ConsumeStatus.CONSUME_SUCCESS


async def consume(namesrv: str, group: str, topic: str, seconds: float) -> str:
    """Return how many messages were held at the end, and the largest memory."""
    async with Client([namesrv], timeout_s=9, open_ended=True) as client:
        settings = ConsumerSettings(group=group, consume_from=ConsumeFromWhere.FIRST_OFFSET)
        consumer = ConsumerCore(client, settings, [make_subscription(topic)], _hang, find_strategy("averagely"))
        await consumer.start()
        await asyncio.sleep(seconds)
        held = sum(each.count for each in consumer.unfinished())
        await consumer.drain(0)
    return f"{held} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.1f}"


if __name__ == "__main__":
    print(asyncio.run(consume(*sys.argv[1:4], float(sys.argv[4]))), flush=True)  # type: ignore[call-arg]
    os._exit(0)  # threads that hang would be waited for
