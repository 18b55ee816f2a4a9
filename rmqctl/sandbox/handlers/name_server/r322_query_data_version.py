"""QUERY_DATA_VERSION: whether a broker's topics have changed since it registered (queryBrokerTopicConfig)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.protocol.java_dumps import dumps
from rmqctl.sandbox.data_version import read_version
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok


def handle(name_server: NameServer, request: Request) -> Command:
    """Return it with the registered version; an unchanged version counts as a heartbeat."""
    cluster, address = request.text("clusterName", ""), request.text("brokerAddr", "")
    known = name_server.version_of(cluster, address)
    is_changed = known != read_version(name_server.profile, request.json())
    if not is_changed:
        name_server.touch(cluster, address)
    return ok(b"" if known is None else dumps(known), changed=is_changed)
