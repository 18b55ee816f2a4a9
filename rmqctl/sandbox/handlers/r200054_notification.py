"""NOTIFICATION: reports when a pop would get messages (NotificationProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.pop_looking import notification
from rmqctl.sandbox.request import Request

SERVER = BROKER
SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command | None:
    """Answer immediately, or hold the request until there is a message."""
    return notification(broker, request)
