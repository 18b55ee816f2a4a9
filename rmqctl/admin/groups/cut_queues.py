"""Read queues that a topic lost when its queue count was reduced: brokers keep their messages but do not list them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rmqctl.admin.messages.spans import fetch_span
from rmqctl.admin.results import Answers, ask_all
from rmqctl.client.core import Client
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Broker
from rmqctl.model.stats import TopicOffset


async def fetch_cut_queues(
    client: Client, brokers: Mapping[str, Broker], queues: Iterable[MessageQueue]
) -> Answers[MessageQueue, TopicOffset]:
    """Return the min and max offsets of queues of existing topics; both are 0 when the queue is empty."""

    async def ask(mq: MessageQueue) -> TopicOffset:
        span = await fetch_span(client, brokers[mq.broker_name], mq)
        return TopicOffset(span.min_offset, span.max_offset, None)

    return await ask_all(queues, ask)
