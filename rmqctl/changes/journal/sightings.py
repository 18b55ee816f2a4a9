"""The brokers and queues that the changes of the journal reached: what is left when the cluster memory is lost."""

from __future__ import annotations

import sqlite3

import msgspec
from msgspec import Struct

from rmqctl.model.cluster_memory import ClusterMemory, SeenBroker, SeenQueues
from rmqctl.model.receipt import Result
from rmqctl.model.topic import READ, WRITE
from rmqctl.net.address import canonical_address

from .file import JournalFile

# Older changes are not looked at: a sighting counts for a day.
_MOST_CHANGES = 1_000


class _Plan(Struct, rename="camel"):
    name_servers: tuple[str, ...] = ()


def read_sightings(name_server: str) -> ClusterMemory:
    """Return what the changes of this machine saw of a name server's cluster, each broker and queue when last changed.

    A queue that a change did not attempt may have been missing, and does not count. Raises what Journal raises.
    """
    wanted = canonical_address(name_server)
    brokers: dict[str, SeenBroker] = {}
    topics: dict[str, dict[str, SeenQueues]] = {}
    file = JournalFile(None)
    try:
        with file.transaction() as connection:
            for row in _changes(connection):
                at = msgspec.json.decode(row["text"], type=_Plan).name_servers
                if wanted not in map(canonical_address, at):
                    continue
                addresses = msgspec.json.decode(row["brokers"], type=dict[str, str])
                for item in _attempted(connection, row["number"]):
                    name, at_ms = item["broker_name"], row["at_ms"]
                    # The newest change is read first.
                    brokers.setdefault(name, SeenBroker(row["cluster"].partition("@")[0], addresses.get(name), at_ms))
                    if item["topic"] is not None:
                        seen = topics.setdefault(item["topic"], {}).get(name)
                        count = max(item["queue_count"], 0 if seen is None else seen.read_queue_count)
                        last_ms = at_ms if seen is None else seen.last_seen_ms
                        topics[item["topic"]][name] = SeenQueues(count, count, READ | WRITE, last_ms)
    finally:
        file.close()
    return ClusterMemory(brokers, topics)


def _changes(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    query = (
        "SELECT number, cluster, brokers, coalesce(attempted_at_ms, started_at_ms) AS at_ms, plans.text FROM changes "
        "JOIN plans ON plans.change = changes.number ORDER BY number DESC LIMIT ?"
    )
    return connection.execute(query, (_MOST_CHANGES,)).fetchall()


def _attempted(connection: sqlite3.Connection, number: int) -> list[sqlite3.Row]:
    query = (
        "SELECT broker_name, topic, max(queue_id) + 1 AS queue_count FROM items "
        "WHERE change = ? AND result != ? GROUP BY broker_name, topic"
    )
    return connection.execute(query, (number, Result.NOT_ATTEMPTED.value)).fetchall()
