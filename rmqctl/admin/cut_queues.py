"""Queues that a topic had before it was made smaller: brokers keep what is in them, and no table names them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from rmqctl.client.core import Client
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Broker
from rmqctl.model.stats import TopicOffset
from rmqctl.protocol import headers

from .results import Answers, ask_all


async def fetch_cut_queues(
    client: Client, brokers: Mapping[str, Broker], queues: Iterable[MessageQueue]
) -> Answers[MessageQueue, TopicOffset]:
    """Return the smallest and largest offsets of queues of existing topics; both 0 where nothing is left."""

    async def ask(mq: MessageQueue) -> TopicOffset:
        broker = brokers[mq.broker_name]
        first, end = await asyncio.gather(
            client.ask_broker(broker, headers.get_min_offset(mq.topic, mq.queue_id)),
            client.ask_broker(broker, headers.get_max_offset(mq.topic, mq.queue_id)),
        )
        return TopicOffset(headers.int_field(first.command, "offset"), headers.int_field(end.command, "offset"), None)

    return await ask_all(queues, ask)
