"""BATCH_ACK_MESSAGE: many popped messages are consumed (AckMessageProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.pop_acks import acknowledge_all
from rmqctl.sandbox.request import Request

SERVER = BROKER
SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Remove them from their check-points."""
    return acknowledge_all(broker, request)
