"""GET_SYSTEM_TOPIC_LIST_FROM_NS: topics named after clusters and brokers (RouteInfoManager.getSystemTopicList)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok_json


def handle(name_server: NameServer, _: Request) -> Command:
    """Return them, and the address of a broker that has more."""
    brokers = name_server.brokers.values()
    names = {entry.cluster for entry in brokers} | {entry.name for entry in brokers}
    address = next((address for entry in brokers for address in entry.addresses.values()), None)
    return ok_json({"topicList": sorted(names), "brokerAddr": address})
