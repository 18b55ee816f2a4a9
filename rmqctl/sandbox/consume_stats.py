"""Progress of groups per queue, and the times of the next messages (ConsumeStats, QueueTimeSpan)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rmqctl.model.queue import MessageQueue

from .broker import Broker
from .topics import Topic

Table = dict[MessageQueue, dict[str, int]]


def is_blank(text: str | None) -> bool:
    """Return whether a field is missing or blank (UtilAll.isBlank)."""
    return text is None or not text.strip()


def consumed_topics(broker: Broker, group: str, topics: Iterable[str]) -> list[str]:
    """Return the topics that a group consumes: all for an offline group, only its subscriptions when it is online."""
    online = broker.consumers.find(group)
    if online is None or not online.subscriptions:
        return list(topics)
    return [topic for topic in topics if broker.consumers.find_subscription(group, topic) is not None]


def consume_stats(broker: Broker, group: str, topics: Iterable[str]) -> dict[str, Any]:
    """Return the progress of a group in topics; topics that do not exist are omitted."""
    table: Table = {}
    tps = 0.0
    for name in topics:
        topic = broker.topics.find(name)
        if topic is None:
            continue
        for queue_id in range(topic.read_queue_count):
            entry = _progress(broker, group, name, queue_id)
            if broker.profile.is_5:
                pulled = broker.offsets.pull_offset(group, name, queue_id)
                entry["pullOffset"] = max(entry["consumerOffset"], -1 if pulled is None else pulled)
            table[broker.queue(name, queue_id)] = entry
        tps += broker.stats.rate("GROUP_GET_NUMS", f"{name}@{group}").tps
    return {"consumeTps": tps, "offsetTable": table}


def broker_consume_stats(broker: Broker, *, ordered_only: bool) -> dict[str, Any]:
    """Return the progress of all groups, one element per topic (fetchAllConsumeStatsInBroker).

    Pull offsets are not filled in, so the total in flight is negative, as in RocketMQ.
    """
    by_group: list[dict[str, Any]] = []
    total_diff = total_in_flight = 0
    for group in list(broker.groups.groups):
        parts = []
        for name in consumed_topics(broker, group, broker.offsets.topics_of(group)):
            topic = broker.topics.find(name)
            if topic is None or (ordered_only and not topic.is_ordered):
                continue
            table = _topic_progress(broker, group, topic)
            total_diff += sum(entry["brokerOffset"] - entry["consumerOffset"] for entry in table.values())
            total_in_flight -= sum(entry["consumerOffset"] for entry in table.values())
            tps = broker.stats.rate("GROUP_GET_NUMS", f"{name}@{group}").tps
            parts.append({"consumeTps": tps, "offsetTable": table})
        by_group.append({group: parts})
    whole = {"brokerAddr": broker.address, "consumeStatsList": by_group, "totalDiff": total_diff}
    return {**whole, "totalInflightDiff": total_in_flight} if broker.profile.is_5 else whole


def _topic_progress(broker: Broker, group: str, topic: Topic) -> Table:
    table: Table = {}
    for queue_id in range(topic.write_queue_count):
        entry = table[broker.queue(topic.name, queue_id)] = _progress(broker, group, topic.name, queue_id)
        if broker.profile.is_5:
            entry["pullOffset"] = 0
    return table


def _progress(broker: Broker, group: str, topic: str, queue_id: int) -> dict[str, int]:
    """Return the progress in one queue. A missing committed offset counts as 0."""
    offset = max(0, broker.offsets.find(group, topic, queue_id) or 0)
    return {
        "brokerOffset": broker.store.max_offset(topic, queue_id),
        "consumerOffset": offset,
        "lastTimestamp": max(0, stored_at_ms(broker, topic, queue_id, offset - 1)),
    }


def stored_at_ms(broker: Broker, topic: str, queue_id: int, offset: int) -> int:
    """Return when a message was stored, epoch ms; -1 when the message does not exist."""
    queue = broker.store.find_queue(topic, queue_id)
    entry = None if queue is None else queue.entry(offset)
    return -1 if entry is None else entry.stored_at_ms


def time_spans(broker: Broker, group: str, topic: Topic) -> list[dict[str, Any]]:
    """Return for each queue the times of its messages and the delay of a group (queryConsumeTimeSpan).

    As in RocketMQ, a message that does not exist has the time -1. With no committed offset for a queue, the delay is
    the whole time since 1970.
    """
    spans = []
    for queue_id in range(topic.write_queue_count):
        low, high = broker.store.min_offset(topic.name, queue_id), broker.store.max_offset(topic.name, queue_id)
        stored = broker.offsets.find(group, topic.name, queue_id)
        offset = -1 if stored is None else stored
        oldest_ms = stored_at_ms(broker, topic.name, queue_id, low)
        newest_ms = stored_at_ms(broker, topic.name, queue_id, high - 1)
        consumed_ms = stored_at_ms(broker, topic.name, queue_id, offset - 1) if offset > 0 else oldest_ms
        next_ms = stored_at_ms(broker, topic.name, queue_id, offset)
        spans.append({
            "messageQueue": broker.queue(topic.name, queue_id),
            "minTimeStamp": oldest_ms, "minTimeStampStr": _time_text(oldest_ms),
            "maxTimeStamp": newest_ms, "maxTimeStampStr": _time_text(newest_ms),
            "consumeTimeStamp": consumed_ms, "consumeTimeStampStr": _time_text(consumed_ms),
            "delayTime": broker.now_ms() - next_ms if offset < high else 0,
        })  # fmt: skip
    return spans


def _time_text(time_ms: int) -> str:
    """Format a time in the machine's time zone, as RocketMQ does (UtilAll.timeMillisToHumanString2)."""
    at = datetime.fromtimestamp(time_ms // 1000, UTC).astimezone()
    return f"{at:%Y-%m-%d#%H:%M:%S}:{time_ms % 1000:03d}"


def topic_stats(broker: Broker, topic: Topic) -> dict[str, Any]:
    """Return the offsets of a topic per queue (TopicStatsTable)."""
    table = {}
    for queue_id in range(max(topic.read_queue_count, topic.write_queue_count)):
        high = broker.store.max_offset(topic.name, queue_id)
        table[broker.queue(topic.name, queue_id)] = {
            "lastUpdateTimestamp": stored_at_ms(broker, topic.name, queue_id, high - 1) if high > 0 else 0,
            "maxOffset": high,
            "minOffset": broker.store.min_offset(topic.name, queue_id),
        }
    if not broker.profile.is_5:
        return {"offsetTable": table}
    return {"offsetTable": table, "topicPutTps": broker.stats.rate("TOPIC_PUT_NUMS", topic.name).tps}
