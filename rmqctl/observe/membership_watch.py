"""Watch which members groups have over a period of time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping

from rmqctl.admin.groups.members import fetch_connections
from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.model.route import BrokerData
from rmqctl.net.clock import pause

# Brokers notice a closed connection immediately. In less time than this no member joins and leaves twice.
LEAST_S = 10.0
_INTERVAL_S = 2.0


async def watch_membership(
    client: Client, groups: Collection[str], brokers: Iterable[BrokerData], for_s: float
) -> dict[str, list[frozenset[str]]]:
    """Return by group the client ids on all brokers, sampled every 2 s; no samples when `for_s` is below LEAST_S.

    Samples for which not all brokers answered are left out.
    """
    seen: dict[str, list[frozenset[str]]] = {group: [] for group in groups}
    places = [(group, broker) for group in groups for broker in brokers]
    until_s = client.clock.monotonic_s() + for_s
    while for_s >= LEAST_S and places and (left_s := until_s - client.clock.monotonic_s()) > 0:
        _, found = await asyncio.gather(
            pause(client.clock, min(_INTERVAL_S, left_s)), ask_all(places, lambda place: _ask(client, *place))
        )
        silent = {group for group, _ in found.failed}
        for group in seen.keys() - silent:
            seen[group].append(_union(found.ok, group))
    return seen


async def _ask(client: Client, group: str, broker: BrokerData) -> frozenset[str]:
    connected = await fetch_connections(client, broker, group)
    return frozenset() if connected is None else frozenset(member.client_id for member in connected.members)


def _union(found: Mapping[tuple[str, BrokerData], frozenset[str]], group: str) -> frozenset[str]:
    return frozenset().union(*(ids for (name, _), ids in found.items() if name == group))
