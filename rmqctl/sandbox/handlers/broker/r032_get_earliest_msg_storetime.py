"""GET_EARLIEST_MSG_STORETIME: when a queue's first message was stored (AdminBrokerProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok


def handle(broker: Broker, request: Request) -> Command:
    """Return the time in ms, or -1 for a queue without messages."""
    queue = broker.store.find_queue(request.text("topic"), request.number("queueId"))
    first = None if queue is None else queue.entry(queue.min_offset)
    return ok(timestamp=-1 if first is None else first.stored_at_ms)
