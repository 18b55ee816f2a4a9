"""GET_MAX_OFFSET: the next offset to be written (AdminBrokerProcessor.getMaxOffset)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok


def handle(broker: Broker, request: Request) -> Command:
    """Return it; 0 for a queue that does not exist."""
    return ok(offset=broker.store.max_offset(request.text("topic"), request.number("queueId")))
