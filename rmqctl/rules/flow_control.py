"""Whether a queue may be pulled or popped, or has reached a limit in flight (DefaultMQPushConsumerImpl)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from rmqctl.model.group import RunningInfo
from rmqctl.model.queue import MessageQueue

from .member_settings import shared_queue

_MIB_BYTES = 1 << 20


class FlowControl(StrEnum):
    """The limit that keeps a queue from being pulled. BLOCKED: failed messages that no broker accepts back."""

    QUEUE_COUNT = "QUEUE_COUNT"
    QUEUE_SIZE = "QUEUE_SIZE"
    SPAN = "SPAN"
    TOPIC_COUNT = "TOPIC_COUNT"
    TOPIC_SIZE = "TOPIC_SIZE"
    BLOCKED = "BLOCKED"


class FlowLimits(Struct, frozen=True, kw_only=True):
    """How much may be in flight; None means no limit.

    pullThresholdForQueue, pullThresholdSizeForQueue, consumeConcurrentlyMaxSpan, pullThresholdForTopic and
    pullThresholdSizeForTopic.
    """

    queue_count: int | None = 1000
    queue_mib: int | None = 100
    span: int | None = 2000
    topic_count: int | None = None
    topic_mib: int | None = None


def decide(
    limits: FlowLimits, *, held_queue_count: int, count: int, size_bytes: int, span: int | None = None,
    is_blocked: bool = False,
) -> FlowControl | None:  # fmt: skip
    """Return the first limit that a queue exceeds, None when the queue may be pulled.

    `held_queue_count` is the number of all queues that the consumer holds, of every topic and the retry topic. A
    topic's limit is divided by it, and then replaces the queue's own limit, even a smaller one (RebalancePushImpl).
    `span` must be None for orderly consumption, which has no span limit.
    """
    if is_blocked:
        return FlowControl.BLOCKED
    if limits.topic_count is None:
        count_limit, count_hold = limits.queue_count, FlowControl.QUEUE_COUNT
    else:
        count_limit, count_hold = _share(limits.topic_count, held_queue_count), FlowControl.TOPIC_COUNT
    if count_limit is not None and count > count_limit:
        return count_hold
    if limits.topic_mib is None:
        mib_limit, size_hold = limits.queue_mib, FlowControl.QUEUE_SIZE
    else:
        mib_limit, size_hold = _share(limits.topic_mib, held_queue_count), FlowControl.TOPIC_SIZE
    # Whole MiB are compared: a limit of 100 is exceeded from 101 on.
    if mib_limit is not None and size_bytes // _MIB_BYTES > mib_limit:
        return size_hold
    if span is not None and limits.span is not None and span > limits.span:
        return FlowControl.SPAN
    return None


def _share(limit: int, held_queue_count: int) -> int:
    return max(1, limit // max(1, held_queue_count))


def flow_limits(properties: Mapping[str, str]) -> FlowLimits:
    """Return a client's limits from its properties; a missing one is the default of the Java client."""
    return FlowLimits(
        queue_count=_limit(properties, "pullThresholdForQueue", 1000),
        queue_mib=_limit(properties, "pullThresholdSizeForQueue", 100),
        span=_limit(properties, "consumeConcurrentlyMaxSpan", 2000),
        topic_count=_limit(properties, "pullThresholdForTopic", None),
        topic_mib=_limit(properties, "pullThresholdSizeForTopic", None),
    )


def may_pop(info: RunningInfo, mq: MessageQueue) -> bool:
    """Return whether a member may pop more from a queue that it pops from (popThresholdForQueue)."""
    count = info.pop_unacked.get(mq, info.pop_unacked.get(shared_queue(mq), 0))
    limit = _limit(info.properties, "popThresholdForQueue", 96)
    return limit is None or count <= limit


def _limit(properties: Mapping[str, str], name: str, default: int | None) -> int | None:
    try:
        value = int(properties.get(name, ""))
    except ValueError:
        return default
    return value if value >= 0 else None
