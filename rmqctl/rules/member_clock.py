"""How far a member's clock is from ours, by the times that it reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from rmqctl.model.group import RunningInfo
from rmqctl.model.queue import MessageQueue

from .clock_skew import ClockBounds, SkewBounds
from .member_settings import member_settings

_MS_NS = 1_000_000
# The year 3000 in ms. A version beyond it is in ns, as Go clients write it.
MAX_VERSION_MS = 32_503_680_000_000
# rmqctl's own members set their versions by the brokers' clocks.
_OWN_LANGUAGE = "PYTHON"

Times = Mapping[tuple[object, str], int]


class ConsumedMessage(Struct, frozen=True):
    """A message that a member has consumed, so that it was stored earlier.

    `after_ms` is a later time that the member reports, by its own clock; `stored_at_ms` is by the broker's clock, whose
    skew against ours is `broker`.
    """

    after_ms: int
    stored_at_ms: int
    broker: SkewBounds


def member_clock(looks: Sequence[RunningInfo], consumed: Iterable[ConsumedMessage] = ()) -> ClockBounds:
    """Return what a member's answers prove about its clock; `looks` are in the order of the requests.

    A time that a member recorded is before its answer, which gives a lower bound. A time that the previous answer did
    not contain is after the request for that answer, which gives an upper bound as well. Sources that contradict each
    other mean that a clock was set meanwhile; then the latest one counts.
    """
    timed = [look for look in looks if look.asked_at_ms is not None and look.answered_at_ms is not None]
    bounds = ClockBounds()
    for before, after in pairwise(timed):
        bounds = _narrowed(_between(before, after), bounds)
    bounds = _narrowed(bounds, _before_answers((look, _pull_times(look)) for look in timed))
    older = _before_answers((look, {**written_times(look), **_other_times(look)}) for look in timed)
    highs = [each.after_ms - each.stored_at_ms + each.broker.high_ms + 1 for each in consumed]
    return _narrowed(_narrowed(bounds, ClockBounds(None, min(highs, default=None))), older)


def written_times(info: RunningInfo) -> dict[tuple[object, str], int]:
    """Return the times that a member reports for its queues, by queue and kind; they change while it consumes."""
    times: dict[tuple[object, str], int] = {}
    for mq, held in info.process_queues.items():
        for kind, at_ms in (("consume", held.last_consume_at_ms), ("lock", held.locked_at_ms)):
            if at_ms is not None:
                times[mq, kind] = at_ms
    return {**times, **_pull_times(info)}


def _pull_times(info: RunningInfo) -> dict[tuple[object, str], int]:
    """Return when each queue was last pulled or popped: at least every 20 s, even if no messages arrive."""
    pulls: dict[MessageQueue, int | None] = {mq: held.last_pull_at_ms for mq, held in info.process_queues.items()}
    return {(mq, "pull"): at_ms for mq, at_ms in {**pulls, **info.popped_at_ms}.items() if at_ms is not None}


def _other_times(info: RunningInfo) -> dict[tuple[object, str], int]:
    """Return when it started, and the versions of its subscriptions, which change when its queues do."""
    versions = () if info.properties.get("language") == _OWN_LANGUAGE else info.subscriptions
    times: dict[tuple[object, str], int] = {(each.topic, "version"): version_ms(each.version_ms) for each in versions}
    started_at_ms = member_settings(info).started_at_ms
    return times if started_at_ms is None else {**times, ("", "start"): started_at_ms}


def version_ms(version: int) -> int:
    """Return a subscription's version in ms, also if a Go client wrote it in ns."""
    return version // _MS_NS if version > MAX_VERSION_MS else version


def _between(before: RunningInfo, after: RunningInfo) -> ClockBounds:
    """Return what the times recorded between two answers prove."""
    old, new = ({**written_times(look), **_other_times(look)} for look in (before, after))
    # A queue that is new in an answer may have been assigned some seconds before it was reported.
    fresh = [at_ms for key, at_ms in new.items() if key in old and at_ms != old[key]]
    if not fresh or before.asked_at_ms is None or after.answered_at_ms is None:
        return ClockBounds()
    # All were read as whole ms, rounded down.
    return ClockBounds(max(fresh) - after.answered_at_ms - 1, min(fresh) - before.asked_at_ms + 1)


def _before_answers(looks: Iterable[tuple[RunningInfo, Times]]) -> ClockBounds:
    lows = (
        max(times.values()) - look.answered_at_ms - 1
        for look, times in looks
        if times and look.answered_at_ms is not None
    )
    return ClockBounds(max(lows, default=None))


def _narrowed(bounds: ClockBounds, by: ClockBounds) -> ClockBounds:
    """Return bounds narrowed by other bounds, unless the two contradict each other."""
    low_ms = max((each for each in (bounds.low_ms, by.low_ms) if each is not None), default=None)
    high_ms = min((each for each in (bounds.high_ms, by.high_ms) if each is not None), default=None)
    if low_ms is None or high_ms is None or low_ms <= high_ms:
        return ClockBounds(low_ms, high_ms)
    return bounds
