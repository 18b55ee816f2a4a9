"""What a cluster's servers hold, to see whether a read left a trace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Any

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.client.core import Client
from rmqctl.protocol import bodies, group_bodies, headers

# Which 4.9 brokers make for themselves, up to a minute after their start.
_LATE = frozenset({"RMQ_SYS_TRANS_HALF_TOPIC"})


def held_when_quiet(namesrv: str, groups: Collection[str] = ()) -> dict[str, Any]:
    """Return what held() does once nothing moves on its own any more: registrations, offsets of members that left."""
    found = held(namesrv, groups)
    for _ in range(20):
        time.sleep(1)
        before, found = found, held(namesrv, groups)
        if before == found:
            break
    return found


def held(namesrv: str, groups: Collection[str] = ()) -> dict[str, Any]:
    """Return topics and groups with their configurations, which group has offsets of which topic, and where.

    The offsets themselves only of the named groups: those of others move late, when brokers flush what popping clients
    have acknowledged.
    """
    return asyncio.run(_held(namesrv, groups))


async def _held(namesrv: str, groups: Collection[str]) -> dict[str, Any]:
    async with Client([namesrv]) as client:
        cluster = await fetch_cluster(client)
        names = await client.ask_name_server(headers.get_all_topics())
        found: dict[str, Any] = {"names": [name for name in bodies.decode_topic_names(names.body) if name not in _LATE]}
        for broker in cluster.brokers:
            topics = await client.ask_broker(broker, headers.get_all_topic_configs())
            configs = await client.ask_broker(broker, headers.get_all_groups())
            offsets = await client.ask_broker(broker, headers.get_all_consumer_offsets())
            stored = bodies.decode_consumer_offsets(offsets.command.body).groups
            found[f"topics of {broker.broker_name}"] = {
                name: config
                for name, config in bodies.decode_topic_configs(topics.command.body).items()
                if name not in _LATE
            }
            found[f"groups of {broker.broker_name}"] = group_bodies.decode_groups(configs.command.body)
            found[f"offsets of {broker.broker_name}"] = {
                (group, topic): queues if group in groups else sorted(queues)
                for group, by_topic in stored.items()
                for topic, queues in by_topic.items()
            }
        return found
