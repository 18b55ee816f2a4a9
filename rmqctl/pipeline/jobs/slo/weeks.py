"""How long a group was within its limits in each week."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .objective import WeekReport, budget_ms, judge_week, week_end_ms
from .states import GroupStates, LimitState

if TYPE_CHECKING:
    from .states import Bools, Ints

# A snapshot counts until the next one. After a longer gap, it counts for the usual time between two.
_MOST_GAPS = 2.5


def week_reports(
    states: GroupStates, starts_ms: Sequence[int], until_ms: int, objective: float
) -> dict[int, WeekReport]:
    """Return what each week of a group comes to, by its start; the last one ends at `until_ms` if that is earlier."""
    ends_ms = _ends_ms(states.at_ms)
    is_outside = states.state == LimitState.OUTSIDE
    return {
        start_ms: _week(states, ends_ms, is_outside, start_ms, week_end_ms(start_ms, until_ms), objective)
        for start_ms in starts_ms
    }


def _ends_ms(at_ms: Ints) -> Ints:
    """Return until when each snapshot counts."""
    gaps_ms = np.diff(at_ms)
    usual_ms = int(np.median(gaps_ms)) if len(gaps_ms) else 0
    gaps_ms = np.append(gaps_ms, usual_ms)
    ends_ms: Ints = at_ms + np.where(gaps_ms > _MOST_GAPS * usual_ms, usual_ms, gaps_ms)
    return ends_ms


def _week(
    states: GroupStates, ends_ms: Ints, is_outside: Bools, start_ms: int, until_ms: int, objective: float
) -> WeekReport:
    lengths_ms = np.maximum(0, np.minimum(ends_ms, until_ms) - np.maximum(states.at_ms, start_ms))
    within_ms, outside_ms, unknown_ms, absent_ms = (
        int(lengths_ms[states.state == state].sum()) for state in LimitState
    )
    known_ms, unmeasured_ms = within_ms + outside_ms, until_ms - start_ms - int(lengths_ms.sum())
    spells_ms = list(_spells_ms(lengths_ms, is_outside))
    is_here = (lengths_ms > 0) & (states.state != LimitState.ABSENT)
    return WeekReport(
        state=judge_week(outside_ms, known_ms, unknown_ms + unmeasured_ms, objective),
        within=within_ms / known_ms if known_ms else None,
        budget_left=1 - outside_ms / budget_ms(objective) if known_ms else None,
        within_ms=within_ms,
        outside_ms=outside_ms,
        outside_count=len(spells_ms),
        outside_max_ms=max(spells_ms, default=0),
        unknown_ms=unknown_ms,
        unmeasured_ms=unmeasured_ms,
        absent_ms=absent_ms,
        lag_max=int(states.lag[is_here].max()) if is_here.any() else None,
        time_lag_max_ms=int(states.time_lag_ms[is_here].max()) if is_here.any() else None,
    )


def _spells_ms(lengths_ms: Ints, is_outside: Bools) -> Iterator[int]:
    """Yield the length of each run of snapshots outside of the limits in a week."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], is_outside & (lengths_ms > 0), [False])).astype(np.int8)))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        yield int(lengths_ms[begin:end].sum())
