"""REGISTER_TOPIC_IN_NAMESRV: register the queues of one topic (RouteInfoManager.registerTopic)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok

SINCE_5 = True


def handle(name_server: NameServer, request: Request) -> Command:
    """Add it at the named brokers up to an unknown one; a new topic only if all are known."""
    queues = request.json().get("queueDatas") if request.command.body else None
    name_server.add_topic(request.text("topic", ""), queues or ())
    return ok()
