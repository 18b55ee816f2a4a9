"""POP_MESSAGE: messages that come back unless they are acknowledged (PopMessageProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.pop import pop
from rmqctl.sandbox.request import Request

SERVER = BROKER
SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command | None:
    """Answer what there is, or hold the request until something is."""
    return pop(broker, request)
