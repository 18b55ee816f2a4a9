"""Read and change a broker's write permission, at its master and at name servers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from rmqctl.admin.brokers.rules.permission import (
    SETTING,
    RoutePermission,
    closed_names,
    expected_writes,
    route_permission,
)
from rmqctl.admin.results import Answers, all_or_failed, ask_all
from rmqctl.client.core import Client
from rmqctl.errors import RemoteProtocolError
from rmqctl.model.route import BrokerData
from rmqctl.protocol import bodies, headers, writes
from rmqctl.rules.broker_config import own_permission

from .cluster import MasterSettings, read_settings


class OwnPermission(Struct, frozen=True):
    """What a master reports: `setting` (brokerPermission), and whether each topic itself permits writing.

    `closed` are applications' topics that do not permit both reading and writing.
    `name_servers`: namesrvAddr, the addresses that it registers with.
    """

    setting: int
    name_servers: str
    topics: Mapping[str, bool]
    closed: tuple[str, ...]


async def read_setting(client: Client, broker: BrokerData) -> int:
    """Return a master's brokerPermission, PermName bits. Raises the errors of Client.ask()."""
    return _setting(broker, await read_settings(client, broker))


def _setting(broker: BrokerData, settings: MasterSettings) -> int:
    permission = own_permission(settings.values)
    if permission is None:
        raise RemoteProtocolError(f"{broker.broker_name} reports no valid {SETTING}: {settings.values.get(SETTING)!r}.")
    return permission


async def read_own_permission(client: Client, broker: BrokerData) -> OwnPermission:
    """Return a master's permission and that of its topics. Raises the errors of Client.ask()."""
    address = client.require_master(broker)
    settings = await read_settings(client, broker)
    setting = _setting(broker, settings)
    configs = bodies.decode_topic_configs((await client.ask(address, headers.get_all_topic_configs())).body)
    names = settings.values.get("namesrvAddr", "")
    return OwnPermission(setting, names, expected_writes(configs), tuple(closed_names(configs)))


async def read_route_permissions(
    client: Client, name_servers: Collection[str], broker_name: str, topics: Mapping[str, bool] | None
) -> Answers[str, RoutePermission]:
    """Return what each of these name servers permits for a broker's topics; for all topics that it lists if None.

    `topics`: whether each should permit writing.
    """

    async def ask(address: str) -> RoutePermission:
        expected = topics
        if expected is None:
            names = bodies.decode_topic_names((await client.ask(address, headers.get_all_topics())).body)
            expected = dict.fromkeys(names, True)
        routes = await ask_all(expected, lambda topic: client.route_at(address, topic))
        listed = [
            (expected[topic], data)
            for topic, route in all_or_failed(routes).items()
            if route is not None
            for data in route.queue_data
            if data.broker_name == broker_name
        ]
        return route_permission(listed)

    return await ask_all(name_servers, ask)


async def write_setting(client: Client, broker: BrokerData, setting: int) -> None:
    """Set brokerPermission at the master, which then registers its topics. May reach the broker twice."""
    await client.ask(client.require_master(broker), writes.update_broker_config({SETTING: str(setting)}))


async def write_routes(client: Client, broker_name: str, targets: Mapping[str, Any]) -> None:
    """Give or remove write permission at name servers, given by address. Raises an error if one of them fails."""

    async def ask(address: str) -> None:
        is_open = targets[address] == RoutePermission.READ_WRITE
        make = writes.add_write_permission if is_open else writes.wipe_write_permission
        await client.ask(address, make(broker_name))

    all_or_failed(await ask_all(targets, ask))
