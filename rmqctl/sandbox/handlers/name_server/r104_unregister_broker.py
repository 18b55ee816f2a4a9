"""UNREGISTER_BROKER: a broker leaves (DefaultRequestProcessor.unregisterBroker)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok


def handle(name_server: NameServer, request: Request) -> Command:
    """Remove it; an unknown broker is not an error."""
    if not name_server.profile.is_5:
        request.number("brokerId")
    name_server.unregister(request.text("clusterName", ""), request.text("brokerAddr", ""))
    return ok()
