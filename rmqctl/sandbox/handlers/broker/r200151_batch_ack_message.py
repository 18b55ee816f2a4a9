"""BATCH_ACK_MESSAGE: many popped messages are consumed (AckMessageProcessor)."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from rmqctl.errors import RemoteProtocolError
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.rules.pop_handles import Handle, real_topic
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import FailureError, RefusalError, Request, answer, ok

from .acknowledgements import acknowledge, acknowledge_orderly, offset_range
from .read_checks import ReadTarget

SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
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
        target = ReadTarget(group, real_topic(group, str(item["t"]), flag), int(item["q"]))
        start_offset, bits = int(item["so"]), base64.b64decode(item["b"])
        popped = Handle(start_offset, int(item["pt"]), int(item["it"]), int(item["rq"]), broker_name)
    except (KeyError, TypeError, ValueError) as error:
        raise FailureError(f"java.lang.NullPointerException: a batch ack without {error}") from None
    low, high = offset_range(broker, target.topic, target.queue_id)
    refusal: RefusalError | None = None
    for offset in _set_offsets(start_offset, bits, low, high):
        if not popped.is_orderly:
            acknowledge(broker, target, offset, popped)
            continue
        try:
            acknowledge_orderly(broker, request, target, offset, popped.pop_time_ms)
        except RefusalError as error:
            refusal = error
    return refusal


def _set_offsets(start_offset: int, bits: bytes, low: int, high: int) -> Iterator[int]:
    """Yield the offsets from low to high whose bits are set: a request may have millions of other bits."""
    for offset in range(max(low, start_offset), min(high, start_offset + 8 * len(bits) - 1) + 1):
        index, number = divmod(offset - start_offset, 8)
        if bits[index] >> number & 1:
            yield offset
