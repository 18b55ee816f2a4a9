"""GET_ALL_TOPIC_LIST_FROM_NAMESERVER: the names of all topics (RouteInfoManager.getAllTopicList)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import RefusalError, Request, ok_json


def handle(name_server: NameServer, _: Request) -> Command:
    """Return the list."""
    if name_server.profile.is_5 and not name_server.settings.flag("enableAllTopicList"):
        raise RefusalError(ResponseCode.SYSTEM_ERROR, "disable")
    return ok_json({"topicList": name_server.topic_names()})
