"""PUT_KV_CONFIG: store a value under a namespace and a key (DefaultRequestProcessor.putKVConfig)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import RefusalError, Request, ok


def handle(name_server: NameServer, request: Request) -> Command:
    """Store it, in any namespace."""
    namespace, key = request.text("namespace", None), request.text("key", None)
    if namespace is None or key is None:
        raise RefusalError(ResponseCode.SYSTEM_ERROR, "namespace or key is null")
    name_server.key_values.setdefault(namespace, {})[key] = request.text("value", "")
    return ok()
