"""Messages in queues that no consumer can read: JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqctl.model.queue import MessageQueue


def unreadable_items(unreadable: Mapping[MessageQueue, int]) -> list[dict[str, Any]]:
    """Return queues that no consumer can read as JSON items."""
    return [
        {"topic": mq.topic, "brokerName": mq.broker_name, "queueId": mq.queue_id, "messageCount": count}
        for mq, count in unreadable.items()
    ]
