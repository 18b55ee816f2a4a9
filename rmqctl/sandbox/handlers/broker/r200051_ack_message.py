"""ACK_MESSAGE: a popped message is consumed (AckMessageProcessor)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import RefusalError, Request, ok

from .acknowledgements import acknowledge, acknowledge_orderly, check_request, offset_range, read_handle

SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Acknowledge one message. Raises RefusalError.

    Any group may acknowledge, at any time: a message that is no longer in flight is silently left unchanged.
    """
    target, offset = check_request(broker, request, {})
    low, high = offset_range(broker, target.topic, target.queue_id)
    if not low <= offset < high:
        key = f"{target.topic}@{target.queue_id}"
        remark = f"offset is illegal, key:{key}, commit:{offset}, store:{low}~{high}"
        raise RefusalError(ResponseCode.NO_MESSAGE, remark)
    popped = read_handle(request)
    if popped.is_orderly:
        acknowledge_orderly(broker, request, target, offset, popped.pop_time_ms)
    else:
        acknowledge(broker, target, offset, popped)
    return ok()
