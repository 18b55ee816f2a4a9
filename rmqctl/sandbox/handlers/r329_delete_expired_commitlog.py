"""DELETE_EXPIRED_COMMITLOG: forget at once what is kept long enough (executeDeleteFilesManually)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request, ok

SERVER = BROKER


def handle(broker: Broker, _: Request) -> Command:
    """Forget what is older than fileReservedTime."""
    broker.clean()
    return ok()
