"""A group's configuration at one broker's master: read as it is, written, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqctl.client.core import Client
from rmqctl.model.group import GroupConfig
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Broker
from rmqctl.protocol import bodies, headers, writes

from .offset_writes import require_master
from .stored_offsets import fetch_group_table


async def read_configs(client: Client, broker: Broker) -> dict[str, GroupConfig]:
    """Return every group's configuration; each call asks again, and no slave, whose copy can be old."""
    answer = await client.ask(require_master(broker), headers.get_all_groups())
    return bodies.decode_groups(answer.body)


async def read_offsets(client: Client, broker: Broker, group: str) -> dict[MessageQueue, int]:
    """Return all offsets that are stored of a group, also of topics that are gone, and also for no configuration."""
    table = await fetch_group_table(client, require_master(broker), broker.broker_name, group)
    return {mq: offset for mq, offset in table.items() if offset is not None}


async def write_config(client: Client, broker: Broker, body: Mapping[str, Any]) -> None:
    """Store a configuration, whole. May reach the broker twice, which does no harm."""
    await client.ask(require_master(broker), writes.update_group(body))


async def delete_group(client: Client, broker: Broker, group: str, *, with_offsets: bool) -> None:
    """Delete a configuration, and all offsets of the group with it. May reach the broker twice, which does no harm."""
    await client.ask(require_master(broker), writes.delete_group(group, with_offsets=with_offsets))
