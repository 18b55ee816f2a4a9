"""VIEW_MESSAGE_BY_ID: the message at a place in the log (QueryMessageProcessor.viewMessageById)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import RefusalError, Request, ok


def handle(broker: Broker, request: Request) -> Command:
    """Return it, whatever its topic is."""
    offset = request.number("offset")
    message = broker.store.message_in_log(offset)
    if message is None:
        raise RefusalError(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
    return ok(message.record)
