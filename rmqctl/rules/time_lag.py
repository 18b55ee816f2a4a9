"""The age of a queue's oldest unread message, from samples of the end of the queue.

The idea is that of kafka-lag-exporter: the message was stored when the end of the queue passed its offset. Between two
samples, messages are taken to arrive evenly. A message that is older than all samples needs an anchor: the store time
of one message, which its broker reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from .health import Observation, in_order, of_one_log


class TimeLag(Struct, frozen=True):
    """An age in ms, None when unknown; `at_least_ms` is a lower bound: the message is older than all samples."""

    ms: int | None
    at_least_ms: int = 0


_UNKNOWN = TimeLag(None)


class Anchor(Struct, frozen=True):
    """When the message at an offset was stored, by the clock of the samples."""

    offset: int
    stored_ms: int


def interpolate_time_lag(observations: Sequence[Observation], anchors: Iterable[Anchor] = ()) -> TimeLag:
    """Return the age at the last sample; unknown when that sample does not show how far behind the group is."""
    looks = of_one_log(in_order(observations))
    if not looks or (behind := looks[-1].behind) is None:
        return _UNKNOWN
    if behind == 0:
        return TimeLag(0)
    last = looks[-1]
    offset = _first_unread(last)
    if offset is None:
        return TimeLag(0)
    ends = [(look.at_ms, look.max_offset) for look in looks if look.max_offset is not None]
    older = [each for each in anchors if each.offset <= offset and each.stored_ms < ends[0][0]]
    if older:
        anchor = max(older, key=lambda each: each.offset)
        ends.insert(0, (anchor.stored_ms, anchor.offset + 1))
        if anchor.offset == offset:
            return TimeLag(last.at_ms - anchor.stored_ms, last.at_ms - anchor.stored_ms)
    at = next(at for at, (_, end) in enumerate(ends) if end > offset)
    if at == 0:
        return TimeLag(None, last.at_ms - ends[0][0])
    (before_ms, before), (after_ms, after) = ends[at - 1], ends[at]
    stored_ms = before_ms + (after_ms - before_ms) * (offset + 1 - before) // (after - before)
    age_ms = last.at_ms - stored_ms
    return TimeLag(age_ms, age_ms)


def anchor_of(last: Observation, time_lag: TimeLag) -> Anchor | None:
    """Return the anchor that a known age gives, for when its samples are forgotten; None without unread messages."""
    offset = _first_unread(last)
    return None if offset is None or time_lag.ms is None else Anchor(offset, last.at_ms - time_lag.ms)


def _first_unread(look: Observation) -> int | None:
    """Return the offset of the first unread message that still exists, None without one."""
    offset = look.consumer_offset
    if offset is None or look.max_offset is None:
        return None
    if look.min_offset is not None:
        offset = max(offset, look.min_offset)
    return offset if offset < look.max_offset else None
