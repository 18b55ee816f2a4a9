"""Queues that do not move although they have unread messages, and since when."""

from __future__ import annotations

from msgspec import Struct

from .facts import QueueFacts
from .verdict import HealthSettings, is_stuck, why_unknown

_DEFAULTS = HealthSettings()


class Stuck(Struct, frozen=True):
    """A queue that does not move: observed since `since_ms`, for at least `for_ms`.

    It can have stopped earlier, but not before `after_ms`: when it last had another offset or no unread messages, or
    when the last consumed message was stored; None when neither is known.
    """

    offset: int
    behind: int
    since_ms: int
    for_ms: int
    after_ms: int | None


def find_stuck(facts: QueueFacts, settings: HealthSettings = _DEFAULTS) -> Stuck | None:
    """Return the queue as stuck if, up to its last known sample, it did not move for `stuck_ms`; else None.

    The time counts only while messages are unread: an offset rests when no messages arrive.
    """
    since_ms, last_ms = facts.still_from_ms, facts.last_ms
    if since_ms is None or last_ms is None or facts.offset_last is None or facts.behind_last is None:
        return None
    if why_unknown(facts, settings) is not None or not is_stuck(facts, settings):
        return None
    # The broker's clock can be ahead of the clock of the samples.
    bounds = [
        at_ms for at_ms in (facts.moved_at_ms, facts.last_timestamp_ms) if at_ms is not None and at_ms <= since_ms
    ]
    return Stuck(facts.offset_last, facts.behind_last, since_ms, last_ms - since_ms, max(bounds, default=None))
