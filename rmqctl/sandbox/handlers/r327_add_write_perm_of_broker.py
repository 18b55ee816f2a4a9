"""ADD_WRITE_PERM_OF_BROKER: let clients send to a broker again (addWritePermOfBroker)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.handlers import NAME_SERVER
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok

SERVER = NAME_SERVER


def handle(name_server: NameServer, request: Request) -> Command:
    """Give its topics read and write, here only."""
    return ok(addTopicCount=name_server.set_write_permission(request.text("brokerName", ""), is_writable=True))
