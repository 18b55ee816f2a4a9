"""What several scenes do: send to each queue, wait until members and offsets have settled, note a time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime

from tests.real.docs_stage import Stage
from tests.real.harness.conditions import wait_until


def send_to_each(stage: Stage, topic: str, count: int, queue_ids: Iterable[int] = range(2), **options: str) -> None:
    """Send count messages to each of these queues at every broker; {queue} in an option is its short name, as a0."""
    for name in stage.cluster.brokers:
        for queue_id in queue_ids:
            own = {key: value.format(queue=f"{name[-1]}{queue_id}") for key, value in options.items()}
            stage.cluster.java.produce(topic, count, queue=f"{name}:{queue_id}", **own)


def wait_shared(stage: Stage, group: str, topic: str, queue_count: int, *members: str, retry_count: int = 2) -> None:
    """Wait until the members share all queues of a topic evenly, and those to retry from, none of them held twice."""
    java = stage.cluster.java

    def is_shared() -> bool:
        for member in members:
            java.call("rebalance", id=member)
        held = [java.queues(member, topic) for member in members]
        retries = [java.queues(member, f"%RETRY%{group}") for member in members] if retry_count else []
        sizes = sorted(map(len, held))
        return (
            sum(sizes) == len(set().union(*held)) == queue_count
            and sizes[-1] - sizes[0] <= 1
            and sum(map(len, retries)) == len(set().union(*retries)) == retry_count
        )

    wait_until(is_shared)


def wait_found(stage: Stage, code: str, group: str) -> None:
    """Wait until a finding is there, such as a message that has been in hand for a minute."""
    wait_until(lambda: code in stage.run(f"rmqctl diagnose {group} --only {code} --settle 0s")[1], timeout_s=150)


def letter_count(stage: Stage, group: str) -> int:
    """Return how many dead letters a group has."""
    return sum(item["count"] for item in json.loads(stage.run(f"rmqctl dlq list {group} -o json")[1])["items"])


def mark_time(stage: Stage) -> None:
    """Make now the scene's time; no message has been stored in this millisecond, or will be."""
    time.sleep(0.01)
    stage.time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    time.sleep(0.01)
