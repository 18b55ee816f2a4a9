"""The queues that a broker assigns to a client, and whether it pulls or pops (QueryAssignmentProcessor)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.flags import Permission
from rmqctl.rules.allocate import Allocate
from rmqctl.rules.allocate.averagely import allocate_averagely, allocate_by_circle
from rmqctl.rules.allocate.pop_share import all_pop_all, allocate_for_pop, whole_brokers

from .members import BROADCASTING
from .request import FailureError, RefusalError
from .state import StateStore

if TYPE_CHECKING:
    from .broker import Broker

PULL, POP = "PULL", "POP"

_TABLE = "request_modes"
_CLUSTERING = "CLUSTERING"

# Brokers know no other strategies.
_STRATEGIES: dict[str, Allocate] = {"AVG": allocate_averagely, "AVG_BY_CIRCLE": allocate_by_circle}


class RequestModes:
    """The modes set for topics and groups, as in the requests (MessageRequestModeManager); written through."""

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._modes: dict[tuple[str, str], dict[str, Any]] = {
            (item["topic"], item["consumerGroup"]): item for item in state.load(_TABLE).values()
        }

    def put(self, item: dict[str, Any]) -> None:
        """Set the mode of a topic and a group."""
        topic, group = item["topic"], item["consumerGroup"]
        self._state.put(_TABLE, f"{topic}@{group}", item)
        self._modes[topic, group] = item

    def find(self, topic: str, group: str) -> dict[str, Any] | None:
        """Return the mode that was set, or None."""
        return self._modes.get((topic, group))

    def to_wire(self) -> dict[str, dict[str, Any]]:
        """Return all modes as JSON data: by topic, then by group."""
        table: dict[str, dict[str, Any]] = {}
        for (topic, group), item in self._modes.items():
            table.setdefault(topic, {})[group] = item
        return table


def set_mode(broker: Broker, body: dict[str, Any]) -> None:
    """Set the mode of a topic and a group, known or not. Raises RefusalError."""
    topic, group = _text(body, "topic"), str(body.get("consumerGroup") or "")
    if topic.startswith(RETRY_PREFIX):
        raise RefusalError(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if broker.topics.find(topic) is None:
        raise RefusalError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    mode = body.get("mode", PULL)
    broker.request_modes.put({
        "topic": topic, "consumerGroup": group or _text(body, "consumerGroup"),
        "popShareQueueNum": _number(body, "popShareQueueNum"),
        # Java reads an unknown name as null.
        "mode": mode if mode in (PULL, POP) else None,
    })  # fmt: skip


def query_assignment(broker: Broker, body: dict[str, Any]) -> dict[str, Any]:
    """Return a client's queues, each with its mode, or {} when they are unknown. Raises RefusalError."""
    topic, group = _text(body, "topic"), _text(body, "consumerGroup")
    model = body.get("messageModel")
    if model not in (_CLUSTERING, BROADCASTING):
        raise FailureError("java.lang.NullPointerException: the request has no messageModel")
    mode, share_count = _mode(broker, topic, group)
    if model == BROADCASTING:
        queues: list[MessageQueue] | None = _queues(broker, topic) or None
    else:
        queues = _share(broker, topic, group, body, share_count if mode == POP else None)
    if queues is None:
        return {}
    return {"messageQueueAssignments": [{"messageQueue": queue, "mode": mode} for queue in queues]}


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


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        raise FailureError(f"java.lang.NullPointerException: the request has no {name}")
    return str(value)


def _number(body: dict[str, Any], name: str) -> int:
    try:
        return int(body.get(name) or 0)
    except (TypeError, ValueError):
        raise FailureError(f"com.alibaba.fastjson2.JSONException: {name} is not a number") from None
