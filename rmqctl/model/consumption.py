"""How a consumer consumes: where it starts, what its listener returns for a batch."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct


class ConsumeFromWhere(StrEnum):
    """Where consumption starts in a queue that has no stored offset (ConsumeFromWhere)."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class ConsumeStatus(StrEnum):
    """What a listener returns for a batch (ConsumeConcurrentlyStatus)."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


class ConsumeOrderlyStatus(StrEnum):
    """What an orderly listener returns for a batch (ConsumeOrderlyStatus).

    COMMIT and ROLLBACK are for batches without auto_commit: acknowledge everything that succeeded since the last
    COMMIT, or consume it again.
    """

    SUCCESS = "SUCCESS"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


class ConsumeResult(StrEnum):
    """How a batch is counted, by its status or the lack of one (ConsumeReturnType, CMResult).

    TIME_OUT is a label for a batch that finished late; the status still decides what happens to its messages.
    """

    SUCCESS = "SUCCESS"
    TIME_OUT = "TIME_OUT"
    EXCEPTION = "EXCEPTION"
    RETURNNULL = "RETURNNULL"
    FAILED = "FAILED"


class ConsumerCounts(Struct, frozen=True, kw_only=True):
    """What a consumer has done since its start, in messages.

    `failed` counts failures: a message can fail several times. `expired` is the part of them that took too long.
    `sent_back` and `dead` are the failed ones that a broker accepted, for a retry or as a dead letter; `waiting` are
    those that were sent back and that this member has not consumed since. `skipped` were acknowledged unread.
    `results` counts batches by how their listener returned.
    """

    ok: int
    failed: int
    expired: int
    skipped: int
    sent_back: int
    dead: int
    waiting: int
    results: Mapping[ConsumeResult, int]


class ConsumerWarning(StrEnum):
    """What a consumer reports: each kind can occur thousands of times, and none may hide the others."""

    ROUTE = "ROUTE"
    HEARTBEAT = "HEARTBEAT"
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
    TAKE = "TAKE"
    LOCK = "LOCK"
    REBALANCE = "REBALANCE"
    BUG = "BUG"
    LEFT = "LEFT"
