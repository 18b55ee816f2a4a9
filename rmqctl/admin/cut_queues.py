"""Queues that a topic had before it was made smaller: brokers keep what is in them, and no table names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rmqctl.client.core import Client
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Broker
from rmqctl.model.stats import TopicOffset

from .queues import fetch_span
from .results import Answers, ask_all


async def fetch_cut_queues(
    client: Client, brokers: Mapping[str, Broker], queues: Iterable[MessageQueue]
) -> Answers[MessageQueue, TopicOffset]:
    """Return the smallest and largest offsets of queues of existing topics; both 0 where nothing is left."""

    async def ask(mq: MessageQueue) -> TopicOffset:
        span = await fetch_span(client, brokers[mq.broker_name], mq)
        return TopicOffset(span.min_offset, span.max_offset, None)

    return await ask_all(queues, ask)
