"""The facts about a queue in a window of samples, as numbers that an SQL window function can compute too."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from math import sqrt
from operator import ge

from msgspec import Struct

from .observation import Observation, in_order, of_one_log

# The number of parts of the time in which the lags are compared.
PART_COUNT = 8
# In less time, the parts have too few commits to show that a lag fluctuates.
FLUCTUATION_MS = 240_000
# As many samples show that a queue falls behind after it was caught up.
LEAST_LATER_COUNT = 3


class QueueFacts(Struct, frozen=True, kw_only=True):
    """The facts in a window. A sample is known when it shows how far behind the group is (`Observation.behind`).

    In SQL, over the samples that of_one_log() returns, ordered by at_ms; "known" means "where behind is not null":

    - `sample_count`, `known_count`: count(*), and count(*) of the known.
    - `until_ms`: the end of the window. `first_ms`, `last_ms`: min and max of at_ms, of the known.
    - `behind_lowest`, `behind_last`: min and last of behind, of the known.
    - `lag_from_ms`: min(at_ms) of the known after the last one that is behind by 0, if they are at least 3 in at least
      4 minutes; else `first_ms`. Since then the lag is compared.
    - `lows`: min of behind, of the known since lag_from_ms, in each eighth of their time, which includes its end:
      8 * (at_ms - lag_from_ms) <= eighth * (last_ms - lag_from_ms). None for an eighth without samples.
    - `early_count`, `later_count`: count(*) of these in the first half of the eighths, and in the second.
    - `produced`: last minus first of max_offset, of these.
    - `offset_last`, `offset_highest`, `has_moved`: last (not null) and max of consumer_offset, and min <> max, of the
      known.
    - `lost_highest`: max of greatest(0, min_offset - consumer_offset), of all samples not beyond the end: the most
      deleted, unread messages in any sample.
    - `held_count`, `unheld_count`: samples in which a member holds the queue, and in which no member does.
    - `moved_at_ms`: max(at_ms) of the known that have another offset than the last, or are behind by 0: since then the
      queue has not moved, with unread messages. `still_from_ms`: min(at_ms) of the known after that, None when the last
      one has no unread messages.
    - `last_timestamp_ms`: the last known one.
    - `has_stored`: any consumer_offset is known. `is_beyond_max`, `is_none_stored`: of the last conclusive sample
      (behind is known, or the offset is beyond the end, or none is stored).
    - `has_max_gone_back`: max_offset < the previous one, anywhere in the window.
    """

    sample_count: int
    known_count: int
    until_ms: int | None = None
    first_ms: int | None = None
    last_ms: int | None = None
    behind_lowest: int | None = None
    behind_last: int | None = None
    lag_from_ms: int | None = None
    lows: tuple[int | None, ...] = ()
    early_count: int = 0
    later_count: int = 0
    produced: int = 0
    offset_last: int | None = None
    offset_highest: int | None = None
    has_moved: bool = False
    lost_highest: int | None = None
    held_count: int = 0
    unheld_count: int = 0
    moved_at_ms: int | None = None
    still_from_ms: int | None = None
    last_timestamp_ms: int | None = None
    has_stored: bool = False
    is_beyond_max: bool = False
    is_none_stored: bool = False
    has_max_gone_back: bool = False

    @property
    def has_gone_back(self) -> bool:
        """Whether the offset is below its highest: it went back, and has not caught up since."""
        return (
            self.offset_last is not None and self.offset_highest is not None and self.offset_last < self.offset_highest
        )

    def lowest_in(self, first: int, end: int) -> int | None:
        """Return the lowest of `lows` from index `first` to before `end`, None without any."""
        return min((low for low in self.lows[first:end] if low is not None), default=None)

    @property
    def rise(self) -> int | None:
        """How much higher the lag was in the second half of the time than in the first, at its lowest, or its climb.

        The climb is that of all the time. In twice the time, a queue that is filled at random varies by sqrt(2) more.
        """
        rise, climb = self._rise_of_halves, self._climb
        return rise if rise is None or climb is None else max(rise, int(climb / sqrt(2)))

    @property
    def growth_per_minute(self) -> int | None:
        """How much the lag grows per minute: the rise is that of half the time, the climb that of all."""
        rise = self._rise_of_halves
        return None if rise is None else round(max(2 * rise, self._climb or 2 * rise) * 60_000 / self.lag_span_ms)

    @property
    def _rise_of_halves(self) -> int | None:
        early, later = self.lowest_in(0, PART_COUNT // 2), self.lowest_in(PART_COUNT // 2, PART_COUNT)
        return None if early is None or later is None else later - early

    @property
    def _climb(self) -> int | None:
        """How much higher the lag is at the end than at the start, if it only rises after a fall; else None.

        It must have risen in each eighth since then, and these are at least half of all.
        """
        lows = [low for low in self.lows if low is not None]
        turned = max((index for index, pair in enumerate(pairwise(lows), 1) if ge(*pair)), default=0)
        has_risen = turned > 0 and len(lows) - turned >= PART_COUNT // 2 and lows[-1] > lows[0]
        return lows[-1] - lows[0] if has_risen and self.lag_span_ms >= FLUCTUATION_MS else None

    @property
    def span_ms(self) -> int:
        """How long the group was watched: from the first known sample to the last."""
        return 0 if self.first_ms is None or self.last_ms is None else self.last_ms - self.first_ms

    @property
    def lag_span_ms(self) -> int:
        """How long the lag is compared: from lag_from_ms to the last known sample."""
        return 0 if self.lag_from_ms is None or self.last_ms is None else self.last_ms - self.lag_from_ms


def facts_of(observations: Collection[Observation], *, until_ms: int | None = None) -> QueueFacts:
    """Collect the facts of one queue; the order of the samples does not matter.

    `until_ms` is the end of the window, or now. Without it the window ends with its last sample, so it does not show
    when the sampling itself has stopped.
    """
    ordered = in_order(observations)
    looks = of_one_log(ordered)
    if not looks:
        return QueueFacts(sample_count=0, known_count=0, until_ms=until_ms)
    end = looks[-1].at_ms if until_ms is None else until_ms
    known = [(look.at_ms, behind, look.consumer_offset) for look in looks if (behind := look.behind) is not None]
    compared = _compared(known)
    parts = _parts(compared)
    ends = [look.max_offset for look in looks if look.behind is not None and look.max_offset is not None]
    ends = ends[len(ends) - len(compared) :]
    telling = next((look for look in reversed(looks) if _tells(look)), None)
    behinds = [behind for _, behind, _ in known]
    offsets = [offset for _, _, offset in known if offset is not None]
    held = [look.is_held for look in looks]
    moved_at_ms, still_from_ms = _standing_still(known)
    return QueueFacts(
        sample_count=len(looks),
        known_count=len(known),
        until_ms=end,
        first_ms=known[0][0] if known else None,
        last_ms=known[-1][0] if known else None,
        behind_lowest=min(behinds, default=None),
        behind_last=behinds[-1] if behinds else None,
        lag_from_ms=compared[0][0] if compared else None,
        lows=tuple(min(part, default=None) for part in parts),
        early_count=sum(map(len, parts[: PART_COUNT // 2])),
        later_count=sum(map(len, parts[PART_COUNT // 2 :])),
        produced=ends[-1] - ends[0] if ends else 0,
        offset_last=offsets[-1] if offsets else None,
        offset_highest=max(offsets, default=None),
        has_moved=offsets.count(offsets[0]) < len(offsets) if offsets else False,
        lost_highest=_lost_highest(looks),
        held_count=held.count(True),
        unheld_count=held.count(False),
        moved_at_ms=moved_at_ms,
        still_from_ms=still_from_ms,
        last_timestamp_ms=next(
            (look.last_timestamp_ms for look in reversed(looks) if look.last_timestamp_ms is not None), None
        ),
        has_stored=any(look.consumer_offset is not None for look in looks),
        is_beyond_max=telling is not None and telling.is_beyond_max,
        is_none_stored=telling is not None and telling.is_none_stored and telling.behind is None,
        has_max_gone_back=len(looks) < len(ordered),
    )


def _compared(known: Sequence[tuple[int, int, int | None]]) -> Sequence[tuple[int, int, int | None]]:
    """Return the samples since the queue was last caught up, all if these are few."""
    later = known[max((index + 1 for index, (_, behind, _) in enumerate(known) if behind == 0), default=0) :]
    is_enough = len(later) >= LEAST_LATER_COUNT and later[-1][0] - later[0][0] >= FLUCTUATION_MS
    return later if is_enough else known


def _parts(known: Sequence[tuple[int, int, int | None]]) -> list[list[int]]:
    """Return how far behind the queue was in each part of the time."""
    parts: list[list[int]] = [[] for _ in range(PART_COUNT)]
    if known:
        first_ms, span_ms = known[0][0], known[-1][0] - known[0][0]
        for at_ms, behind, _ in known:
            parts[max(0, -(-PART_COUNT * (at_ms - first_ms) // span_ms) - 1) if span_ms else 0].append(behind)
    return parts


def _lost_highest(looks: Sequence[Observation]) -> int | None:
    below = [
        look.min_offset - look.consumer_offset
        for look in looks
        if look.min_offset is not None and look.consumer_offset is not None and not look.is_beyond_max
    ]
    return max(0, *below) if below else None


def _tells(look: Observation) -> bool:
    return look.behind is not None or look.is_beyond_max or look.is_none_stored


def _standing_still(known: Sequence[tuple[int, int, int | None]]) -> tuple[int | None, int | None]:
    """Return when the queue last had another offset or no unread messages, and since when it has not moved."""
    still_from_ms: int | None = None
    for at_ms, behind, offset in reversed(known):
        if behind == 0 or offset != known[-1][2]:
            return at_ms, still_from_ms
        still_from_ms = at_ms
    return None, still_from_ms
