"""GET_MIN_OFFSET: the smallest offset that is left (AdminBrokerProcessor.getMinOffset)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok


def handle(broker: Broker, request: Request) -> Command:
    """Return it; 0 for a queue that does not exist."""
    offset = broker.store.min_offset(request.text("topic"), request.number("queueId"))
    return ok(offset=offset, remark="" if broker.profile.is_5 else None)
