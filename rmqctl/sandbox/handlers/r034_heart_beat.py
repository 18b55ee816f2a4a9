"""HEART_BEAT: a client reports its producer and consumer groups (ClientManageProcessor.heartBeat)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.heartbeats import hear
from rmqctl.sandbox.request import Request

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Register the connection in all its groups."""
    return hear(broker, request)
