"""Facts of each queue per time window: those of rules/health and more, for millions of samples together.

Sums and comparisons are those of rules/health/facts.py and trend.py, over whole columns instead of sample by sample.
Verdicts come from rules/health itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec import convert

from rmqctl.rules.health import Cause, HealthSettings, QueueFacts, find_stuck, judge

from .growth import GROWTH_CAUSES, growth_causes, growth_facts, growth_per_minute, is_growth_seen
from .queue_samples import (
    NumberColumn,
    QueueSamples,
    RowNames,
    RowRuns,
    at_rows,
    in_order,
    of_one_log,
    samples_of,
    texts,
)
from .standing import UNCONSUMED, Standing

if TYPE_CHECKING:
    from .queue_samples import Bools, Floats, Ints

# The output columns: names, QueueFacts, lag and trend, verdict, owners.
MADE = (
    "window_start_ms", "window_end_ms", "cluster_label", "cluster", "consumer_group", "topic", "broker_name",
    "queue_id", "sample_count", "known_count", "until_ms", "first_ms", "last_ms", "behind_lowest", "behind_last",
    "lag_from_ms", "lows", "early_count", "later_count", "produced", "offset_last", "offset_highest", "has_moved",
    "lost_highest", "held_count", "unheld_count", "moved_at_ms", "still_from_ms", "last_timestamp_ms", "has_stored",
    "is_beyond_max", "is_none_stored", "has_max_gone_back", "lag_first", "lag_last", "lag_max", "lag_avg",
    "slope_msgs_per_s", "produce_rate", "consume_rate", "eta_s", "growth_per_minute", "status", "cause", "burrow_rule",
    "is_stuck", "client_id", "client_ids", "owner_change_count",
)  # fmt: skip
# Burrow's rules by number, in its own order: judge() applies the second before the first, and Burrow does not ask what
# was after a queue was caught up. None of them is UNKNOWN.
_RULES = {
    Cause.CAUGHT_UP: 1,
    Cause.FALLS_BEHIND: 1,
    Cause.WENT_BACK: 2,
    Cause.NOBODY_COMMITS: 3,
    Cause.STANDS_STILL: 4,
    Cause.LAG_GROWS: 5,
    Cause.LAG_STEADY: 5,
    Cause.LAG_FALLS: 5,
}
_DEFAULTS = HealthSettings()
# Results below this are exact; the rest of 64 bits is room for intermediate products.
_EXACT = 2.0**61


class Windows(NamedTuple):
    """Adjacent time windows of one length: one starts at `offset_ms`, the others before and after it.

    `until_ms` is the time of the last sample, or now: a window that ends later is complete only up to this time.
    """

    length_ms: int
    offset_ms: int
    until_ms: int


def facts_of(rows: pa.Table, windows: Windows, names: Sequence[str]) -> pa.Table:
    """Return one row per queue and window with these columns of MADE, from rows of offset_snapshots, at least one."""
    every_name = RowNames(rows)
    samples = in_order(samples_of(rows, every_name))
    window = (samples.at_ms - windows.offset_ms) // windows.length_ms
    is_new = np.ones(len(window), np.bool_)
    is_new[1:] = (samples.queue[1:] != samples.queue[:-1]) | (window[1:] != window[:-1])
    stretches = RowRuns(np.flatnonzero(is_new), len(is_new))
    starts_ms = window[stretches.starts] * windows.length_ms + windows.offset_ms
    until_ms = np.minimum(starts_ms + windows.length_ms, windows.until_ms)
    owners = _owners(samples, stretches, every_name.clients)
    named = _named(every_name, samples.take(stretches.starts))

    samples, stretches, has_max_gone_back = of_one_log(samples, stretches)
    facts = _queue_facts(samples, stretches, until_ms)
    facts["has_max_gone_back"] = has_max_gone_back
    columns = {
        "window_start_ms": starts_ms,
        "window_end_ms": starts_ms + windows.length_ms,
        **named,
        **facts,
        **_lag(samples, stretches),
        **_trend(samples, stretches),
        "growth_per_minute": growth_per_minute(facts),
        **_verdicts(facts, samples.standing[stretches.ends]),
        **owners,
    }
    return pa.table({name: _arrow(columns[name]) for name in names})


def _arrow(column: Any) -> Any:
    if isinstance(column, NumberColumn):
        numbers = pa.array(column.values.ravel(), mask=~column.known.ravel())
        if column.values.ndim == 1:
            return numbers
        count, width = column.values.shape
        return pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32) * width), numbers)
    return pa.array(column) if isinstance(column, np.ndarray) else column


def _named(names: RowNames, samples: QueueSamples) -> dict[str, Any]:
    """Return the columns that name the queues of some samples."""
    places = names.places.take(pa.array(samples.place))
    return {
        "cluster": texts(names.clusters, samples.cluster),
        **dict(zip(places.column_names, places.columns, strict=True)),
        "queue_id": samples.queue_id.astype(np.int32),
    }


# Facts


def _queue_facts(samples: QueueSamples, stretches: RowRuns, until_ms: Ints) -> dict[str, Any]:
    """Return the fields of QueueFacts, except has_max_gone_back, which of_one_log returns."""
    at_ms, consumer, behind, is_beyond_max = samples.at_ms, samples.consumer, samples.behind, samples.is_beyond_max
    known, tells = behind.known, behind.known | is_beyond_max | samples.is_none_stored
    has_offset = known & consumer.known
    last, telling, last_offset = stretches.last(known), stretches.last(tells), stretches.last(has_offset)
    lowest, highest = (find(consumer.values, has_offset) for find in (stretches.lowest, stretches.highest))
    may_be_lost = samples.min.known & consumer.known & ~is_beyond_max
    # Known without an offset means an empty queue.
    is_elsewhere = consumer.values != consumer.values[last[stretches.of]]
    moved = stretches.last(known & (is_elsewhere | (behind.values == 0)))
    return {
        "sample_count": stretches.sizes,
        "known_count": stretches.count(known),
        "until_ms": until_ms,
        "first_ms": at_rows(at_ms, stretches.first(known)),
        "last_ms": at_rows(at_ms, last),
        "behind_lowest": stretches.lowest(behind.values, known),
        "behind_last": at_rows(behind.values, last),
        **growth_facts(samples, stretches),
        "offset_last": at_rows(consumer.values, last_offset),
        "offset_highest": highest,
        "has_moved": lowest.values != highest.values,
        "lost_highest": stretches.highest(np.maximum(0, samples.min.values - consumer.values), may_be_lost),
        "held_count": stretches.count(samples.held.known & (samples.held.values == 1)),
        "unheld_count": stretches.count(samples.held.known & (samples.held.values == 0)),
        "moved_at_ms": at_rows(at_ms, moved),
        "still_from_ms": at_rows(at_ms, stretches.first(known & stretches.since(moved + 1))),
        "last_timestamp_ms": at_rows(samples.last_ms.values, stretches.last(samples.last_ms.known)),
        "has_stored": stretches.any(consumer.known),
        "is_beyond_max": (telling >= 0) & is_beyond_max[telling],
        "is_none_stored": (telling >= 0) & (samples.is_none_stored & ~known)[telling],
    }


def _lag(samples: QueueSamples, stretches: RowRuns) -> dict[str, Any]:
    """Return the lag as counted by `offset show`: at the first and the last sample, the maximum, the mean."""
    behind = samples.behind
    # A queue without waiting messages has a lag of 0, even without a committed offset.
    known = samples.lag.known | (behind.known & (behind.values == 0))
    count = stretches.count(known)
    sums = stretches.sum(samples.lag.values.astype(np.float64))
    lag = NumberColumn(samples.lag.values, known)
    with np.errstate(invalid="ignore"):
        mean = sums / count
    return {
        "lag_first": lag.take(stretches.starts),
        "lag_last": lag.take(stretches.ends),
        "lag_max": stretches.highest(lag.values, known),
        "lag_avg": NumberColumn(mean, count > 0),
    }


# The trend


def _trend(samples: QueueSamples, stretches: RowRuns) -> dict[str, Any]:
    """Return compute_trend() of each stretch."""
    has_both = samples.consumer.known & samples.max.known & ~samples.is_beyond_max
    first, last = stretches.first(has_both), stretches.last(has_both)
    has_any = last >= 0

    def from_first(values: Ints) -> Ints:
        return np.where(has_both, values - at_rows(values, first).values[stretches.of], 0)

    line = _Line(stretches, has_both, from_first(samples.at_ms))
    produced, consumed = line.slope(from_first(samples.max.values)), line.slope(from_first(samples.consumer.values))
    slope = line.slope(from_first(samples.max.values) - from_first(samples.consumer.values))
    behind = at_rows(samples.max.values - samples.consumer.values, last).values
    has_line = has_any & line.is_one
    falls = has_line & (slope < 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        eta_s = np.where(behind == 0, 0.0, behind / -slope)
    return {
        "slope_msgs_per_s": NumberColumn(slope, has_line),
        "produce_rate": NumberColumn(produced, has_line),
        "consume_rate": NumberColumn(consumed, has_line),
        "eta_s": NumberColumn(eta_s, has_any & ((behind == 0) | falls)),
    }


class _Line:
    """Least-squares lines of values over time; both start at 0 at the first row of each stretch.

    Sums are exact integers when they fit in 64 bits, else sums of floats around the mean.
    """

    def __init__(self, stretches: RowRuns, mask: Bools, at_ms: Ints) -> None:
        self._stretches, self._mask, self._at_ms = stretches, mask, at_ms
        self._count = stretches.count(mask)
        self._sum_ms = stretches.sum(at_ms)
        self._most_ms = stretches.highest(at_ms, mask).values
        self._around_ms = np.where(mask, at_ms - (self._sum_ms / np.maximum(self._count, 1))[stretches.of], 0.0)
        self._denominator = self._products(at_ms)
        self.is_one: Bools = self._denominator > 0

    def slope(self, values: Ints) -> Floats:
        """Return the growth of the values per second, or 0 without a line."""
        return np.where(self.is_one, self._products(values) * 1000 / np.where(self.is_one, self._denominator, 1), 0.0)

    def _products(self, values: Ints) -> Floats:
        """Return count * sum(at_ms * value) - sum(at_ms) * sum(value)."""
        stretches = self._stretches
        most = stretches.highest(np.abs(values), self._mask).values
        is_exact = self._count.astype(np.float64) ** 2 * self._most_ms * most < _EXACT
        # Beyond 64 bits these are wrong, and not used.
        exact = self._count * stretches.sum(self._at_ms * values) - self._sum_ms * stretches.sum(values)
        if is_exact.all():
            return exact.astype(np.float64)
        around = stretches.sum(self._around_ms * values)
        noise = stretches.sum(np.abs(self._around_ms * values)) * 1e-13
        return np.where(is_exact, exact, np.where(np.abs(around) > noise, around, 0.0) * self._count)


# Verdicts


def _verdicts(facts: dict[str, Any], standing: Ints, settings: HealthSettings = _DEFAULTS) -> dict[str, Any]:
    """Return the results of judge() and find_stuck() for each row, or why the group does not consume the queue.

    Both depend on a few yes-or-no questions. Rows with the same answers have the same results, so one row of each kind
    is judged: millions of rows have a few dozen kinds. growth_causes() answers the questions about the lag's growth.
    """
    answers = _answers(facts, settings)
    kinds = standing.astype(np.int64)
    for answer in answers:
        kinds = kinds * 2 + answer
    _, examples, kind = np.unique(kinds, return_index=True, return_inverse=True)
    judged = _facts_of_rows(facts, examples)
    verdicts = [judge(each, settings) for each in judged]
    found = [
        (str(verdict.health), str(verdict.cause), _RULES.get(verdict.cause), find_stuck(each, settings) is not None)
        if (unconsumed := UNCONSUMED.get(Standing(standing[at]))) is None
        else (*unconsumed, None, False)
        for at, each, verdict in zip(examples, judged, verdicts, strict=True)
    ]
    healths, causes, rules, stuck = zip(*found, strict=True)

    def each(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
        return pa.array(values, type_).take(pa.array(kind))

    return {
        "status": each(healths, pa.string()),
        "cause": each(causes, pa.string()),
        "burrow_rule": each(rules, pa.int32()),
        "is_stuck": np.array(stuck)[kind],
    }


def _answers(facts: dict[str, Any], settings: HealthSettings) -> list[Bools]:
    """Return the yes-or-no answers to all questions of judge() and find_stuck(), each for every row."""
    known_count, first_ms, last_ms = facts["known_count"], facts["first_ms"], facts["last_ms"]
    span_ms = last_ms.values - first_ms.values
    silent_ms = np.where(last_ms.known, facts["until_ms"] - last_ms.values, 0)
    lowest, still, growth = facts["behind_lowest"], facts["still_from_ms"], growth_causes(facts)
    still_ms = last_ms.values - still.values
    return [
        known_count > 0,
        known_count >= settings.least_count,
        span_ms >= settings.least_span_ms,
        silent_ms > np.maximum(span_ms, settings.least_span_ms),
        lowest.known & (lowest.values <= settings.lag_allowance),
        is_growth_seen(facts),
        facts["behind_last"].values > settings.lag_allowance,
        facts["offset_last"].values < facts["offset_highest"].values,
        facts["offset_last"].known,
        facts["has_moved"],
        facts["has_stored"],
        facts["is_beyond_max"],
        facts["is_none_stored"],
        facts["held_count"] == 0,
        facts["unheld_count"] >= settings.least_count,
        still.known & (still_ms > 0) & (still_ms >= settings.stuck_ms),
        *(growth == number for number in range(len(GROWTH_CAUSES) - 1)),
    ]


def _facts_of_rows(facts: dict[str, Any], rows: Ints) -> list[QueueFacts]:
    table = pa.table({name: _arrow(facts[name].take(rows)) for name in QueueFacts.__struct_fields__})
    return convert(table.to_pylist(), list[QueueFacts])


# Owners


def _owners(samples: QueueSamples, stretches: RowRuns, clients: pa.Array) -> dict[str, Any]:
    """Return the owner of the queue at the last sample, all known owners, and the number of changes between them."""
    known = samples.client >= 0
    before = stretches.previous(known)
    is_first, is_other = known & (before < 0), known & (before >= 0) & (samples.client != samples.client[before])
    # Each client of a stretch once: pairs of both numbers, in the order of the stretches.
    pairs = np.unique((stretches.of * (len(clients) + 1) + samples.client)[is_first | is_other])
    stretch, client = np.divmod(pairs, len(clients) + 1)
    ends = np.searchsorted(stretch, np.arange(len(stretches.starts) + 1)).astype(np.int32)
    return {
        "client_id": texts(clients, samples.client[stretches.ends]),
        "client_ids": pa.ListArray.from_arrays(pa.array(ends), texts(clients, client)),
        "owner_change_count": stretches.count(is_other),
    }
