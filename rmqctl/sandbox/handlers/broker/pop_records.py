"""The records that real brokers write of pops and acknowledgements, for tools (PopCheckPoint, AckMsg).

They wait in rmq_sys_wheel_timer as timers do. Here they stay there: the sandbox revives from its own table.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from rmqctl.rules.message_wait import REAL_QUEUE_ID, REAL_TOPIC
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.pop.check_points import CheckPoint
from rmqctl.sandbox.request import RefusalError
from rmqctl.sandbox.storage.store import NewMessage
from rmqctl.sandbox.topics.table import TIMER_TOPIC

_REVIVE_PREFIX = "rmq_sys_REVIVE_LOG_"


def add_check_point(
    broker: Broker, group: str, topic: str, queue_id: int, start_offset: int, offsets: tuple[int, ...],
    pop_time_ms: int, invisible_ms: int, revive_queue_id: int,
) -> None:  # fmt: skip
    """Record popped messages, to be revived when their invisible time is over."""
    points, due_ms = broker.pop.check_points, pop_time_ms + invisible_ms
    points.put(CheckPoint(group, topic, queue_id, start_offset, pop_time_ms, due_ms, list(offsets)))
    _record_pop(broker, group, topic, queue_id, start_offset, offsets, pop_time_ms, invisible_ms, revive_queue_id)
    broker.pop.revival.arm()


def _record_pop(
    broker: Broker, group: str, topic: str, queue_id: int, start_offset: int, offsets: Sequence[int], pop_time_ms: int,
    invisible_ms: int, revive_queue_id: int,
) -> None:  # fmt: skip
    """Store the record of a check-point."""
    body = {
        "bm": 0, "bn": broker.name, "c": group, "d": [offset - start_offset for offset in offsets],
        "it": invisible_ms, "n": len(offsets), "pt": pop_time_ms, "q": queue_id,
        "reviveTime": pop_time_ms + invisible_ms, "ro": 0, "so": start_offset, "t": topic,
    }  # fmt: skip
    _record(broker, "ck", revive_queue_id, body)


def record_acknowledgement(
    broker: Broker, group: str, topic: str, queue_id: int, start_offset: int, queue_offset: int, pop_time_ms: int,
    revive_queue_id: int,
) -> None:  # fmt: skip
    """Store the record of one acknowledged message; each message of a batch gets its own record."""
    body = {
        "ao": queue_offset, "bn": broker.name, "c": group, "pt": pop_time_ms, "q": queue_id, "so": start_offset,
        "t": topic,
    }  # fmt: skip
    _record(broker, "ack", revive_queue_id, body)


def _record(broker: Broker, tag: str, revive_queue_id: int, body: dict[str, Any]) -> None:
    properties = {
        "TAGS": tag, REAL_TOPIC: f"{_REVIVE_PREFIX}{broker.cluster}", REAL_QUEUE_ID: str(revive_queue_id),
    }  # fmt: skip
    message = NewMessage(
        topic=TIMER_TOPIC, queue_id=0, body=msgspec.json.encode(body), properties=properties, flag=0, sys_flag=0,
        born_at_ms=broker.now_ms(), born_host=broker.store_host,
    )  # fmt: skip
    with suppress(RefusalError):  # the disk is full now; the table has it
        broker.deliver(message)
