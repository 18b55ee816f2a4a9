"""Queues that stand still though there is something to read, and since when."""

from __future__ import annotations

from msgspec import Struct

from .facts import QueueFacts
from .verdict import Settings, why_unknown

_DEFAULTS = Settings()


class Stuck(Struct, frozen=True):
    """A queue that stands still. It is seen to since `since_ms`, and does so for `for_ms` at least.

    It can have begun earlier, but not before `after_ms`: when it was last seen elsewhere or with nothing to read, or
    when the last consumed message was stored; None where nothing tells.
    """

    offset: int
    behind: int
    since_ms: int
    for_ms: int
    after_ms: int | None


def find_stuck(facts: QueueFacts, settings: Settings = _DEFAULTS) -> Stuck | None:
    """Tell whether a queue has stood still for `stuck_ms` with messages to read, to its last known sample; else None.

    The time counts from when there was something to read: an offset rests as long as nothing comes. One sample is no
    proof, whatever `stuck_ms` is.
    """
    since_ms, last_ms = facts.still_from_ms, facts.last_ms
    if since_ms is None or last_ms is None or facts.offset_last is None or facts.behind_last is None:
        return None
    if why_unknown(facts, settings) is not None or last_ms == since_ms or last_ms - since_ms < settings.stuck_ms:
        return None
    # The broker's clock can be ahead of the one of the samples.
    bounds = [
        at_ms for at_ms in (facts.moved_at_ms, facts.last_timestamp_ms) if at_ms is not None and at_ms <= since_ms
    ]
    return Stuck(facts.offset_last, facts.behind_last, since_ms, last_ms - since_ms, max(bounds, default=None))
