"""Messages in queues that no consumer can read: JSON and sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.words import counted

from .listing import Item


def unreadable_items(unreadable: Mapping[MessageQueue, int]) -> list[dict[str, Any]]:
    """Make the JSON of queues that no consumer can read."""
    return [
        {"topic": mq.topic, "brokerName": mq.broker_name, "queueId": mq.queue_id, "messageCount": count}
        for mq, count in unreadable.items()
    ]


def unreadable_sentences(queues: Iterable[Item]) -> list[str]:
    """Return a sentence a topic about messages in queues that no consumer can read."""
    messages: Counter[str] = Counter()
    queue_counts: Counter[str] = Counter()
    for queue in queues:
        messages[queue["topic"]] += queue["messageCount"]
        queue_counts[queue["topic"]] += 1
    return [
        f"{counted(count, 'message')} of {topic} {'is' if count == 1 else 'are'} in "
        f"{counted(queue_counts[topic], 'queue')} that no consumer can read (readQueueNums)."
        for topic, count in messages.items()
    ]
