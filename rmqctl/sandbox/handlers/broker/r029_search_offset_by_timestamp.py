"""SEARCH_OFFSET_BY_TIMESTAMP: the offset of a time in a queue (AdminBrokerProcessor.searchOffsetByTimestamp)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok
from rmqctl.sandbox.storage.time_search import search


def handle(broker: Broker, request: Request) -> Command:
    """Return an offset; 0 for a queue that does not exist."""
    queue = broker.store.find_queue(request.text("topic"), request.number("queueId"))
    time_ms = request.number("timestamp")
    is_upper = request.text("boundaryType", "").lower() == "upper"
    return ok(offset=search(queue, time_ms, is_5=broker.profile.is_5, is_upper=is_upper))
