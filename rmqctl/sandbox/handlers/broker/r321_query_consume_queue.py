"""QUERY_CONSUME_QUEUE: the entries of a queue (AdminBrokerProcessor.queryConsumeQueue)."""

from __future__ import annotations

from typing import Any

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.java_dumps import dumps
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import UNSET_REMARK, RefusalError, Request, ok
from rmqctl.sandbox.storage.consume_queue import ConsumeQueue


def handle(broker: Broker, request: Request) -> Command:
    """Return entries from an index on, with the subscription of a group if one is named."""
    topic, group = request.text("topic"), request.text("consumerGroup", None)
    queue_id, index, count = (request.number(name, 0) for name in ("queueId", "index", "count"))
    queue = broker.store.find_queue(topic, queue_id)
    if queue is None or queue.max_offset == 0:
        raise RefusalError(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
    if not queue.min_offset <= index < queue.max_offset:
        return ok(remark=f"Index {index} of {queue_id}@{topic} is not exist!")
    body: dict[str, Any] = {
        "maxQueueIndex": queue.max_offset, "minQueueIndex": queue.min_offset, "queueData": _entries(queue, index, count)
    }  # fmt: skip
    if group is not None:
        body.update(_subscription(broker, group, topic))
    return ok(dumps(body), remark=UNSET_REMARK)


def _entries(queue: ConsumeQueue, index: int, count: int) -> list[dict[str, Any]]:
    found = [queue.entry(offset) for offset in range(index, min(queue.max_offset, index + count))]
    return [
        {"eval": False, "physicOffset": entry.commit_log_offset, "physicSize": entry.size_bytes,
         "tagsCode": entry.tags_code}
        for entry in found if entry is not None
    ]  # fmt: skip


def _subscription(broker: Broker, group: str, topic: str) -> dict[str, Any]:
    subscription = broker.consumers.find_subscription(group, topic)
    if subscription is None:
        return {"filterData": f"{group}@{topic} is not online!"}
    return {"filterData": "null", "subscriptionData": subscription.to_wire()}
