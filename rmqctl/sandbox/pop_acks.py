"""Acknowledgements of popped messages, and changes of their invisible time (AckMessageProcessor)."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from rmqctl.errors import RemoteProtocolError
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.rules.pop_handles import ORDERLY_REVIVE_QUEUE, Handle, real_topic

from .broker import Broker
from .pop import add_check_point
from .pop_checkpoints import check_point_key
from .pop_checks import Target, find_topic, illegal_queue
from .pop_log import record_acknowledgement
from .request import UNSET_REMARK, FailureError, RefusalError, Request, answer, ok

_NO_TIMES: dict[str, object] = {"popTime": 0, "invisibleTime": 0, "reviveQid": 0}


def acknowledge(broker: Broker, request: Request) -> Command:
    """Acknowledge one message. Raises RefusalError.

    Any group may acknowledge, at any time: a message that is no longer in flight is silently left unchanged.
    """
    target, offset = _checked(broker, request, {})
    low, high = _range(broker, target.topic, target.queue_id)
    if not low <= offset < high:
        key = f"{target.topic}@{target.queue_id}"
        remark = f"offset is illegal, key:{key}, commit:{offset}, store:{low}~{high}"
        raise RefusalError(ResponseCode.NO_MESSAGE, remark)
    handle = _handle(request)
    if handle.is_orderly:
        _acknowledge_orderly(broker, request, target, offset, handle.pop_time_ms)
    else:
        _acknowledge(broker, target, offset, handle)
    return ok()


def acknowledge_all(broker: Broker, request: Request) -> Command:
    """Acknowledge many messages; skip those of queues that do not exist. Raises RefusalError."""
    data = _batch(request)
    items = data.get("acks") or []
    if not items:
        return answer(ResponseCode.NO_MESSAGE)
    broker_name = str(data.get("brokerName") or "")
    refusal: RefusalError | None = None
    for item in items:
        refusal = _acknowledge_item(broker, request, broker_name, item) or refusal
    return ok() if refusal is None else refusal.to_answer()


def change_invisible_time(broker: Broker, request: Request) -> Command:
    """Change a message's invisible time, counted from now; it gets a new handle. Raises RefusalError."""
    target, offset = _checked(broker, request, _NO_TIMES)
    low, high = _range(broker, target.topic, target.queue_id)
    if not low <= offset < high:
        raise RefusalError(ResponseCode.NO_MESSAGE, UNSET_REMARK, **_NO_TIMES)
    handle, invisible_ms = _handle(request), request.number("invisibleTime")
    if handle.is_orderly:
        return _change_orderly(broker, target, offset, handle.pop_time_ms, invisible_ms)
    now_ms, points = broker.now_ms(), broker.pop.check_points
    # Within the same millisecond, the new handle could equal the old one.
    while check_point_key(target.group, target.topic, target.queue_id, offset, now_ms) in points:
        now_ms += 1
    add_check_point(
        broker, target.group, target.topic, target.queue_id, offset, (offset,), now_ms, invisible_ms,
        handle.revive_queue_id,
    )  # fmt: skip
    _acknowledge(broker, target, offset, handle)
    return ok(
        remark=UNSET_REMARK, popTime=now_ms, invisibleTime=invisible_ms, reviveQid=handle.revive_queue_id
    )  # fmt: skip


def _checked(broker: Broker, request: Request, fields: dict[str, object]) -> tuple[Target, int]:
    topic_name, group = request.text("topic"), request.text("consumerGroup", "")
    topic = find_topic(broker, topic_name, fields)
    target = Target(group, topic_name, request.number("queueId"))
    if not 0 <= target.queue_id < topic.read_queue_count:
        raise RefusalError(ResponseCode.MESSAGE_ILLEGAL, illegal_queue(request, target, topic), **fields)
    return target, request.number("offset")


def _range(broker: Broker, topic: str, queue_id: int) -> tuple[int, int]:
    return broker.store.min_offset(topic, queue_id), broker.store.max_offset(topic, queue_id)


def _handle(request: Request) -> Handle:
    try:
        return Handle.parse(request.text("extraInfo"))
    except ValueError as error:
        raise FailureError(f"java.lang.IllegalArgumentException: {error}") from None


def _acknowledge(broker: Broker, target: Target, offset: int, handle: Handle) -> None:
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


def _acknowledge_orderly(broker: Broker, request: Request, target: Target, offset: int, pop_time_ms: int) -> None:
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


def _change_orderly(broker: Broker, target: Target, offset: int, pop_time_ms: int, invisible_ms: int) -> Command:
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


def _batch(request: Request) -> dict[str, Any]:
    if not request.command.body:
        return {}
    try:
        data = request.json()
    except RemoteProtocolError as error:
        raise FailureError(f"com.alibaba.fastjson2.JSONException: {error.sentence}") from None
    return data if isinstance(data, dict) else {}


def _acknowledge_item(broker: Broker, request: Request, broker_name: str, item: dict[str, Any]) -> RefusalError | None:
    """Acknowledge one item (BatchAck): `b` is a bit set, the lowest bit is offset `so`. Return the last refusal."""
    try:
        group, flag = str(item.get("c") or ""), str(item.get("r") or "0")
        target = Target(group, real_topic(group, str(item["t"]), flag), int(item["q"]))
        start_offset, bits = int(item["so"]), base64.b64decode(item["b"])
        handle = Handle(start_offset, int(item["pt"]), int(item["it"]), int(item["rq"]), broker_name)
    except (KeyError, TypeError, ValueError) as error:
        raise FailureError(f"java.lang.NullPointerException: a batch ack without {error}") from None
    low, high = _range(broker, target.topic, target.queue_id)
    refusal: RefusalError | None = None
    for offset in _set_offsets(start_offset, bits, low, high):
        if not handle.is_orderly:
            _acknowledge(broker, target, offset, handle)
            continue
        try:
            _acknowledge_orderly(broker, request, target, offset, handle.pop_time_ms)
        except RefusalError as error:
            refusal = error
    return refusal


def _set_offsets(start_offset: int, bits: bytes, low: int, high: int) -> Iterator[int]:
    """Yield the offsets from low to high whose bits are set: a request may have millions of other bits."""
    for offset in range(max(low, start_offset), min(high, start_offset + 8 * len(bits) - 1) + 1):
        index, number = divmod(offset - start_offset, 8)
        if bits[index] >> number & 1:
            yield offset
