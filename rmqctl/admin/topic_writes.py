"""Read and write a topic's configuration on one broker's master."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqctl.client.core import Client
from rmqctl.model.route import Broker
from rmqctl.protocol import bodies, writes
from rmqctl.protocol.command import Command

from .topic_status import ask_topic_config


async def read_topic(client: Client, broker: Broker, topic: str) -> dict[str, Any] | None:
    """Return all fields of TopicConfig from the master, None when it does not have the topic."""
    address = client.require_master(broker)

    async def ask(request: Command) -> Command:
        return await client.ask(address, request)

    answer = await ask_topic_config(ask, topic)
    return None if answer is None else bodies.decode_topic_fields(topic, answer.body)


async def write_topic(client: Client, broker: Broker, config: Mapping[str, Any]) -> None:
    """Write the fields of TopicConfig, except its attributes. May reach the broker twice, which does no harm."""
    await client.ask(client.require_master(broker), writes.update_topic(config))
