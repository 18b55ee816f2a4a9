"""Read the tables that each broker has of all its topics, groups and stored offsets."""

from __future__ import annotations

from collections.abc import Mapping

from rmqctl.admin.results import Answers, ask_all
from rmqctl.client.core import Client
from rmqctl.model.cluster_memory import SeenQueues
from rmqctl.model.group import GroupConfig
from rmqctl.model.route import BrokerData
from rmqctl.model.topic import TopicConfig
from rmqctl.protocol import bodies, group_bodies, headers


def note_configs(client: Client, tables: Mapping[BrokerData, Mapping[str, TopicConfig]]) -> None:
    """Remember how many queues of each topic each broker has."""
    now_ms = client.clock.now_ms()
    for broker, table in tables.items():
        for topic, config in table.items():
            seen = SeenQueues(config.read_queue_count, config.write_queue_count, config.perm, now_ms)
            client.sightings.reported.setdefault(topic, {})[broker.broker_name] = seen


async def fetch_configs(client: Client, brokers: Mapping[str, BrokerData]) -> Answers[str, dict[str, GroupConfig]]:
    """Return every group's configuration, by broker and group.

    Reads the list of all groups, once per broker: the request for one group (GET_SUBSCRIPTIONGROUP_CONFIG) creates a
    group that does not exist.
    """
    return await ask_all(brokers, lambda name: fetch_configs_at(client, brokers[name]))


async def fetch_configs_at(client: Client, broker: BrokerData) -> dict[str, GroupConfig]:
    """Return the configuration of every group on a broker, read once. Raises the errors of Client.ask_broker()."""

    async def ask() -> dict[str, GroupConfig]:
        answer = await client.ask_broker(broker, headers.get_all_groups())
        return group_bodies.decode_groups(answer.command.body)

    return await client.once(("groups", broker.broker_name), ask)


async def fetch_all_offsets(client: Client, broker: BrokerData) -> Mapping[str, Mapping[str, Mapping[int, int]]]:
    """Return all groups' offsets on a broker, by group, topic and queue id; read once."""

    async def ask() -> Mapping[str, Mapping[str, Mapping[int, int]]]:
        answer = await client.ask_broker(broker, headers.get_all_consumer_offsets())
        return bodies.decode_consumer_offsets(answer.command.body).groups

    return await client.once(("all offsets", broker.broker_name), ask)


async def fetch_topic_configs(client: Client, broker: BrokerData) -> dict[str, TopicConfig]:
    """Return the configuration of every topic on a broker, read once. Raises the errors of Client.ask_broker()."""

    async def ask() -> dict[str, TopicConfig]:
        answer = await client.ask_broker(broker, headers.get_all_topic_configs())
        return bodies.decode_topic_configs(answer.command.body)

    return await client.once(("topics", broker.broker_name), ask)
