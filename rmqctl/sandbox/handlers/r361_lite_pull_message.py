"""LITE_PULL_MESSAGE: messages of one queue, now or when some arrive (PullMessageProcessor, lite pull consumers)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.pulling import pull
from rmqctl.sandbox.request import Request

SERVER = BROKER
SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command | None:
    """Return the messages there are, or hold the request until some arrive."""
    return pull(broker, request)
