"""ADD_WRITE_PERM_OF_BROKER: allow sends to a broker again (addWritePermOfBroker)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok


def handle(name_server: NameServer, request: Request) -> Command:
    """Set read and write on its topics, at this name server only."""
    return ok(addTopicCount=name_server.set_write_permission(request.text("brokerName", ""), is_writable=True))
