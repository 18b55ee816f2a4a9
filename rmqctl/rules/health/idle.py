"""When a queue with unread messages has been idle for too long for a member that consumes it. Pure."""

from __future__ import annotations

from .verdict import HealthSettings

# A pull waits 15 s at the broker for messages, up to 5 s more until the broker checks, and some time in transit.
PULL_OVERDUE_MS = 30_000
# As in `rmqctl watch`: shorter, "does not move" is not distinguishable from "not committed yet" or a rebalance.
_LEAST_WATCH_MS = HealthSettings().least_span_ms
# Applications that pull by themselves may commit on a schedule of their own.
_LEAST_AGE_MS = 60_000


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

    None when only a longer watch can show it.
    """
    if head_age_ms is not None and head_age_ms <= _LEAST_AGE_MS:
        return False
    return True if watched_ms >= (_LEAST_AGE_MS if head_age_ms is None else _LEAST_WATCH_MS) else None
