"""DELETE_EXPIRED_COMMITLOG: delete expired messages immediately (executeDeleteFilesManually)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok


def handle(broker: Broker, _: Request) -> Command:
    """Delete messages older than fileReservedTime."""
    broker.clean()
    return ok()
