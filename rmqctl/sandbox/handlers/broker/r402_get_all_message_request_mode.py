"""GET_ALL_MESSAGE_REQUEST_MODE: the modes set for topics and groups (AdminBrokerProcessor.getAllMessageRequestMode)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok_json

SINCE_5 = True


def handle(broker: Broker, _: Request) -> Command:
    """Return the table."""
    return ok_json({"messageRequestModeMap": broker.request_modes.to_wire()})
