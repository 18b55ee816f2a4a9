"""WIPE_WRITE_PERM_OF_BROKER: stop sends to a broker (wipeWritePermOfBroker)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok


def handle(name_server: NameServer, request: Request) -> Command:
    """Clear the write bit of its topics, at this name server only."""
    return ok(wipeTopicCount=name_server.set_write_permission(request.text("brokerName", ""), is_writable=False))
