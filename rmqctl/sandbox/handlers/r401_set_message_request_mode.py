"""SET_MESSAGE_REQUEST_MODE: a group pulls or pops a topic (QueryAssignmentProcessor.setMessageRequestMode)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request, ok
from rmqctl.sandbox.request_modes import set_mode

SERVER = BROKER
SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Store it; clients read it at their next rebalance."""
    request.require_body()
    set_mode(broker, request.json())
    return ok()
