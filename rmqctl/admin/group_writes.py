"""A group's configuration at one broker's master: read as it is, written, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqctl.client.core import Client
from rmqctl.model.group import GroupConfig
from rmqctl.model.route import Broker
from rmqctl.protocol import bodies, headers, writes
from rmqctl.protocol.versions import V5_5_0


async def read_configs(client: Client, broker: Broker) -> dict[str, GroupConfig]:
    """Return every group's configuration; each call asks again, and no slave, whose copy can be old."""
    answer = await client.ask(client.require_master(broker), headers.get_all_groups())
    return bodies.decode_groups(answer.body)


async def write_config(client: Client, broker: Broker, body: Mapping[str, Any]) -> None:
    """Store a configuration, whole. May reach the broker twice, which does no harm."""
    await client.ask(client.require_master(broker), writes.update_group(body))


async def delete_group(client: Client, broker: Broker, group: str, *, with_offsets: bool) -> None:
    """Delete a configuration, and all offsets of the group with it. May reach the broker twice, which does no harm."""
    await client.ask(client.require_master(broker), writes.delete_group(group, with_offsets=with_offsets))


async def makes_deleted_again(client: Client, broker: Broker) -> bool:
    """Tell whether a broker makes a group that is deleted without its offsets again at once, with the defaults.

    5.5.0 does: it then asks whether the group was one of lite topics, and asking makes it, unless
    autoCreateSubscriptionGroup is off. Source: AdminBrokerProcessor.deleteSubscriptionGroup, LiteMetadataUtil.
    """
    answer = await client.ask(client.require_master(broker), headers.get_broker_config())
    if answer.version < V5_5_0:
        return False
    return bodies.decode_properties_text(answer.body).get("autoCreateSubscriptionGroup") != "false"
