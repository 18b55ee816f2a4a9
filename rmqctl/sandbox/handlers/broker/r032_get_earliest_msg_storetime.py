"""GET_EARLIEST_MSG_STORETIME: when a queue's first message was stored (AdminBrokerProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok


def handle(broker: Broker, request: Request) -> Command:
    """Return the time in ms, or -1 for a queue without messages."""
    topic, queue_id = request.text("topic"), request.number("queueId")
    return ok(timestamp=broker.store.stored_at_ms(topic, queue_id, broker.store.min_offset(topic, queue_id)))
