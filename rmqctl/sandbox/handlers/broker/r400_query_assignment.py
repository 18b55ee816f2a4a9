"""QUERY_ASSIGNMENT: the queues that a client is to consume, and how (QueryAssignmentProcessor.queryAssignment)."""

from __future__ import annotations

from typing import Any

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.command import Command
from rmqctl.protocol.flags import Permission
from rmqctl.rules.allocate import Allocate
from rmqctl.rules.allocate.averagely import allocate_averagely, allocate_by_circle
from rmqctl.rules.allocate.pop_share import all_pop_all, allocate_for_pop, whole_brokers
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.groups.members import BROADCASTING
from rmqctl.sandbox.groups.request_modes import POP, PULL
from rmqctl.sandbox.request import FailureError, Request, ok_json, require_text

SINCE_5 = True

_CLUSTERING = "CLUSTERING"

# Brokers know no other strategies.
_STRATEGIES: dict[str, Allocate] = {"AVG": allocate_averagely, "AVG_BY_CIRCLE": allocate_by_circle}


def handle(broker: Broker, request: Request) -> Command:
    """Return a client's queues, each with its mode, or {} when they are unknown."""
    request.require_body()
    body = request.json()
    topic, group = require_text(body, "topic"), require_text(body, "consumerGroup")
    model = body.get("messageModel")
    if model not in (_CLUSTERING, BROADCASTING):
        raise FailureError("java.lang.NullPointerException: the request has no messageModel")
    mode, share_count = _mode(broker, topic, group)
    if model == BROADCASTING:
        queues: list[MessageQueue] | None = _queues(broker, topic) or None
    else:
        queues = _share(broker, topic, group, body, share_count if mode == POP else None)
    if queues is None:
        return ok_json({})
    return ok_json({"messageQueueAssignments": [{"messageQueue": queue, "mode": mode} for queue in queues]})


def _mode(broker: Broker, topic: str, group: str) -> tuple[str | None, int]:
    if topic.startswith(RETRY_PREFIX):
        return PULL, 0
    item = broker.request_modes.find(topic, group)
    if item is None:
        settings = broker.settings
        return settings.text("defaultMessageRequestMode"), settings.number("defaultPopShareQueueNum")
    return item["mode"], item["popShareQueueNum"]


def _share(
    broker: Broker, topic: str, group: str, body: dict[str, Any], share_count: int | None
) -> list[MessageQueue] | None:
    """Return a client's queues; `share_count` is for a group that pops, None for one that pulls."""
    queues, members = _queues(broker, topic), broker.consumers.find(group)
    allocate = _STRATEGIES.get(str(body.get("strategyName")))
    client_id = str(body.get("clientId") or "")
    if not queues or members is None or allocate is None or not client_id:
        return None
    client_ids = sorted(members.client_ids)
    if share_count is None:
        return allocate(queues, client_ids).get(client_id, [])
    if all_pop_all(len(client_ids), share_count):
        return whole_brokers(queues)  # even to a client that is not a member
    return allocate_for_pop(queues, client_ids, inner=allocate, share_count=share_count).get(client_id, [])


def _queues(broker: Broker, topic: str) -> list[MessageQueue]:
    """Return the readable queues of a topic at all brokers, sorted."""
    route = broker.name_server.route(topic) or {"queueDatas": []}
    return sorted(
        MessageQueue(topic, data["brokerName"], queue_id)
        for data in route["queueDatas"] if data["perm"] & Permission.READ
        for queue_id in range(data["readQueueNums"])
    )  # fmt: skip
