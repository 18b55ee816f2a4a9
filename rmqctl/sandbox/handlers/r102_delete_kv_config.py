"""DELETE_KV_CONFIG: forget a key and its value (DefaultRequestProcessor.deleteKVConfig)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.handlers import NAME_SERVER
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok

SERVER = NAME_SERVER


def handle(name_server: NameServer, request: Request) -> Command:
    """Forget it; one that there is not is no error."""
    name_server.key_values.get(request.text("namespace", ""), {}).pop(request.text("key", ""), None)
    return ok()
