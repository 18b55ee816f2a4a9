"""GET_KVLIST_BY_NAMESPACE: all keys of a namespace (DefaultRequestProcessor.getKVListByNamespace)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import RefusalError, Request, ok_json


def handle(name_server: NameServer, request: Request) -> Command:
    """Return them with their values."""
    namespace = request.text("namespace", "null")
    table = name_server.key_values.get(namespace)
    if table is None:
        raise RefusalError(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
    return ok_json({"table": table})
