"""Read the brokers' own tables of all groups, and queues that topics lost when their queue count was reduced.

Brokers keep the messages of such queues but do not list them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from rmqctl.admin.brokers.tables import fetch_all_offsets, fetch_configs_at, fetch_topic_configs
from rmqctl.admin.groups.rules.backlog import find_leftovers
from rmqctl.admin.messages.spans import fetch_span
from rmqctl.admin.results import Answers, ask_all
from rmqctl.client.core import Client
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupConfig
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.model.stats import TopicOffset
from rmqctl.model.topic import TopicConfig

# Queue id to stored offset, by topic.
Offsets = Mapping[str, Mapping[int, int]]


class GroupTables(Struct, frozen=True):
    """One broker's tables: groups with a configuration or an offset, and topics, None when they could not be read."""

    names: frozenset[str]
    configs: Mapping[str, GroupConfig]
    offsets: Mapping[str, Offsets]
    topics: Mapping[str, TopicConfig] | None


async def fetch_tables(client: Client, broker: BrokerData) -> tuple[GroupTables, Failure | None]:
    """Return a broker's tables, and the failure when its topics are missing."""
    configured, stored, topics = await asyncio.gather(
        fetch_configs_at(client, broker),
        fetch_all_offsets(client, broker),
        ask_all([broker], lambda broker: fetch_topic_configs(client, broker)),
    )
    tables = GroupTables(frozenset(configured) | frozenset(stored), configured, stored, topics.ok.get(broker))
    failed = [Failure(broker.broker_name, "configuration of topics", error) for error in topics.failed.values()]
    return tables, next(iter(failed), None)


async def fetch_removed_queues(
    client: Client, names: Sequence[str], tables: Mapping[BrokerData, GroupTables]
) -> Answers[MessageQueue, TopicOffset]:
    """Return queues for which the groups have offsets, but which their (existing) topics no longer have."""
    queues = {
        MessageQueue(topic, broker.broker_name, queue_id)
        for broker, table in tables.items()
        if table.topics is not None
        for name in names
        for topic, queue_id in find_leftovers(table.offsets.get(name, {}), table.topics)
        if topic in table.topics
    }
    return await fetch_removed_queue_ends(client, {broker.broker_name: broker for broker in tables}, sorted(queues))


async def fetch_removed_queue_ends(
    client: Client, brokers: Mapping[str, BrokerData], queues: Iterable[MessageQueue]
) -> Answers[MessageQueue, TopicOffset]:
    """Return the min and max offsets of queues of existing topics; both are 0 when the queue is empty."""

    async def ask(mq: MessageQueue) -> TopicOffset:
        span = await fetch_span(client, brokers[mq.broker_name], mq)
        return TopicOffset(span.min_offset, span.max_offset, None)

    return await ask_all(queues, ask)
