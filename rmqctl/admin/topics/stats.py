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
from rmqctl.protocol.command import Command


class TopicStats(Struct, frozen=True):
    """One broker's answer to GET_TOPIC_STATS_INFO, by queue id. `put_tps`: None from brokers before 5.0."""

    queues: Mapping[int, TopicOffset]
    put_tps: float | None


async def fetch_topic_stats(client: Client, broker: BrokerData, topic: str) -> TopicStats | None:
    """Return a broker's statistics of a topic's queues; None when it does not have the topic."""
    answer = await _ask(client, broker, topic)
    return None if answer is None else TopicStats(_queues(answer), bodies.decode_topic_put_tps(answer.body))


async def fetch_queue_offsets(client: Client, broker: BrokerData, topic: str) -> Mapping[int, TopicOffset]:
    """Return min and max by queue id; empty for a topic that was deleted and left its offsets behind."""
    answer = await _ask(client, broker, topic)
    return {} if answer is None else _queues(answer)


async def fetch_topic_groups(client: Client, broker: BrokerData, topic: str) -> tuple[str, ...]:
    """Return the groups that consume a topic on a broker: connected, or with a stored offset."""
    answer = await client.ask_broker(broker, headers.get_topic_groups(topic))
    return bodies.decode_group_names(answer.command.body)


async def _ask(client: Client, broker: BrokerData, topic: str) -> Command | None:
    """Return the answer, None when the broker does not have the topic."""
    try:
        return (await client.ask_broker(broker, headers.get_topic_stats(topic))).command
    except BrokerError as error:
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        raise


def _queues(answer: Command) -> dict[int, TopicOffset]:
    return {mq.queue_id: offsets for mq, offsets in bodies.decode_topic_stats(answer.version, answer.body).items()}
