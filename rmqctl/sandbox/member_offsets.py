"""Offsets in the memory of a group's members: resets and queries (Broker2Client)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqctl.errors import RemoteProtocolError
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.flags import CommandFlag
from rmqctl.protocol.java_dumps import dumps
from rmqctl.protocol.java_json import ObjectMap, loads
from rmqctl.protocol.versions import version_name

from .broker import Broker
from .consume_stats import is_blank
from .members import Member
from .queue_times import search
from .relaying import ask_member
from .request import UNSET_REMARK, RefusalError, Request, ok

_TIMEOUT_S = 5.0
# MQVersion's ordinal of V3_0_7_SNAPSHOT: older clients support neither.
_SINCE = 28


def tell_members(broker: Broker, request: Request) -> Command:
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
            target = search(broker, topic_name, queue_id, time_ms)
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
        _require_version(member)
        channel.push(push)


async def members_offsets(broker: Broker, request: Request) -> Command:
    """Answer with the offsets in the memory of one client or all clients of a group, queried one after the other."""
    topic, group, wanted = request.text("topic", ""), request.text("group"), request.text("clientAddr", "")
    online = broker.consumers.find(group)
    if online is None:
        remark = f"java.lang.NullPointerException: group {group} has no members"
        raise RefusalError(ResponseCode.SYSTEM_ERROR, remark)
    table: dict[str, Any] = {}
    for channel, member in list(online.members.items()):
        _require_version(member)
        if not is_blank(wanted) and wanted != member.client_id:
            continue
        question = Command(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": topic, "group": group})
        answer = await ask_member(broker, channel, question, _TIMEOUT_S)
        if answer is not None and answer.code == ResponseCode.SUCCESS and answer.body:
            _take_offsets(table, member.client_id, answer.body)
        if not is_blank(wanted):
            break
    return ok(dumps({"consumerTable": table, "messageQueueTable": {}}), remark=UNSET_REMARK)


def _take_offsets(table: dict[str, Any], client_id: str, body: bytes) -> None:
    """Add the answer of a member; an unreadable answer is skipped."""
    try:
        offsets: dict[Any, Any] | ObjectMap = loads(body)["messageQueueTable"]
        table[client_id] = {
            MessageQueue(queue["topic"], queue["brokerName"], int(queue["queueId"])): int(offset)
            for queue, offset in offsets.items()
        }
    except (RemoteProtocolError, KeyError, TypeError, ValueError, AttributeError):
        return


def _require_version(member: Member) -> None:
    """Refuse a reset or an offset query for a client that is too old for both."""
    if member.version < _SINCE:
        remark = f"the client does not support this feature. version={version_name(member.version)}"
        raise RefusalError(ResponseCode.SYSTEM_ERROR, remark)
