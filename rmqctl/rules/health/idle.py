"""When a queue with unread messages has been idle for too long for a member that consumes it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rmqctl.model.group import RunningInfo
from rmqctl.rules.member_settings import pulls_by_itself

from .verdict import HealthSettings

# An application that polls or pulls by itself may also pause between two polls, and commit on a schedule of its own.
POLL_OVERDUE_MS = 60_000
# Nagios ends a check after 60 s by default.
_SURE_WATCH_MS = 55_000
# A pull waits 15 s at the broker for messages, up to 5 s more until the broker checks, and some time in transit.
PULL_OVERDUE_MS = 30_000
# As in `rmqctl watch`: shorter, "does not move" is not distinguishable from "not committed yet" or a rebalance.
_LEAST_WATCH_MS = HealthSettings().least_span_ms


def idle_for_ms(now_ms: int | None, last_consume_at_ms: int | None, head_age_ms: int | None) -> int | None:
    """Return for how long a member with nothing in flight has not passed the next message, None when unknown.

    The message was stored `head_age_ms` ago, and the member has finished no other one since `last_consume_at_ms`.
    Clients set that time also when they take the queue.
    """
    if now_ms is None or last_consume_at_ms is None or head_age_ms is None:
        return None
    return min(now_ms - last_consume_at_ms, head_age_ms)


def is_overdue(idle_ms: int | None, watched_ms: int, limit_ms: int) -> bool | None:
    """Return whether a queue was idle for longer than the limit; None when only a longer watch can show it."""
    if max(idle_ms or 0, watched_ms) > limit_ms:
        return True
    return None if idle_ms is None else False


def is_abandoned(head_age_ms: int | None, watched_ms: int) -> bool | None:
    """Return whether nothing consumes a queue that no member reports and whose offset did not move while watched.

    None when only a longer watch can show it. It is sure only if is_sure_of_unheld().
    """
    if head_age_ms is not None and head_age_ms <= POLL_OVERDUE_MS:
        return False
    return True if watched_ms >= (POLL_OVERDUE_MS if head_age_ms is None else _LEAST_WATCH_MS) else None


def may_wait_for_polls(running: Iterable[RunningInfo]) -> bool | None:
    """Return whether a queue that no member reports may wait while others move: a poll serves one queue after another.

    That is so with one DefaultLitePullConsumer (of 4.9). With several, one may poll and another not: None.
    DefaultMQPullConsumer pulls each queue by itself.
    """
    pulling = [info for info in running if pulls_by_itself(info)]
    if not pulling or not all("pullThresholdForAll" in info.properties for info in pulling):
        return False
    return True if len(pulling) == 1 else None


def is_sure_of_unheld(watched_ms: int) -> bool:
    """Return whether a queue was watched for long enough that an application which commits would have moved it."""
    return watched_ms >= _SURE_WATCH_MS
