"""PEEK_MESSAGE: the messages that a pop would get (PeekMessageProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.pop_looking import peek
from rmqctl.sandbox.request import Request

SERVER = BROKER
SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Return them without any change."""
    return peek(broker, request)
