"""QUERY_CONSUME_TIME_SPAN: the age of a group's next messages (AdminBrokerProcessor.queryConsumeTimeSpan)."""

from __future__ import annotations

from datetime import UTC, datetime

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok_json


def handle(broker: Broker, request: Request) -> Command:
    """Return for each queue the times of its messages and the delay of a group.

    As in RocketMQ, a message that does not exist has the time -1. With no committed offset for a queue, the delay is
    the whole time since 1970.
    """
    topic, group = broker.topics.require(request.text("topic")), request.text("group", "null")
    spans = []
    for queue_id in range(topic.write_queue_count):
        low, high = broker.store.min_offset(topic.name, queue_id), broker.store.max_offset(topic.name, queue_id)
        stored = broker.offsets.find(group, topic.name, queue_id)
        offset = -1 if stored is None else stored
        oldest_ms = broker.store.stored_at_ms(topic.name, queue_id, low)
        newest_ms = broker.store.stored_at_ms(topic.name, queue_id, high - 1)
        consumed_ms = broker.store.stored_at_ms(topic.name, queue_id, offset - 1) if offset > 0 else oldest_ms
        next_ms = broker.store.stored_at_ms(topic.name, queue_id, offset)
        spans.append({
            "messageQueue": broker.queue(topic.name, queue_id),
            "minTimeStamp": oldest_ms, "minTimeStampStr": _time_text(oldest_ms),
            "maxTimeStamp": newest_ms, "maxTimeStampStr": _time_text(newest_ms),
            "consumeTimeStamp": consumed_ms, "consumeTimeStampStr": _time_text(consumed_ms),
            "delayTime": broker.now_ms() - next_ms if offset < high else 0,
        })  # fmt: skip
    return ok_json({"consumeTimeSpanSet": spans})


def _time_text(time_ms: int) -> str:
    """Format a time in the machine's time zone, as RocketMQ does (UtilAll.timeMillisToHumanString2)."""
    at = datetime.fromtimestamp(time_ms // 1000, UTC).astimezone()
    return f"{at:%Y-%m-%d#%H:%M:%S}:{time_ms % 1000:03d}"
