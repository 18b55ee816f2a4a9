"""POP_MESSAGE: messages that are redelivered unless acknowledged (PopMessageProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.pop import pop
from rmqctl.sandbox.request import Request

SERVER = BROKER
SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command | None:
    """Return the messages there are, or hold the request until some arrive."""
    return pop(broker, request)
