"""How a consumer consumes: what it subscribes to, where it begins, what its listener says of a batch."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class ConsumeFromWhere(StrEnum):
    """Where a queue begins that has no stored offset (ConsumeFromWhere)."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class ConsumeStatus(StrEnum):
    """What a listener says of a batch (ConsumeConcurrentlyStatus)."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


class ConsumeResult(StrEnum):
    """What is counted of a batch, after its status or the lack of one (ConsumeReturnType, CMResult).

    TIME_OUT is a label for one that came back after its time; the status still decides what happens to its messages.
    """

    SUCCESS = "SUCCESS"
    TIME_OUT = "TIME_OUT"
    EXCEPTION = "EXCEPTION"
    RETURNNULL = "RETURNNULL"
    FAILED = "FAILED"


class Trouble(StrEnum):
    """What a consumer tells of: each kind can come by the thousand, and none must hide the others."""

    ROUTE = "ROUTE"
    PULL = "PULL"
    OFFSET = "OFFSET"
    LISTENER = "LISTENER"
    EXPIRED = "EXPIRED"
    SEND_BACK = "SEND_BACK"
    BLOCKED = "BLOCKED"
    STORE = "STORE"
    RESET = "RESET"
    SKIP = "SKIP"
    GROUP = "GROUP"
    STRATEGY = "STRATEGY"
    TIME_OUT = "TIME_OUT"
    UNREADABLE = "UNREADABLE"
    WORKERS = "WORKERS"
    LOOP_BLOCKED = "LOOP_BLOCKED"
    STOOD_STILL = "STOOD_STILL"


class Subscription(Struct, frozen=True):
    """What is consumed of a topic (SubscriptionData). `tags` and their `codes` are empty for all, and for SQL92.

    `version_ms` orders the subscriptions of a group's members: brokers keep the newest.
    """

    topic: str
    expression: str = "*"
    expression_type: str = "TAG"
    tags: frozenset[str] = frozenset()
    codes: frozenset[int] = frozenset()
    version_ms: int = 0
