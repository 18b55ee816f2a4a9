"""SEARCH_OFFSET_BY_TIMESTAMP: the offset of a time in a queue (AdminBrokerProcessor.searchOffsetByTimestamp)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.queue_times import search
from rmqctl.sandbox.request import Request, ok

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Return an offset; 0 for a queue that does not exist."""
    topic, queue_id, time_ms = request.text("topic"), request.number("queueId"), request.number("timestamp")
    is_upper = request.text("boundaryType", "").lower() == "upper"
    return ok(offset=search(broker, topic, queue_id, time_ms, is_upper=is_upper))
