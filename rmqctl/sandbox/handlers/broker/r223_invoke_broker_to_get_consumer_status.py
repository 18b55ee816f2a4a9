"""INVOKE_BROKER_TO_GET_CONSUMER_STATUS: offsets in the memory of clients (AdminBrokerProcessor.getConsumerStatus)."""

from __future__ import annotations

from typing import Any

from rmqctl.errors import RemoteProtocolError
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.java_dumps import dumps
from rmqctl.protocol.java_json import ObjectMap, loads
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import UNSET_REMARK, RefusalError, Request, is_blank, ok

from .relay import ask_member, require_offsets_version

_TIMEOUT_S = 5.0


async def handle(broker: Broker, request: Request) -> Command:
    """Answer with the offsets in the memory of one client or all clients of a group, queried one after the other."""
    topic, group, wanted = request.text("topic", ""), request.text("group"), request.text("clientAddr", "")
    online = broker.consumers.find(group)
    if online is None:
        remark = f"java.lang.NullPointerException: group {group} has no members"
        raise RefusalError(ResponseCode.SYSTEM_ERROR, remark)
    table: dict[str, Any] = {}
    for channel, member in list(online.members.items()):
        require_offsets_version(member)
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
