"""DELETE_TOPIC_IN_NAMESRV: forget a topic (RouteInfoManager.deleteTopic)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.handlers import NAME_SERVER
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok

SERVER = NAME_SERVER


def handle(name_server: NameServer, request: Request) -> Command:
    """Forget it, in one cluster where one is named."""
    name_server.delete_topic(request.text("topic", ""), request.text("clusterName", "") or None)
    return ok()
