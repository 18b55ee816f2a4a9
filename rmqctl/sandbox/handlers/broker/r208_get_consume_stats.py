"""GET_CONSUME_STATS: a group's progress (AdminBrokerProcessor.getConsumeStats)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, is_blank, ok_json


def handle(broker: Broker, request: Request) -> Command:
    """Return a table by queue: of the listed topics, or of one topic, or of all topics with stored offsets.

    4.9 ignores the list, and treats a missing group as one without offsets.
    """
    is_5 = broker.profile.is_5
    group = request.text("consumerGroup") if is_5 else request.text("consumerGroup", "")
    topic, listed = request.text("topic", ""), request.text("topicList", "") if is_5 else ""
    if not is_blank(listed):
        # In this case the group's subscriptions are ignored.
        return ok_json(_consume_stats(broker, group, sorted({name for name in listed.split(";") if name})))
    topics = broker.offsets.topics_of(group) if is_blank(topic) else [topic]
    return ok_json(_consume_stats(broker, group, broker.consumers.consumed_topics(group, topics)))


def _consume_stats(broker: Broker, group: str, topics: Iterable[str]) -> dict[str, Any]:
    """Return the progress of a group in topics; topics that do not exist are omitted."""
    table: dict[MessageQueue, dict[str, int]] = {}
    tps = 0.0
    for name in topics:
        topic = broker.topics.find(name)
        if topic is None:
            continue
        for queue_id in range(topic.read_queue_count):
            entry = queue_progress(broker, group, name, queue_id)
            if broker.profile.is_5:
                pulled = broker.offsets.pull_offset(group, name, queue_id)
                entry["pullOffset"] = max(entry["consumerOffset"], -1 if pulled is None else pulled)
            table[broker.queue(name, queue_id)] = entry
        tps += broker.stats.rate("GROUP_GET_NUMS", f"{name}@{group}").tps
    return {"consumeTps": tps, "offsetTable": table}


def queue_progress(broker: Broker, group: str, topic: str, queue_id: int) -> dict[str, int]:
    """Return the progress in one queue. A missing committed offset counts as 0."""
    offset = max(0, broker.offsets.find(group, topic, queue_id) or 0)
    return {
        "brokerOffset": broker.store.max_offset(topic, queue_id),
        "consumerOffset": offset,
        "lastTimestamp": max(0, broker.store.stored_at_ms(topic, queue_id, offset - 1)),
    }
