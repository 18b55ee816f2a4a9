"""Read a group's configuration on all brokers, and change it on one broker's master."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_cluster, read_settings
from rmqctl.client.core import Client
from rmqctl.client.partial_answers import slave_failures
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupConfig
from rmqctl.model.route import BrokerData
from rmqctl.protocol import group_bodies, headers, writes
from rmqctl.protocol.versions import V5_5_0

from .names import require_group


async def read_configs(client: Client, broker: BrokerData) -> dict[str, GroupConfig]:
    """Return every group's configuration; always asks the master, as a slave's copy can be old."""
    answer = await client.ask(client.require_master(broker), headers.get_all_groups())
    return group_bodies.decode_groups(answer.body)


async def write_config(client: Client, broker: BrokerData, body: Mapping[str, Any]) -> None:
    """Write a complete configuration. The request may reach the broker twice, which does no harm."""
    await client.ask(client.require_master(broker), writes.update_group(body))


async def delete_group(client: Client, broker: BrokerData, group: str, *, with_offsets: bool) -> None:
    """Delete a configuration and, `with_offsets`, all offsets. May reach the broker twice, which does no harm."""
    await client.ask(client.require_master(broker), writes.delete_group(group, with_offsets=with_offsets))


async def recreates_deleted_groups(client: Client, broker: BrokerData) -> bool:
    """Return whether a broker immediately recreates, with defaults, a group that is deleted without its offsets.

    5.5.0 does: it then checks whether the group consumes lite topics, and the check creates it, unless
    autoCreateSubscriptionGroup is off. Source: AdminBrokerProcessor.deleteSubscriptionGroup, LiteMetadataUtil.
    """
    settings = await read_settings(client, broker)
    return settings.version >= V5_5_0 and settings.values.get("autoCreateSubscriptionGroup") != "false"


class GroupConfigs(Struct, frozen=True):
    """A group's configuration by broker that answered, None when it has none."""

    group: str
    configs: Mapping[str, GroupConfig | None]
    failures: tuple[Failure, ...]


async def fetch_group_configs(client: Client, group: str) -> GroupConfigs:
    """Return a group's configuration on every broker.

    Raises NotFoundError when no broker has a configuration or an offset of the group.
    """
    brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
    tables = await require_group(client, group, brokers, {})
    failures = [Failure(name, "configuration", error) for name, error in tables.failed.items()]
    configs = {name: table.get(group) for name, table in tables.ok.items()}
    return GroupConfigs(group, configs, (*failures, *slave_failures(client)))
