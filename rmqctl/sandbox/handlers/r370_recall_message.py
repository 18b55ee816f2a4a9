"""RECALL_MESSAGE: recall a message that waits for its time (RecallMessageProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.recalling import recall
from rmqctl.sandbox.request import Request

SERVER = BROKER
SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Recall it; refused unless recallMessageEnable is true."""
    return recall(broker, request)
