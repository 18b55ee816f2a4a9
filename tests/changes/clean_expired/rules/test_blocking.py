from __future__ import annotations

from typing import Any

import pytest

from rmqctl.changes.clean_expired.rules.blocking import describe_not_followed, find_block, is_delivered, is_passed
from rmqctl.model.group import ProcessQueueInfo
from rmqctl.model.plan import ListenerBlock
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.health.positions import Position, PositionPair
from rmqctl.rules.holder_report import Holder


def held(*, in_order: int = 0, called_ms: int | None = 5) -> ProcessQueueInfo:
    return ProcessQueueInfo(
        cached_count=3, cached_min_offset=10, cached_max_offset=12, commit_offset=10, dropped=False, locked_at_ms=7,
        last_consume_at_ms=called_ms, in_order_count=in_order, in_order_min_offset=10,
    )  # fmt: skip


IN_LISTENER, WAITS, AGAIN = held(in_order=1), held(), held(in_order=1, called_ms=9)
FREE: dict[str, Any] = {"thread_count": 20, "busy_count": 1}
ORDERLY: dict[str, Any] = {**FREE, "is_orderly": True}


@pytest.mark.parametrize(
    ("holder", "first", "last", "block"),
    [
        (FREE, WAITS, WAITS, None),
        ({**FREE, "busy_count": 20}, WAITS, WAITS, ListenerBlock.ALL_THREADS),
        ({**FREE, "busy_count": 25}, WAITS, WAITS, ListenerBlock.ALL_THREADS),
        # What it does not report is not 0.
        ({**FREE, "busy_count": None}, WAITS, WAITS, ListenerBlock.UNKNOWN),
        ({**FREE, "thread_count": None}, WAITS, WAITS, ListenerBlock.UNKNOWN),
        # The same call, during the whole watch.
        (ORDERLY, IN_LISTENER, IN_LISTENER, ListenerBlock.IN_ORDER),
        # No call at all: the new process queue waits for the call of an earlier one.
        (ORDERLY, WAITS, WAITS, ListenerBlock.IN_ORDER),
        ({**ORDERLY, "busy_count": None}, WAITS, WAITS, ListenerBlock.IN_ORDER),
        # It returns, and is called again.
        (ORDERLY, IN_LISTENER, AGAIN, None),
        ({**ORDERLY, "busy_count": 0}, WAITS, WAITS, None),
        # It answered only at the last sample, by which its message is stuck.
        (ORDERLY, None, IN_LISTENER, ListenerBlock.IN_ORDER),
        (ORDERLY, held(called_ms=None), held(called_ms=None), ListenerBlock.UNKNOWN),
        ({**ORDERLY, "busy_count": 20}, IN_LISTENER, AGAIN, ListenerBlock.ALL_THREADS),
    ],
)  # fmt: skip
def test_what_a_listener_that_does_not_return_blocks(
    holder: dict[str, Any], first: ProcessQueueInfo | None, last: ProcessQueueInfo, block: ListenerBlock | None
) -> None:
    watched = PositionPair(Position(10, 20, first), Position(10, 20, last), 10_000)
    assert find_block(Holder("c1", **holder), watched) is block


@pytest.mark.parametrize(
    ("holder", "first", "last", "delivered"),
    [
        (ORDERLY, IN_LISTENER, IN_LISTENER, True),
        (ORDERLY, WAITS, WAITS, False),
        (ORDERLY, None, WAITS, False),
        # It is tried again, and waits between two tries.
        (ORDERLY, IN_LISTENER, WAITS, True),
        # It reports nothing about order, but what its listener has.
        ({**ORDERLY, "head_for_ms": 5}, WAITS, WAITS, True),
        ({**FREE, "head_for_ms": 5}, WAITS, WAITS, True),
        (FREE, WAITS, WAITS, None),
    ],
)
def test_whether_a_listener_got_the_message(
    holder: dict[str, Any], first: ProcessQueueInfo | None, last: ProcessQueueInfo, delivered: bool | None
) -> None:
    watched = PositionPair(Position(10, 20, first), Position(10, 20, last), 10_000)
    assert is_delivered(Holder("c1", **holder), watched) is delivered


@pytest.mark.parametrize(("stored", "is_past"), [(None, False), (9, False), (10, False), (11, True), (2112, True)])
def test_a_client_that_has_not_followed_is_named(stored: int | None, is_past: bool) -> None:
    said = describe_not_followed(MessageQueue("T", "broker-a", 0), "c1", 10, stored)
    assert (said is not None) == is_past
    assert said is None or ("c1" in said and str(stored) in said)
    assert is_passed(Position(stored, 3000, WAITS)) == is_past
