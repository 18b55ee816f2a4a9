from __future__ import annotations

from typing import Any

import pytest

from rmqctl.rules.flow_control import FlowControl, FlowLimits, decide

MIB = 1 << 20


def _decide(limits: FlowLimits | None = None, **given: Any) -> FlowControl | None:
    values: dict[str, Any] = {"held_queue_count": 4, "count": 0, "size_bytes": 0, "span": 0, **given}
    return decide(limits or FlowLimits(), **values)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"count": 1000}, None),
        ({"count": 1001}, FlowControl.QUEUE_COUNT),
        ({"size_bytes": 101 * MIB - 1}, None),
        ({"size_bytes": 101 * MIB}, FlowControl.QUEUE_SIZE),
        ({"span": 2000}, None),
        ({"span": 2001}, FlowControl.SPAN),
        # Orderly consumption has no limit of its span.
        ({"span": None}, None),
        ({"count": 1001, "size_bytes": 101 * MIB, "span": 2001}, FlowControl.QUEUE_COUNT),
        ({"size_bytes": 101 * MIB, "span": 2001}, FlowControl.QUEUE_SIZE),
        ({"is_blocked": True}, FlowControl.BLOCKED),
    ],
)
def test_a_queue_is_held_above_its_limits(given: dict[str, Any], expected: FlowControl | None) -> None:
    assert _decide(**given) is expected


def test_limits_of_none_hold_nothing() -> None:
    limits = FlowLimits(queue_count=None, queue_mib=None, span=None)
    assert _decide(limits, count=10**9, size_bytes=10**15, span=10**9) is None


def test_a_limit_of_a_topic_is_divided_by_the_queues_that_are_held() -> None:
    limits = FlowLimits(topic_count=100, topic_mib=10)
    assert _decide(limits, held_queue_count=3, count=33) is None
    assert _decide(limits, held_queue_count=3, count=34) is FlowControl.TOPIC_COUNT
    assert _decide(limits, held_queue_count=3, size_bytes=4 * MIB - 1) is None
    assert _decide(limits, held_queue_count=3, size_bytes=4 * MIB) is FlowControl.TOPIC_SIZE
    assert _decide(limits, held_queue_count=0, count=100) is None


def test_a_share_of_a_topic_is_never_less_than_one() -> None:
    limits = FlowLimits(topic_count=2, topic_mib=2)
    assert _decide(limits, held_queue_count=50, count=1, size_bytes=2 * MIB - 1) is None
    assert _decide(limits, held_queue_count=50, count=2) is FlowControl.TOPIC_COUNT
    assert _decide(limits, held_queue_count=50, size_bytes=2 * MIB) is FlowControl.TOPIC_SIZE


def test_a_limit_of_a_topic_takes_the_place_of_the_queues_even_where_it_is_larger() -> None:
    limits = FlowLimits(queue_count=10, queue_mib=1, topic_count=10_000, topic_mib=1000)
    assert _decide(limits, held_queue_count=2, count=5000, size_bytes=500 * MIB) is None
    assert _decide(limits, held_queue_count=2, count=5001) is FlowControl.TOPIC_COUNT
