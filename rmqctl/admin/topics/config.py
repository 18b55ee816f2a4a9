"""Read and write a topic's configuration on one broker's master."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from rmqctl.client.core import Client
from rmqctl.errors import BrokerError
from rmqctl.model.route import BrokerData
from rmqctl.model.topic import TopicConfig
from rmqctl.protocol import bodies, headers, writes
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command


async def read_topic(client: Client, broker: BrokerData, topic: str) -> dict[str, Any] | None:
    """Return all fields of TopicConfig from the master, None when it does not have the topic."""
    address = client.require_master(broker)

    async def ask(request: Command) -> Command:
        return await client.ask(address, request)

    answer = await _ask_config(ask, topic)
    return None if answer is None else bodies.decode_topic_fields(topic, answer.body)


async def write_topic(
    client: Client, broker: BrokerData, config: Mapping[str, Any], attribute_steps: Mapping[str, str]
) -> None:
    """Write the fields of TopicConfig, and change its attributes step by step, as writes.update_topic() does.

    May reach the broker twice: that does no harm, but the second removal of an attribute is refused.
    """
    await client.ask(client.require_master(broker), writes.update_topic(config, attribute_steps))


async def delete_topic(client: Client, broker: BrokerData, topic: str) -> None:
    """Delete a topic with its messages from the master.

    It reaches the broker once at most: a second time it could delete what a producer has sent since.
    """
    await client.ask(client.require_master(broker), writes.delete_topic(topic), may_repeat=False)


async def forget_topic(client: Client, name_server: str, topic: str) -> None:
    """Delete a topic's route from one name server, for all brokers."""
    await client.ask(name_server, writes.forget_topic(topic))


async def fetch_topic_config(client: Client, broker: BrokerData, topic: str) -> TopicConfig | None:
    """Return a broker's configuration of a topic, None when it does not have the topic.

    A slave answers if the master does not.
    """

    async def ask(request: Command) -> Command:
        return (await client.ask_broker(broker, request)).command

    answer = await _ask_config(ask, topic)
    return None if answer is None else bodies.decode_topic_config(topic, answer.body)


async def _ask_config(ask: Callable[[Command], Awaitable[Command]], topic: str) -> Command | None:
    """Request one topic's configuration, or all topics' from a broker that is too old for that request.

    Returns None when the broker does not have the topic; an old broker's answer may not contain it either.
    """
    try:
        return await ask(headers.get_topic_config(topic))
    except BrokerError as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return await ask(headers.get_all_topic_configs())
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        raise
