"""NOTIFICATION: tells when a pop would get something (NotificationProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.pop_looking import notification
from rmqctl.sandbox.request import Request

SERVER = BROKER
SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command | None:
    """Answer at once, or hold the request until there is something."""
    return notification(broker, request)
