"""CHANGE_MESSAGE_INVISIBLETIME: a popped message is redelivered at another time (ChangeInvisibleTimeProcessor)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.rules.pop_handles import ORDERLY_REVIVE_QUEUE
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.pop.check_points import check_point_key
from rmqctl.sandbox.request import UNSET_REMARK, RefusalError, Request, ok

from .acknowledgements import acknowledge, check_request, offset_range, read_handle
from .pop_records import add_check_point
from .read_checks import ReadTarget

SINCE_5 = True

_NO_TIMES: dict[str, object] = {"popTime": 0, "invisibleTime": 0, "reviveQid": 0}


def handle(broker: Broker, request: Request) -> Command:
    """Change a message's invisible time, counted from now; it gets a new handle. Raises RefusalError."""
    target, offset = check_request(broker, request, _NO_TIMES)
    low, high = offset_range(broker, target.topic, target.queue_id)
    if not low <= offset < high:
        raise RefusalError(ResponseCode.NO_MESSAGE, UNSET_REMARK, **_NO_TIMES)
    popped, invisible_ms = read_handle(request), request.number("invisibleTime")
    if popped.is_orderly:
        return _change_orderly(broker, target, offset, popped.pop_time_ms, invisible_ms)
    now_ms, points = broker.now_ms(), broker.pop.check_points
    # Within the same millisecond, the new handle could equal the old one.
    while check_point_key(target.group, target.topic, target.queue_id, offset, now_ms) in points:
        now_ms += 1
    add_check_point(
        broker, target.group, target.topic, target.queue_id, offset, (offset,), now_ms, invisible_ms,
        popped.revive_queue_id,
    )  # fmt: skip
    acknowledge(broker, target, offset, popped)
    return ok(
        remark=UNSET_REMARK, popTime=now_ms, invisibleTime=invisible_ms, reviveQid=popped.revive_queue_id
    )  # fmt: skip


def _change_orderly(broker: Broker, target: ReadTarget, offset: int, pop_time_ms: int, invisible_ms: int) -> Command:
    group, topic, queue_id = target.group, target.topic, target.queue_id
    stored = broker.offsets.find(group, topic, queue_id)
    if stored is not None and offset < stored:
        return ok(remark=UNSET_REMARK, popTime=0, invisibleTime=0, reviveQid=0)
    visible_ms = broker.now_ms() + invisible_ms
    broker.pop.orders.change(topic, group, queue_id, offset, pop_time_ms, visible_ms)
    broker.pop.wake(topic, group)
    # The handle does not change, so the new invisible time is counted from the pop.
    return ok(
        remark=UNSET_REMARK, popTime=pop_time_ms, invisibleTime=visible_ms - pop_time_ms,
        reviveQid=ORDERLY_REVIVE_QUEUE,
    )  # fmt: skip
