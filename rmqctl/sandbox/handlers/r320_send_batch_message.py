"""SEND_BATCH_MESSAGE: store messages of one queue; whether it is a batch indeed says a field (SendMessageProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request
from rmqctl.sandbox.sending import send

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Store them and answer where."""
    return send(broker, request)
