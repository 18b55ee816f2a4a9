"""The growth of the lag of each queue, as rules/health computes it, over whole columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqctl.rules.health import Cause
from rmqctl.rules.health.facts import FLUCTUATION_MS, LEAST_LATER_COUNT, PART_COUNT
from rmqctl.rules.health.verdict import COMMIT_MS, LEAST_GROWTH

from .queue_samples import NumberColumn, QueueSamples, RowRuns, at_rows, known_where

if TYPE_CHECKING:
    from .queue_samples import Bools, Ints

_HALF = PART_COUNT // 2
# The results of lag_growth().
GROWTH_CAUSES = (Cause.TOO_FEW_SAMPLES, Cause.LAG_GROWS, Cause.LAG_STEADY, Cause.LAG_FALLS)
_TOO_FEW, _GROWS, _STEADY, _FALLS = range(len(GROWTH_CAUSES))


def growth_facts(samples: QueueSamples, stretches: RowRuns) -> dict[str, Any]:
    """Return the fields of QueueFacts that lag_growth() needs; `lows` has a column per part of the time."""
    known, end = _compared(samples, stretches), samples.max.values
    first, last = stretches.first(known), stretches.last(known)
    first_ms, last_ms = at_rows(samples.at_ms, first).values, at_rows(samples.at_ms, last).values
    of, at_ms, behind = stretches.of[known], samples.at_ms[known], samples.behind.values[known]
    eighth = -(-PART_COUNT * (at_ms - first_ms[of]) // np.maximum(1, last_ms - first_ms)[of]) - 1
    # Never descends, because samples are in order.
    place = of * PART_COUNT + np.maximum(0, eighth)
    counts = np.bincount(place, minlength=len(first) * PART_COUNT).reshape(-1, PART_COUNT)
    lows = np.zeros(counts.size, np.int64)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    lows[place[starts]] = np.minimum.reduceat(behind, starts)
    return {
        "lag_from_ms": at_rows(samples.at_ms, first),
        "lows": NumberColumn(lows.reshape(-1, PART_COUNT), counts > 0),
        "early_count": counts[:, :_HALF].sum(axis=1),
        "later_count": counts[:, _HALF:].sum(axis=1),
        "produced": at_rows(end, last).values - at_rows(end, first).values,
    }


def _compared(samples: QueueSamples, stretches: RowRuns) -> Bools:
    """Return the known samples since the queue was last caught up, all of a stretch where these are few."""
    known = samples.behind.known
    later = known & stretches.since(stretches.last(known & (samples.behind.values == 0)) + 1)
    first, last = stretches.first(later), stretches.last(later)
    span_ms = at_rows(samples.at_ms, last).values - at_rows(samples.at_ms, first).values
    is_enough = (stretches.count(later) >= LEAST_LATER_COUNT) & (span_ms >= FLUCTUATION_MS)
    return np.where(is_enough[stretches.of], later, known)


def is_growth_seen(facts: Mapping[str, Any]) -> Bools:
    """Return whether the lag of each row was compared in samples that are enough, and not caught up."""
    is_enough = (facts["early_count"] + facts["later_count"] >= LEAST_LATER_COUNT) & (_span_ms(facts) >= FLUCTUATION_MS)
    lowest = _lowest_in(facts["lows"], 0, PART_COUNT)
    return np.asarray(is_enough & ~(lowest.known & (lowest.values == 0)))


def growth_per_minute(facts: Mapping[str, Any]) -> NumberColumn:
    """Return QueueFacts.growth_per_minute of each row."""
    rise, climb = _rise_of_halves(facts["lows"]), _climb(facts)
    growth = np.where(climb.known, np.maximum(2 * rise.values, climb.values), 2 * rise.values)
    return known_where(np.rint(growth * 60_000.0 / _span_ms(facts)).astype(np.int64), rise.known)


def growth_causes(facts: Mapping[str, Any]) -> Ints:
    """Return lag_growth() of each row as an index of GROWTH_CAUSES.

    Numbers above 2**53 can be rounded differently from there.
    """
    lows, span_ms, produced = facts["lows"], _span_ms(facts), facts["produced"].astype(np.float64)
    fewest = np.minimum(facts["early_count"], facts["later_count"])
    rise = _rise(facts)
    least = np.maximum(1.0, produced / 2 / LEAST_GROWTH)
    per_commit = produced * COMMIT_MS / span_ms
    uncertain = np.maximum(least, per_commit * 3 / (fewest + 1))
    third, fourth = _lowest_in(lows, 4, 6), _lowest_in(lows, 6, 8)
    turn = np.maximum(least, per_commit * 12 / (fewest + 2))
    falls_again = third.known & fourth.known & (fourth.values < third.values - turn)
    random_rise = 4 * np.sqrt(np.minimum(lows.values.max(axis=1), produced / 2))
    fluctuates = ~_always_rises(lows) & (rise.values <= np.maximum(per_commit, random_rise))
    decided = (
        (~rise.known, _TOO_FEW),
        ((rise.values < -uncertain) | falls_again, _FALLS),
        (rise.values <= least, np.where(fewest > 1, _STEADY, _TOO_FEW)),
        (fluctuates, np.where(span_ms >= FLUCTUATION_MS, _STEADY, _TOO_FEW)),
        (rise.values > uncertain, _GROWS),
    )
    causes: Ints = np.select([applies for applies, _ in decided], [cause for _, cause in decided], _TOO_FEW)
    return causes


def _span_ms(facts: Mapping[str, Any]) -> Ints:
    """Return QueueFacts.lag_span_ms, 1 for 0: all samples are then in the first part."""
    span_ms: Ints = np.maximum(1, facts["last_ms"].values - facts["lag_from_ms"].values)
    return span_ms


def _rise(facts: Mapping[str, Any]) -> NumberColumn:
    """Return QueueFacts.rise of each row."""
    rise, climb = _rise_of_halves(facts["lows"]), _climb(facts)
    climbed = (climb.values / np.sqrt(2)).astype(np.int64)
    return NumberColumn(np.where(climb.known, np.maximum(rise.values, climbed), rise.values), rise.known)


def _rise_of_halves(lows: NumberColumn) -> NumberColumn:
    early, later = _lowest_in(lows, 0, _HALF), _lowest_in(lows, _HALF, PART_COUNT)
    return known_where(later.values - early.values, early.known & later.known)


def _climb(facts: Mapping[str, Any]) -> NumberColumn:
    """Return how much higher the lag is at the end than at the start, known where it only rises after a fall."""
    (values, known), part = facts["lows"], np.arange(PART_COUNT)
    latest = np.maximum.accumulate(np.where(known, part, -1), axis=1)
    before = np.roll(latest, 1, axis=1)
    before[:, 0] = -1
    falls = known & (before >= 0) & (values <= np.take_along_axis(values, np.maximum(before, 0), axis=1))
    turned = np.where(falls, part, -1).max(axis=1)
    has_risen = (turned > 0) & ((known & (part >= turned[:, np.newaxis])).sum(axis=1) >= _HALF)
    rows = np.arange(len(turned))
    climb = values[rows, latest[:, -1]] - values[rows, known.argmax(axis=1)]
    return known_where(climb, has_risen & (climb > 0) & (_span_ms(facts) >= FLUCTUATION_MS))


def _lowest_in(lows: NumberColumn, first: int, end: int) -> NumberColumn:
    values, known = lows.values[:, first:end], lows.known[:, first:end]
    lowest = np.where(known, values, np.iinfo(np.int64).max).min(axis=1)
    return known_where(lowest, np.logical_or.reduce(known, axis=1))


def _always_rises(lows: NumberColumn) -> Bools:
    """Return whether each known low is above the known one before it. No lag is below 0."""
    highest = np.maximum.accumulate(np.where(lows.known, lows.values, -1), axis=1)
    rises: Bools = (~lows.known[:, 1:] | (lows.values[:, 1:] > highest[:, :-1])).all(axis=1)
    return rises
