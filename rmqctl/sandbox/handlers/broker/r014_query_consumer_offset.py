"""QUERY_CONSUMER_OFFSET: one stored offset (ConsumerManageProcessor.queryConsumerOffset)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import RefusalError, Request, ok


def handle(broker: Broker, request: Request) -> Command:
    """Return the offset; 0 for a group without one when the queue still starts at 0.

    5.x returns 0 only if message 0 exists, 4.9 also for a missing queue or topic. A negative offset counts as none.
    """
    is_5 = broker.profile.is_5
    group, topic = request.text("consumerGroup", "null"), request.text("topic")
    queue_id = request.number("queueId")
    offset = broker.offsets.find(group, topic, queue_id)
    if offset is not None and offset >= 0:
        return ok(offset=offset)
    if is_5 and not request.flag("setZeroIfNotFound", True):
        remark = "Not found, do not set to zero, maybe this group boot first"
        raise RefusalError(ResponseCode.QUERY_NOT_FOUND, remark)
    queue = broker.store.find_queue(topic, queue_id)
    begins_at_0 = queue is None or queue.min_offset <= 0
    if begins_at_0 and (not is_5 or (queue is not None and queue.max_offset > 0)):
        return ok(offset=0)
    remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
    raise RefusalError(ResponseCode.QUERY_NOT_FOUND, remark)
