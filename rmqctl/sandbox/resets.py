"""Resets, clones and corrections of offsets (AdminBrokerProcessor, ConsumerOffsetManager)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command

from .broker import Broker
from .consume_stats import consumed_topics, is_blank
from .queue_times import search
from .request import RefusalError, Request, ok_json
from .topics import Topic

_NO_OFFSET = -1
_LONG_MAX = 2**63 - 1


def reset_here(broker: Broker, request: Request) -> Command:
    """Reset a group's offsets of a topic: store them, and mark them for the next pull. Ignores `isForce`."""
    topic_name, group = request.text("topic"), request.text("group", "null")
    topic = broker.topics.find(topic_name)
    if topic is None:
        raise RefusalError(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic_name} does not exist")
    if broker.groups.find(group) is None:
        raise RefusalError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} does not exist")
    targets = _targets(broker, request, topic)
    if not targets:
        raise RefusalError(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
    for queue_id, offset in targets.items():
        broker.offsets.reset(group, topic_name, queue_id, offset)
        broker.pop.forget_queue(topic_name, group, queue_id)
    return ok_json({"offsetTable": {broker.queue(topic_name, queue_id): targets[queue_id] for queue_id in targets}})


def _targets(broker: Broker, request: Request, topic: Topic) -> dict[int, int]:
    """Return the target of each queue: one queue, which the topic may not have, or all readable queues."""
    time_ms, queue_id = request.number("timestamp", 0), request.number("queueId", -1)
    offset = request.number("offset", _NO_OFFSET)
    if queue_id < 0:
        return {number: _at_time(broker, topic.name, number, time_ms) for number in range(topic.read_queue_count)}
    if offset == _NO_OFFSET:
        return {queue_id: _at_time(broker, topic.name, queue_id, time_ms)}
    low, high = broker.store.min_offset(topic.name, queue_id), broker.store.max_offset(topic.name, queue_id)
    if not low <= offset <= high + 1:
        remark = f"Target offset {offset} not in consume queue range [{low}-{high}]"
        raise RefusalError(ResponseCode.SYSTEM_ERROR, remark)
    return {queue_id: offset}


def _at_time(broker: Broker, topic: str, queue_id: int, time_ms: int) -> int:
    """Return the offset of a time in ms; a negative time means the end of the queue."""
    return broker.store.max_offset(topic, queue_id) if time_ms < 0 else search(broker, topic, queue_id, time_ms)


def clone(broker: Broker, source: str, target: str, topic: str, *, is_offline: bool) -> None:
    """Replace a group's offsets of a topic with another's (cloneGroupOffset).

    RocketMQ answers SUCCESS in any case. It skips a topic that does not exist, or to which an online source does not
    subscribe. Without a topic it clones nothing: it loops over the source's topics, and clones the empty one each time.
    """
    if is_blank(topic) or broker.topics.find(topic) is None:
        return
    if not is_offline and not consumed_topics(broker, source, [topic]):
        return
    broker.offsets.clone(source, target, topic)


def correction(broker: Broker, topic: str, compared: str, dropped: str) -> dict[int, int]:
    """Return each queue's smallest offset over all groups that is still stored (queryCorrectionOffset).

    It is Long.MAX_VALUE where the compared group's offset is even smaller. As in RocketMQ, the dropped groups lose
    their offsets of all topics for good; and 4.9 confuses topic and group, so that it compares nothing.
    """
    for group in dropped.split(","):
        if group:
            broker.offsets.delete(group=group)
    smallest: dict[int, int] = {}
    for (stored_topic, _), queues in broker.offsets.stored.items():
        if stored_topic != topic:
            continue
        for queue_id, offset in queues.items():
            if offset >= broker.store.min_offset(topic, queue_id):
                smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
    key = (topic, compared) if broker.profile.is_5 else (compared, topic)
    for queue_id, offset in broker.offsets.stored.get(key, {}).items():
        if queue_id not in smallest:
            remark = f"java.lang.NullPointerException: no group has an offset of queue {queue_id}"
            raise RefusalError(ResponseCode.SYSTEM_ERROR, remark)
        if smallest[queue_id] > offset:
            smallest[queue_id] = _LONG_MAX
    return smallest
