"""CHANGE_MESSAGE_INVISIBLETIME: a popped message is redelivered at another time (ChangeInvisibleTimeProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.pop_acks import change_invisible_time
from rmqctl.sandbox.request import Request

SERVER = BROKER
SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Return the message's new handle."""
    return change_invisible_time(broker, request)
