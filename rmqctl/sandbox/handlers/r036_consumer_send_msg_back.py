"""CONSUMER_SEND_MSG_BACK: a consumer sends a message back for redelivery (SendMessageProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request
from rmqctl.sandbox.send_back import send_back

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Store it again, for a retry or as a dead letter."""
    return send_back(broker, request)
