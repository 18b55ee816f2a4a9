"""POLLING_INFO: how many pops wait (PollingInfoProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.pop_looking import polling_info
from rmqctl.sandbox.request import Request

SERVER = BROKER
SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Return their number."""
    return polling_info(broker, request)
