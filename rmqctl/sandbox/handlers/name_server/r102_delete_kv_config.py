"""DELETE_KV_CONFIG: delete a key and its value (DefaultRequestProcessor.deleteKVConfig)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok


def handle(name_server: NameServer, request: Request) -> Command:
    """Delete it; a missing key is not an error."""
    name_server.key_values.get(request.text("namespace", ""), {}).pop(request.text("key", ""), None)
    return ok()
