"""PULL_MESSAGE: messages of one queue, now or when some come (PullMessageProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.pulling import pull
from rmqctl.sandbox.request import Request

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command | None:
    """Answer what is there, or hold the request until something is."""
    return pull(broker, request)
