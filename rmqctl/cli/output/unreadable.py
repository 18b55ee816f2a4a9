"""Messages in queues that no consumer can read: JSON and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.readable_queues import describe_unreadable


def unreadable_items(unreadable: Mapping[MessageQueue, int]) -> list[dict[str, Any]]:
    """Return queues that no consumer can read as JSON items."""
    return [
        {"topic": mq.topic, "brokerName": mq.broker_name, "queueId": mq.queue_id, "messageCount": count}
        for mq, count in unreadable.items()
    ]


def unreadable_sentences(unreadable: Mapping[MessageQueue, int]) -> list[str]:
    """Return a sentence per topic about messages in queues that no consumer can read."""
    by_topic: dict[str, list[tuple[int, int]]] = {}
    for mq, count in unreadable.items():
        by_topic.setdefault(mq.topic, []).append((mq.queue_id, count))
    return [
        describe_unreadable(topic, sum(count for _, count in queues), len(queues), max(queues)[0] + 1)
        for topic, queues in by_topic.items()
    ]
