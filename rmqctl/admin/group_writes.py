"""Read, write and delete a group's configuration on one broker's master."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqctl.client.core import Client
from rmqctl.model.group import GroupConfig
from rmqctl.model.route import Broker
from rmqctl.protocol import bodies, headers, writes
from rmqctl.protocol.versions import V5_5_0


async def read_configs(client: Client, broker: Broker) -> dict[str, GroupConfig]:
    """Return every group's configuration; always asks the master, as a slave's copy can be old."""
    answer = await client.ask(client.require_master(broker), headers.get_all_groups())
    return bodies.decode_groups(answer.body)


async def write_config(client: Client, broker: Broker, body: Mapping[str, Any]) -> None:
    """Write a complete configuration. The request may reach the broker twice, which does no harm."""
    await client.ask(client.require_master(broker), writes.update_group(body))


async def delete_group(client: Client, broker: Broker, group: str, *, with_offsets: bool) -> None:
    """Delete a configuration and, `with_offsets`, all offsets. May reach the broker twice, which does no harm."""
    await client.ask(client.require_master(broker), writes.delete_group(group, with_offsets=with_offsets))


async def makes_deleted_again(client: Client, broker: Broker) -> bool:
    """Return whether a broker immediately recreates, with defaults, a group that is deleted without its offsets.

    5.5.0 does: it then checks whether the group consumes lite topics, and the check creates it, unless
    autoCreateSubscriptionGroup is off. Source: AdminBrokerProcessor.deleteSubscriptionGroup, LiteMetadataUtil.
    """
    answer = await client.ask(client.require_master(broker), headers.get_broker_config())
    if answer.version < V5_5_0:
        return False
    return bodies.decode_properties_text(answer.body).get("autoCreateSubscriptionGroup") != "false"
