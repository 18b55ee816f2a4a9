"""REGISTER_TOPIC_IN_NAMESRV: take the queues of one topic (RouteInfoManager.registerTopic)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.handlers import NAME_SERVER
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import Request, ok

SERVER = NAME_SERVER
SINCE_5 = True


def handle(name_server: NameServer, request: Request) -> Command:
    """Add it at the brokers that it names; nothing happens where one of them is not known."""
    queues = request.json().get("queueDatas") if request.command.body else None
    name_server.add_topic(request.text("topic", ""), queues or ())
    return ok()
