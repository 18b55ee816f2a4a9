"""Acknowledgements of popped messages, and changes of their invisible time (AckMessageProcessor)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.rules.pop_handles import Handle
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.pop.check_points import check_point_key
from rmqctl.sandbox.request import FailureError, RefusalError, Request

from .pop_records import record_acknowledgement
from .read_checks import ReadTarget, find_topic, illegal_queue


def check_request(broker: Broker, request: Request, fields: dict[str, object]) -> tuple[ReadTarget, int]:
    """Return the queue and the offset of a request. Raises RefusalError for a queue that does not exist."""
    topic_name, group = request.text("topic"), request.text("consumerGroup", "")
    topic = find_topic(broker, topic_name, fields)
    target = ReadTarget(group, topic_name, request.number("queueId"))
    if not 0 <= target.queue_id < topic.read_queue_count:
        raise RefusalError(ResponseCode.MESSAGE_ILLEGAL, illegal_queue(request, topic, target.queue_id), **fields)
    return target, request.number("offset")


def offset_range(broker: Broker, topic: str, queue_id: int) -> tuple[int, int]:
    """Return the smallest offset of a queue, and the next one."""
    return broker.store.min_offset(topic, queue_id), broker.store.max_offset(topic, queue_id)


def read_handle(request: Request) -> Handle:
    """Return the handle of a request. Raises FailureError."""
    try:
        return Handle.parse(request.text("extraInfo"))
    except ValueError as error:
        raise FailureError(f"java.lang.IllegalArgumentException: {error}") from None


def acknowledge(broker: Broker, target: ReadTarget, offset: int, handle: Handle) -> None:
    """Acknowledge a message; one that is no longer in flight is silently left unchanged."""
    # A handle that names another broker belongs to a check-point that is not here.
    if handle.broker_name == broker.name:
        key = check_point_key(
            target.group, target.topic, target.queue_id, handle.start_offset, handle.pop_time_ms
        )  # fmt: skip
        broker.pop.check_points.acknowledge(key, offset)
        record_acknowledgement(
            broker, target.group, target.topic, target.queue_id, handle.start_offset, offset, handle.pop_time_ms,
            handle.revive_queue_id,
        )  # fmt: skip


def acknowledge_orderly(broker: Broker, request: Request, target: ReadTarget, offset: int, pop_time_ms: int) -> None:
    """Acknowledge a message of an orderly group. Raises RefusalError for one that is not in flight."""
    group, topic, queue_id = target.group, target.topic, target.queue_id
    stored = broker.offsets.find(group, topic, queue_id)
    old = -1 if stored is None else stored
    if offset < old:
        return
    try:
        committed = broker.pop.orders.acknowledge(topic, group, queue_id, offset, pop_time_ms)
    except ValueError:
        remark = (
            f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{old}, commit:{offset}, next:-1, "
            f"/{request.channel.address}"
        )
        raise RefusalError(ResponseCode.MESSAGE_ILLEGAL, remark) from None
    if committed is None:
        return
    if not broker.offsets.has_reset(group, topic, queue_id):
        broker.offsets.store(group, topic, queue_id, committed)
    if broker.pop.orders.blocked_until_ms(topic, group, queue_id, None, broker.now_ms()) is None:
        broker.pop.wake(topic, group)
