"""GET_KV_CONFIG: the value under a key (DefaultRequestProcessor.getKVConfig)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import RefusalError, Request, ok


def handle(name_server: NameServer, request: Request) -> Command:
    """Return it."""
    namespace, key = request.text("namespace", "null"), request.text("key", "null")
    value = name_server.key_values.get(namespace, {}).get(key)
    if value is None:
        raise RefusalError(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}")
    return ok(value=value)
