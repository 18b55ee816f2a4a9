"""Record the topics in the brokers' own tables for the memory of the cluster."""

from __future__ import annotations

from collections.abc import Mapping

from rmqctl.client.core import Client
from rmqctl.model.cluster_memory import SeenQueues
from rmqctl.model.route import Broker
from rmqctl.model.topic import TopicConfig


def note_configs(client: Client, tables: Mapping[Broker, Mapping[str, TopicConfig]]) -> None:
    """Remember how many queues of each topic each broker has."""
    now_ms = client.clock.now_ms()
    for broker, table in tables.items():
        for topic, config in table.items():
            seen = SeenQueues(config.read_queue_count, config.write_queue_count, config.perm, now_ms)
            client.sightings.told.setdefault(topic, {})[broker.broker_name] = seen
