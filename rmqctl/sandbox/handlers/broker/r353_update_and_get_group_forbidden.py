"""UPDATE_AND_GET_GROUP_FORBIDDEN: whether a group may read a topic (AdminBrokerProcessor)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.java_dumps import dumps
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, answer

SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Change it on request, and return the current value."""
    group, topic = request.text("group"), request.text("topic", None)
    if "readable" in request.fields:
        broker.groups.set_readable(group, topic, request.flag("readable"))
    is_readable = (group, topic) not in broker.groups.forbidden
    return answer(ResponseCode.SUCCESS, "", dumps({"group": group, "topic": topic, "readable": is_readable}))
