"""GET_BROKER_CLUSTER_INFO: all brokers by name and by cluster (RouteInfoManager.getAllClusterInfo)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok_json


def handle(name_server: NameServer, _: Request) -> Command:
    """Return both tables."""
    clusters: dict[str, list[str]] = {}
    for entry in name_server.brokers.values():
        clusters.setdefault(entry.cluster, []).append(entry.name)
    brokers = {name: name_server.broker_data(entry) for name, entry in name_server.brokers.items()}
    return ok_json({"brokerAddrTable": brokers, "clusterAddrTable": clusters})
