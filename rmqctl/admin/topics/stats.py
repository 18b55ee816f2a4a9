"""Read the min and max offsets of a topic's queues on one broker."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from rmqctl.client.core import Client
from rmqctl.errors import BrokerError
from rmqctl.model.route import BrokerData
from rmqctl.model.stats import TopicOffset
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.codes import ResponseCode


class TopicStats(Struct, frozen=True):
    """One broker's answer to GET_TOPIC_STATS_INFO, by queue id. `put_tps`: None from brokers before 5.0."""

    queues: Mapping[int, TopicOffset]
    put_tps: float | None


async def fetch_topic_stats(client: Client, broker: BrokerData, topic: str) -> TopicStats | None:
    """Return a broker's statistics of a topic's queues; None when it does not have the topic."""
    body = await _ask(client, broker, topic)
    return None if body is None else TopicStats(_queues(body), bodies.decode_topic_put_tps(body))


async def fetch_queue_offsets(client: Client, broker: BrokerData, topic: str) -> Mapping[int, TopicOffset]:
    """Return min and max by queue id; empty for a topic that was deleted and left its offsets behind."""
    body = await _ask(client, broker, topic)
    return {} if body is None else _queues(body)


async def fetch_topic_groups(client: Client, broker: BrokerData, topic: str) -> tuple[str, ...]:
    """Return the groups that consume a topic on a broker: connected, or with a stored offset."""
    answer = await client.ask_broker(broker, headers.get_topic_groups(topic))
    return bodies.decode_group_names(answer.command.body)


async def _ask(client: Client, broker: BrokerData, topic: str) -> bytes | None:
    """Return the body of the answer, None when the broker does not have the topic."""
    try:
        return (await client.ask_broker(broker, headers.get_topic_stats(topic))).command.body
    except BrokerError as error:
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        raise


def _queues(body: bytes) -> dict[int, TopicOffset]:
    return {mq.queue_id: offsets for mq, offsets in bodies.decode_topic_stats(body).items()}
