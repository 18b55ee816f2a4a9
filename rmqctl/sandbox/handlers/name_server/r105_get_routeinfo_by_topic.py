"""GET_ROUTEINFO_BY_TOPIC: the brokers of a topic (ClientRequestProcessor.getRouteInfoByTopic)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import RefusalError, Request, ok_standard_json


def handle(name_server: NameServer, request: Request) -> Command:
    """Return the route in strict JSON, which every release reads."""
    topic = request.text("topic", "null")
    route = name_server.route(topic)
    if route is None:
        remark = f"No topic route info in name server for the topic: {topic}{name_server.profile.advice}"
        raise RefusalError(ResponseCode.TOPIC_NOT_EXIST, remark)
    return ok_standard_json(route)
