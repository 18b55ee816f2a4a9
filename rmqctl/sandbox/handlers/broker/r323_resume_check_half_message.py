"""RESUME_CHECK_HALF_MESSAGE: check a given-up half message again (AdminBrokerProcessor.resumeCheckHalfMessage)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.message_id import decode_offset_id
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import RefusalError, Request, ok
from rmqctl.sandbox.transactions.checks import CHECK_TIMES
from rmqctl.sandbox.transactions.half_messages import again

_BACK = "putting message back to RMQ_SYS_TRANS_HALF_TOPIC"


def handle(broker: Broker, request: Request) -> Command:
    """Store the message of an id as a half message with 0 checks; the broker in the id is ignored."""
    try:
        half = broker.store.message_in_log(decode_offset_id(request.text("msgId")).commit_log_offset)
    except (ValueError, RefusalError):
        half = None
    if half is None:
        raise RefusalError(ResponseCode.SYSTEM_ERROR, f"Exception was thrown when {_BACK}.")
    try:
        broker.put(again(half, {**half.properties, CHECK_TIMES: "0"}))
    except RefusalError:
        remark = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."
        raise RefusalError(ResponseCode.SYSTEM_ERROR, remark) from None
    return ok()
