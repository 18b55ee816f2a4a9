"""UNREGISTER_BROKER: a broker goes (DefaultRequestProcessor.unregisterBroker)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.handlers import NAME_SERVER
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok

SERVER = NAME_SERVER


def handle(name_server: NameServer, request: Request) -> Command:
    """Forget it; one that is not known is no error."""
    if not name_server.profile.is_5:
        request.number("brokerId")
    name_server.unregister(request.text("clusterName", ""), request.text("brokerAddr", ""))
    return ok()
