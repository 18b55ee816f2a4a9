"""PULL_MESSAGE: messages of one queue, now or when some arrive (PullMessageProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.pulling import pull
from rmqctl.sandbox.request import Request

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command | None:
    """Return the messages there are, or hold the request until some arrive."""
    return pull(broker, request)
