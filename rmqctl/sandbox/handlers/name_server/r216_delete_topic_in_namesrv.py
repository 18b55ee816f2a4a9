"""DELETE_TOPIC_IN_NAMESRV: delete a topic (RouteInfoManager.deleteTopic)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok


def handle(name_server: NameServer, request: Request) -> Command:
    """Delete it, in one cluster or in all."""
    name_server.delete_topic(request.text("topic", ""), request.text("clusterName", "") or None)
    return ok()
