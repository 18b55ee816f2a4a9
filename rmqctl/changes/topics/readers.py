"""Who reads a topic at some brokers, and how far: what a deletion would take from them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from rmqctl.admin.brokers.tables import fetch_all_offsets
from rmqctl.admin.groups.members import fetch_connections
from rmqctl.admin.results import ask_all
from rmqctl.admin.topics.stats import fetch_queue_offsets, fetch_topic_groups
from rmqctl.client.core import Client
from rmqctl.client.stored_offsets import by_queue
from rmqctl.errors import RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.names import is_system_group
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.model.stats import TopicOffset


class TopicUse(Struct, frozen=True):
    """A topic's queues at some brokers, and the offsets of the groups that read them, by group.

    A group without an offset is there, too, when its members subscribe to the topic. `online` are the groups with such
    members. `failures` are what could not be read: there may be more of everything.
    """

    queues: Mapping[MessageQueue, TopicOffset]
    groups: Mapping[str, Mapping[MessageQueue, int]]
    online: frozenset[str]
    failures: tuple[Failure, ...]


async def read_use(client: Client, topic: str, brokers: Mapping[str, BrokerData]) -> TopicUse:
    """Read who uses a topic at these brokers."""
    bounds, (groups, failures), connected = await asyncio.gather(
        ask_all(brokers, lambda name: fetch_queue_offsets(client, brokers[name], topic)),
        read_offsets(client, topic, brokers),
        ask_all(brokers, lambda name: fetch_topic_groups(client, brokers[name], topic)),
    )
    for group in {group for names in connected.ok.values() for group in names if not is_system_group(group)}:
        groups.setdefault(group, {})
    places = [(group, name) for group in groups for name in brokers]
    subscribed = await ask_all(places, lambda place: _has_readers(client, brokers[place[1]], place[0], topic))
    unseen: dict[str, RmqctlError] = {}
    for (_, name), error in subscribed.failed.items():
        unseen.setdefault(name, error)
    return TopicUse(
        queues={
            MessageQueue(topic, name, queue_id): offsets
            for name, queues in bounds.ok.items()
            for queue_id, offsets in queues.items()
        },
        groups=dict(sorted(groups.items())),
        online=frozenset(group for (group, _), has in subscribed.ok.items() if has),
        failures=(
            *(Failure(name, f"messages of {topic}", error) for name, error in bounds.failed.items()),
            *failures,
            *(Failure(name, f"groups of {topic}", error) for name, error in connected.failed.items()),
            *(Failure(name, f"members that read {topic}", error) for name, error in unseen.items()),
        ),
    )


async def read_offsets(
    client: Client, topic: str, brokers: Mapping[str, BrokerData]
) -> tuple[dict[str, dict[MessageQueue, int]], list[Failure]]:
    """Return the offsets that groups have stored of a topic at these brokers, by group, and what could not be read."""
    tables = await ask_all(brokers, lambda name: fetch_all_offsets(client, brokers[name]))
    groups: dict[str, dict[MessageQueue, int]] = {}
    for name, table in tables.ok.items():
        for group, topics in table.items():
            if topic in topics and not is_system_group(group):
                groups.setdefault(group, {}).update(by_queue(name, {topic: topics[topic]}))
    return groups, [Failure(name, "stored offsets", error) for name, error in tables.failed.items()]


async def _has_readers(client: Client, broker: BrokerData, group: str, topic: str) -> bool:
    found = await fetch_connections(client, broker, group)
    return found is not None and bool(found.members) and topic in found.subscriptions
