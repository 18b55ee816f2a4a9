"""A message queue of a topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class MessageQueue(NamedTuple):
    """One queue: (topic, broker name, queue id), ordered like RocketMQ's MessageQueue.compareTo."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"


def queues_by_broker(mqs: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    """Return queues by the name of their broker, both in their first order."""
    found: dict[str, list[MessageQueue]] = {}
    for mq in mqs:
        found.setdefault(mq.broker_name, []).append(mq)
    return found
