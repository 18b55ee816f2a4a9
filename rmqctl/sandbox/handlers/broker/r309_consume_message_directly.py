"""CONSUME_MESSAGE_DIRECTLY: let a client consume one message (AdminBrokerProcessor.consumeMessageDirectly)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.message_id import decode_offset_id
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import RefusalError, Request

from .relay import relay


async def handle(broker: Broker, request: Request) -> Command | None:
    """Forward the request with the message, and return the client's answer; nothing is committed."""
    record = _record(broker, request.text("msgId"))
    fields = {**request.fields, "brokerName": broker.name}
    if broker.profile.is_5:
        _add_system_flags(broker, request, fields)
    return await relay(broker, request, fields, record)


def _record(broker: Broker, offset_id: str) -> bytes:
    """Return the stored message of an id; the broker in the id is ignored."""
    try:
        commit_log_offset = decode_offset_id(offset_id).commit_log_offset
    except ValueError as error:
        remark = f"java.nio.BufferUnderflowException: {error}"
        raise RefusalError(ResponseCode.SYSTEM_ERROR, remark) from None
    message = broker.store.message_in_log(commit_log_offset)
    if message is None:
        remark = f"java.lang.NullPointerException: no message starts at {commit_log_offset}"
        raise RefusalError(ResponseCode.SYSTEM_ERROR, remark)
    return message.record


def _add_system_flags(broker: Broker, request: Request, fields: dict[str, str]) -> None:
    topic = broker.topics.find(request.text("topic", ""))
    if topic is not None:
        fields["topicSysFlag"] = str(topic.sys_flag)
    group = request.text("consumerGroup", "")
    config = broker.groups.find_or_create(group) if group else None
    if config is not None:
        fields["groupSysFlag"] = str(config["groupSysFlag"])
