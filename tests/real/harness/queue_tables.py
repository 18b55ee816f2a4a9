"""What brokers say of queues, read without mqadmin, which can take seconds; waiting until it is so."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.java_json import loads

from .cluster import Reachable
from .mqadmin import ProgressRow


def wait_until(ready: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    """Poll until it is so."""
    give_up_at = time.monotonic() + timeout_s
    while not ready():
        assert time.monotonic() < give_up_at, f"waited {timeout_s} s for {what}"
        time.sleep(0.1)


def progress(cluster: Reachable, group: str, topic: str) -> list[ProgressRow]:
    """Return how far a group is in each queue of a topic, as the brokers say."""
    rows = []
    for queue, entry in _ask_all(cluster, RequestCode.GET_CONSUME_STATS, consumerGroup=group, topic=topic):
        end, offset = entry["brokerOffset"], entry["consumerOffset"]
        rows.append(ProgressRow(topic, queue["brokerName"], queue["queueId"], end, offset, end - offset))
    return sorted(rows)


def wait_stored(cluster: Reachable, consumer_ids: str, group: str, topic: str) -> None:
    """Wait until brokers have the offsets of consumers (blank-separated) that are through with a topic.

    A client that is stopped right after its last message may store the offset of the one before.
    """

    def is_stored() -> bool:
        for consumer_id in consumer_ids.split():
            cluster.java.persist(consumer_id)
        return sum(row.diff for row in progress(cluster, group, topic)) == 0

    wait_until(is_stored, "the offsets")


def topic_status(cluster: Reachable, topic: str) -> list[tuple[str, int, int, int]]:
    """Return broker, queue id, smallest and next offset of each queue of a topic."""
    return sorted(
        (queue["brokerName"], queue["queueId"], entry["minOffset"], entry["maxOffset"])
        for queue, entry in _ask_all(cluster, RequestCode.GET_TOPIC_STATS_INFO, topic=topic)
    )


def _ask_all(cluster: Reachable, code: int, **fields: object) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Ask all brokers for a table of queues; return its entries."""
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for name in cluster.addresses:
        with closing(cluster.asker(name)) as asker:
            answer = asker("broker", code, **fields)
        if answer is not None and answer.code == 0:
            found += loads(answer.body)["offsetTable"].items()
    return found
