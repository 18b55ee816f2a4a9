"""How long a group was within its limits in each week."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .objective import WEEK_MS, Objective
from .states import GroupStates, LimitState

if TYPE_CHECKING:
    from .states import Bools, Ints

# A snapshot counts until the next one. After a longer gap, it counts for the usual time between two.
_MOST_GAPS = 2.5


class WeekTimes(NamedTuple):
    """A week of a group, up to `until_ms`: the measured times in ms, and the highest values at snapshots.

    `absent_ms` is part of no other time: the group was gone, or consumed nothing. `spell_count` counts the times that
    the group was outside of its limits without a break.
    """

    start_ms: int
    until_ms: int
    within_ms: int
    outside_ms: int
    unknown_ms: int
    absent_ms: int
    spell_count: int
    longest_ms: int
    lag_max: int | None
    time_lag_max_ms: int | None

    @property
    def unmeasured_ms(self) -> int:
        """The time without a snapshot."""
        measured_ms = self.within_ms + self.outside_ms + self.unknown_ms + self.absent_ms
        return self.until_ms - self.start_ms - measured_ms

    @property
    def within(self) -> float | None:
        """The share of the known time within the limits."""
        known_ms = self.within_ms + self.outside_ms
        return self.within_ms / known_ms if known_ms else None

    def budget_left(self, objective: float) -> float | None:
        """Return the share of the week's error budget that is left, below 0 if it is exceeded; None if all is unknown.

        The budget is the time of a whole week that the objective leaves, for example 1h40m of 99 %.
        """
        return None if self.within is None else 1 - self.outside_ms / ((1 - objective) * WEEK_MS)

    def judge(self, objective: float) -> Objective:
        """Return whether the objective is met, also if the group was outside in all the time that is not known."""
        budget_ms = (1 - objective) * WEEK_MS
        if self.outside_ms > budget_ms:
            return Objective.MISSED
        hidden_ms = self.unknown_ms + self.unmeasured_ms
        return Objective.UNKNOWN if self.outside_ms + hidden_ms > budget_ms or self.within is None else Objective.MET


def week_times(states: GroupStates, starts_ms: Sequence[int], until_ms: int) -> list[WeekTimes]:
    """Return the times of a group in weeks; the last one ends at `until_ms` if that is earlier."""
    ends_ms = _ends_ms(states.at_ms)
    is_outside = states.state == LimitState.OUTSIDE
    return [_week(states, ends_ms, is_outside, start_ms, min(start_ms + WEEK_MS, until_ms)) for start_ms in starts_ms]


def _ends_ms(at_ms: Ints) -> Ints:
    """Return until when each snapshot counts."""
    gaps_ms = np.diff(at_ms)
    usual_ms = int(np.median(gaps_ms)) if len(gaps_ms) else 0
    gaps_ms = np.append(gaps_ms, usual_ms)
    ends_ms: Ints = at_ms + np.where(gaps_ms > _MOST_GAPS * usual_ms, usual_ms, gaps_ms)
    return ends_ms


def _week(states: GroupStates, ends_ms: Ints, is_outside: Bools, start_ms: int, until_ms: int) -> WeekTimes:
    lengths_ms = np.maximum(0, np.minimum(ends_ms, until_ms) - np.maximum(states.at_ms, start_ms))
    sums = {state: int(lengths_ms[states.state == state].sum()) for state in LimitState}
    spells_ms = list(_spells_ms(lengths_ms, is_outside))
    is_here = (lengths_ms > 0) & (states.state != LimitState.ABSENT)
    return WeekTimes(
        start_ms=start_ms,
        until_ms=until_ms,
        within_ms=sums[LimitState.WITHIN],
        outside_ms=sums[LimitState.OUTSIDE],
        unknown_ms=sums[LimitState.UNKNOWN],
        absent_ms=sums[LimitState.ABSENT],
        spell_count=len(spells_ms),
        longest_ms=max(spells_ms, default=0),
        lag_max=int(states.lag[is_here].max()) if is_here.any() else None,
        time_lag_max_ms=int(states.time_lag_ms[is_here].max()) if is_here.any() else None,
    )


def _spells_ms(lengths_ms: Ints, is_outside: Bools) -> Iterator[int]:
    """Yield the length of each run of snapshots outside of the limits in a week."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], is_outside & (lengths_ms > 0), [False])).astype(np.int8)))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        yield int(lengths_ms[begin:end].sum())
