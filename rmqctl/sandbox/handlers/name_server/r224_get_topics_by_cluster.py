"""GET_TOPICS_BY_CLUSTER: the names of a cluster's topics (RouteInfoManager.getTopicsByCluster)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.name_server import NameServer
from rmqctl.sandbox.request import RefusalError, Request, ok_json


def handle(name_server: NameServer, request: Request) -> Command:
    """Return the list, empty for a cluster that does not exist."""
    if name_server.profile.is_5 and not name_server.settings.flag("enableTopicList"):
        raise RefusalError(ResponseCode.SYSTEM_ERROR, "disable")
    return ok_json({"topicList": name_server.topic_names(request.text("cluster", ""))})
