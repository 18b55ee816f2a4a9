"""INVOKE_BROKER_TO_RESET_OFFSET: move a group to a time or an offset (AdminBrokerProcessor.resetOffset)."""

from __future__ import annotations

from collections.abc import Mapping

from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.flags import CommandFlag
from rmqctl.protocol.java_dumps import dumps
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import UNSET_REMARK, RefusalError, Request, ok, ok_json
from rmqctl.sandbox.storage.time_search import search
from rmqctl.sandbox.topics.table import Topic

from .relay import require_offsets_version

_NO_OFFSET = -1


def handle(broker: Broker, request: Request) -> Command:
    """Return the target of each queue. Without useServerSideResetOffset (since 5.x), members reset themselves."""
    if broker.settings.flag("useServerSideResetOffset"):
        return _reset_here(broker, request)
    return _push_to_members(broker, request)


def _reset_here(broker: Broker, request: Request) -> Command:
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
    return broker.store.max_offset(topic, queue_id) if time_ms < 0 else _search(broker, topic, queue_id, time_ms)


def _search(broker: Broker, topic: str, queue_id: int, time_ms: int) -> int:
    return search(broker.store.find_queue(topic, queue_id), time_ms, is_5=broker.profile.is_5)


def _push_to_members(broker: Broker, request: Request) -> Command:
    """Push new offsets to all members. The broker stores nothing: each member commits them once it has applied them."""
    topic_name, group = request.text("topic"), request.text("group", "null")
    topic = broker.topics.find(topic_name)
    if topic is None:
        code = ResponseCode.TOPIC_NOT_EXIST if broker.profile.is_5 else ResponseCode.SYSTEM_ERROR
        raise RefusalError(code, f"[reset-offset] reset offset failed, no topic in this broker. topic={topic_name}")
    time_ms, is_forced = request.number("timestamp", 0), request.flag("isForce")
    targets = {}
    for queue_id in range(topic.write_queue_count):
        stored = broker.offsets.find(group, topic_name, queue_id)
        if stored is None or stored == -1:
            raise RefusalError(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{group}> not exist")
        if time_ms == -1:
            target = broker.store.max_offset(topic_name, queue_id)
        else:
            target = _search(broker, topic_name, queue_id, time_ms)
        targets[broker.queue(topic_name, queue_id)] = target if is_forced else min(target, stored)
    _push(broker, group, topic_name, time_ms, _body(request, targets))
    return ok(dumps({"offsetTable": targets}), remark=UNSET_REMARK)


def _body(request: Request, targets: Mapping[MessageQueue, int]) -> bytes:
    """Return the body for the members. A C++ caller gets a list, which Java members cannot read."""
    if request.command.language != "CPP":
        return dumps({"offsetTable": targets})
    listed = [
        {"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id, "offset": offset}
        for queue, offset in targets.items()
    ]
    return dumps({"offsetTable": listed})


def _push(broker: Broker, group: str, topic: str, time_ms: int, body: bytes) -> None:
    """Push to the members one by one. A client that is too old stops this; the members before it keep their push."""
    online = broker.consumers.find(group)
    if online is None:
        remark = f"Consumer not online, so can not reset offset, Group: {group} Topic: {topic} Timestamp: {time_ms}"
        raise RefusalError(ResponseCode.CONSUMER_NOT_ONLINE, remark)
    fields = {"topic": topic, "group": group, "timestamp": str(time_ms), "isForce": "false"}
    if broker.profile.is_5:
        fields["queueId"] = "-1"
    push = Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body, flag=CommandFlag.ONEWAY)
    for channel, member in online.members.items():
        require_offsets_version(member)
        channel.push(push)
