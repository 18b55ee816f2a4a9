"""SEND_MESSAGE: store a message; fields have their full names (SendMessageProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request
from rmqctl.sandbox.sending import send

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Store it and return its position."""
    return send(broker, request)
