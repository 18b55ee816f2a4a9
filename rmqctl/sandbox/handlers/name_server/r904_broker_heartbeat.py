"""BROKER_HEARTBEAT: a broker is alive (DefaultRequestProcessor.brokerHeartbeat)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok

SINCE_5 = True


def handle(name_server: NameServer, request: Request) -> Command:
    """Note it; an unregistered broker stays unknown."""
    name_server.touch(request.text("clusterName", ""), request.text("brokerAddr", ""))
    return ok()
