"""QUERY_ASSIGNMENT: the queues that a client is to consume, and how (QueryAssignmentProcessor.queryAssignment)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request, ok_json
from rmqctl.sandbox.request_modes import query_assignment

SERVER = BROKER
SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Return the client's share."""
    request.require_body()
    return ok_json(query_assignment(broker, request.json()))
