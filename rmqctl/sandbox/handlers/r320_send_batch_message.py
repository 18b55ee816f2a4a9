"""SEND_BATCH_MESSAGE: store messages of one queue; a field marks a real batch (SendMessageProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request
from rmqctl.sandbox.sending import send

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Store them and return their positions."""
    return send(broker, request)
