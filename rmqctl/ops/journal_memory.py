"""What the journal remembers of a cluster: the brokers and queues that were changed, for when the cache has gone."""

from __future__ import annotations

from collections.abc import Collection

from rmqctl.model.cluster_memory import ClusterMemory, SeenBroker, SeenQueues
from rmqctl.model.topic import READ, WRITE

from .journal import Journal


def read_journal_memory(journal: Journal, name_servers: Collection[str], since_ms: int) -> ClusterMemory:
    """Return the brokers and queues that changes through any of these name servers were about since then.

    A queue count is at least what was changed. Raises what Journal raises.
    """
    brokers: dict[str, SeenBroker] = {}
    topics: dict[str, dict[str, SeenQueues]] = {}
    for label, broker_name, topic, last_queue_id, at_ms in journal.seen_queues(since_ms):
        cluster, _, servers = label.partition("@")
        if not set(servers.split(";")) & set(name_servers):
            continue
        seen = brokers.get(broker_name)
        if seen is None or seen.last_seen_ms < at_ms:
            brokers[broker_name] = SeenBroker(cluster, None, at_ms)
        known = topics.setdefault(topic, {}).get(broker_name)
        count = max(last_queue_id + 1, 0 if known is None else known.read_queue_count)
        topics[topic][broker_name] = SeenQueues(count, count, READ | WRITE, at_ms)
    return ClusterMemory(brokers, topics)
