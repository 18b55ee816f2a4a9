"""SET_MESSAGE_REQUEST_MODE: a group pulls or pops a topic (QueryAssignmentProcessor.setMessageRequestMode)."""

from __future__ import annotations

from typing import Any

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.groups.request_modes import POP, PULL
from rmqctl.sandbox.request import FailureError, RefusalError, Request, ok, require_text

SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Store the mode of a topic and a group, known or not; clients read it at their next rebalance."""
    request.require_body()
    body = request.json()
    topic, group = require_text(body, "topic"), str(body.get("consumerGroup") or "")
    if topic.startswith(RETRY_PREFIX):
        raise RefusalError(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    broker.topics.require(topic)
    mode = body.get("mode", PULL)
    broker.request_modes.put({
        "topic": topic, "consumerGroup": group or require_text(body, "consumerGroup"),
        "popShareQueueNum": _number(body, "popShareQueueNum"),
        # Java reads an unknown name as null.
        "mode": mode if mode in (PULL, POP) else None,
    })  # fmt: skip
    return ok()


def _number(body: dict[str, Any], name: str) -> int:
    try:
        return int(body.get(name) or 0)
    except (TypeError, ValueError):
        raise FailureError(f"com.alibaba.fastjson2.JSONException: {name} is not a number") from None
