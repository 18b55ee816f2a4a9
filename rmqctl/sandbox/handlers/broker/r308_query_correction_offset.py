"""QUERY_CORRECTION_OFFSET: the smallest offsets over all groups (AdminBrokerProcessor.queryCorrectionOffset)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import RefusalError, Request, ok_json

_LONG_MAX = 2**63 - 1


def handle(broker: Broker, request: Request) -> Command:
    """Return offsets by queue. Naming groups to filter out deletes their offsets."""
    topic = _topic(broker, request)
    compared, dropped = request.text("compareGroup", "null"), request.text("filterGroups", "")
    return ok_json({"correctionOffsets": _correction(broker, topic, compared, dropped)})


def _topic(broker: Broker, request: Request) -> str:
    """Return the topic; a missing field is an error only when there are stored offsets to compare."""
    return str(request.text("topic") if broker.offsets.stored else request.text("topic", ""))


def _correction(broker: Broker, topic: str, compared: str, dropped: str) -> dict[int, int]:
    """Return each queue's smallest offset over all groups that is still stored (queryCorrectionOffset).

    It is Long.MAX_VALUE where the compared group's offset is even smaller. As in RocketMQ, the dropped groups lose
    their offsets of all topics for good; and 4.9 confuses topic and group, so that it compares nothing.
    """
    for group in dropped.split(","):
        if group:
            broker.offsets.delete(group=group)
    smallest: dict[int, int] = {}
    for (stored_topic, _), queues in broker.offsets.stored.items():
        if stored_topic != topic:
            continue
        for queue_id, offset in queues.items():
            if offset >= broker.store.min_offset(topic, queue_id):
                smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
    key = (topic, compared) if broker.profile.is_5 else (compared, topic)
    for queue_id, offset in broker.offsets.stored.get(key, {}).items():
        if queue_id not in smallest:
            remark = f"java.lang.NullPointerException: no group has an offset of queue {queue_id}"
            raise RefusalError(ResponseCode.SYSTEM_ERROR, remark)
        if smallest[queue_id] > offset:
            smallest[queue_id] = _LONG_MAX
    return smallest
