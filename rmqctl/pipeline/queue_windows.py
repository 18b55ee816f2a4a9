"""What windows of time show of each queue: the facts of rules/health and more, for millions of samples at once.

Runs in Spark's tasks (mapInArrow), which have all rows of a queue in one place. Sums and comparisons are those of
rules/health/facts.py and trend.py, over whole columns instead of sample by sample; verdicts are given by rules/health
itself. Window functions of Spark make the same facts in twice the time (tests/spark/bench_lag.py).
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from rmqctl.rules.health import Cause, QueueFacts, Settings, find_stuck, judge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Floats: TypeAlias = NDArray[np.float64]
    Bools: TypeAlias = NDArray[np.bool_]

# What is one text on the way here: texts are most of the cost of a row. The last may hold anything.
NAMES = ("cluster", "consumer_group", "topic", "broker_name", "client_id")
BETWEEN_NAMES = "\0"
_NUMBERS = ("consumer_offset", "max_offset", "min_offset", "lag_messages", "last_ms")
_FLAGS = ("is_held", "is_none_stored")
# The columns of samples that this takes, and their types for Spark. `names` are NAMES, those that are null empty.
TAKEN = (
    "names string, queue_id int, at_ms bigint, consumer_offset bigint, max_offset bigint, min_offset bigint,"
    " lag_messages bigint, last_ms bigint, is_held boolean, is_none_stored boolean"
)
# The columns that it makes: names, QueueFacts, lag and trend, verdict, owners.
MADE = (
    "window_start_ms bigint, window_end_ms bigint, cluster string, consumer_group string, topic string,"
    " broker_name string, queue_id int,"
    " sample_count bigint, known_count bigint, until_ms bigint, first_ms bigint, last_ms bigint, behind_lowest bigint,"
    " behind_last bigint, has_lag_fallen boolean, offset_last bigint, offset_highest bigint, has_moved boolean,"
    " lost_highest bigint, held_count bigint, unheld_count bigint, moved_at_ms bigint, still_from_ms bigint,"
    " last_timestamp_ms bigint, has_stored boolean, is_beyond_max boolean, is_none_stored boolean,"
    " has_max_gone_back boolean,"
    " lag_first bigint, lag_last bigint, lag_max bigint, lag_avg double,"
    " slope_msgs_per_s double, produce_rate double, consume_rate double, eta_s double,"
    " status string, cause string, burrow_rule int, is_stuck boolean,"
    " client_id string, client_ids array<string>, owner_change_count bigint"
)
# Burrow's rules by number, as rules/health/verdict.py lists them; what is UNKNOWN comes of none.
_RULES = {
    Cause.CAUGHT_UP: 1,
    Cause.WENT_BACK: 2,
    Cause.NOBODY_COMMITS: 3,
    Cause.STANDS_STILL: 4,
    Cause.LAG_NEVER_FALLS: 5,
    Cause.LAG_FALLS: 5,
}
_DEFAULTS = Settings()
_BATCH_ROWS = 50_000
# Sums below this are exact; the rest of 64 bits is room for their products.
_EXACT = 2.0**61
_NONE = np.iinfo(np.int64).min


class Windows(NamedTuple):
    """Stretches of time of one length that touch: one begins at `offset_ms` and the others around it.

    `until_ms` is when the last sample was taken, or now: windows that end later have come as far as that.
    """

    length_ms: int
    offset_ms: int
    until_ms: int


class _Numbers(NamedTuple):
    """Numbers, whole or not, of which some are not known; those are 0."""

    values: Any
    known: Bools

    def take(self, rows: Ints | Bools) -> _Numbers:
        return _Numbers(self.values[rows], self.known[rows])


class _Looks(NamedTuple):
    """Samples, a column each. `place`, `cluster` and `client` are numbers of names, `queue` is of all that tells it."""

    queue: Ints
    queue_id: Ints
    place: Ints
    cluster: Ints
    at_ms: Ints
    consumer: _Numbers
    max: _Numbers
    min: _Numbers
    lag: _Numbers
    last_ms: _Numbers
    held: _Numbers
    is_none_stored: Bools
    client: Ints

    def take(self, rows: Ints | Bools) -> _Looks:
        columns: list[Any] = [column.take(rows) if isinstance(column, _Numbers) else column[rows] for column in self]
        return _Looks(*columns)

    @property
    def is_beyond_max(self) -> Bools:
        return self.consumer.known & self.max.known & (self.consumer.values > self.max.values)

    @property
    def behind(self) -> _Numbers:
        """Observation.behind of each."""
        tells = self.consumer.known & self.max.known & ~self.is_beyond_max
        is_empty = self.min.known & self.max.known & (self.min.values == self.max.values)
        is_unused = ~self.consumer.known & self.is_none_stored & is_empty
        return _Numbers(np.where(tells, self.max.values - self.consumer.values, 0), tells | is_unused)


class _Names:
    """The names of all rows: each once, and by numbers. -1 is none."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self.of: Ints = np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])
        columns = zip(*(text.split(BETWEEN_NAMES, 4) for text in column.chunk(0).dictionary.to_pylist()), strict=True)
        cluster, group, topic, broker_name, client = columns
        places = _numbered(zip(group, topic, broker_name, strict=True))
        self.clusters, self.clients = _numbered(cluster, ""), _numbered(client, "")
        self.places = [pa.array(names, pa.string()) for names in zip(*places, strict=True)]
        self.place = np.array([places[each] for each in zip(group, topic, broker_name, strict=True)], np.int64)[self.of]
        self.cluster = np.array([self.clusters.get(each, -1) for each in cluster], np.int64)[self.of]
        self.client = np.array([self.clients.get(each, -1) for each in client], np.int64)[self.of]


def _numbered(values: Iterable[Any], none: Any = None) -> dict[Any, int]:
    """Return a number for each of different values."""
    found = dict.fromkeys(values)
    found.pop(none, None)
    return {value: number for number, value in enumerate(found)}


def _texts(names: Mapping[str, int], numbers: Ints) -> pa.Array:
    """Return names by their numbers."""
    return pa.array(list(names), pa.string()).take(pa.array(numbers, mask=numbers < 0))


class _Stretches:
    """Rows that belong together, one stretch after the other; none is empty."""

    def __init__(self, starts: Ints, count: int) -> None:
        self.starts = starts
        self.sizes: Ints = np.diff(np.append(starts, count))
        self.of: Ints = np.repeat(np.arange(len(starts)), self.sizes)
        self._rows: Ints = np.arange(count)

    @property
    def ends(self) -> Ints:
        """The last row of each."""
        return self.starts + self.sizes - 1

    def first(self, mask: Bools) -> Ints:
        """Return the first row of each that is meant, the number of all rows where none is."""
        return np.minimum.reduceat(np.where(mask, self._rows, len(self._rows)), self.starts)

    def last(self, mask: Bools) -> Ints:
        """Return the last row of each that is meant, -1 where none is."""
        return np.maximum.reduceat(np.where(mask, self._rows, -1), self.starts)

    def previous(self, mask: Bools) -> Ints:
        """Return for each row the last one before it that is meant, -1 where none is in its stretch."""
        latest = np.maximum.accumulate(np.where(mask, self._rows, -1))
        before = np.concatenate(([-1], latest[:-1]))
        return np.where(before < self.starts[self.of], -1, before)

    def since(self, rows: Ints) -> Bools:
        """Return which rows are at or after one of their stretch."""
        return self._rows >= rows[self.of]

    def count(self, mask: Bools) -> Ints:
        return np.add.reduceat(mask.astype(np.int64), self.starts)

    def sum(self, values: Any) -> Any:
        return np.add.reduceat(values, self.starts)

    def any(self, mask: Bools) -> Bools:
        return np.logical_or.reduceat(mask, self.starts)

    def lowest(self, values: Ints, mask: Bools) -> _Numbers:
        found = np.minimum.reduceat(np.where(mask, values, np.iinfo(np.int64).max), self.starts)
        return _known_where(found, self.any(mask))

    def highest(self, values: Ints, mask: Bools) -> _Numbers:
        return _known_where(np.maximum.reduceat(np.where(mask, values, _NONE), self.starts), self.any(mask))


def _known_where(values: Ints, known: Bools) -> _Numbers:
    return _Numbers(np.where(known, values, 0), known)


def _at(values: Ints, rows: Ints) -> _Numbers:
    """Return values at rows; not known where the row is none of them."""
    known = (rows >= 0) & (rows < len(values))
    return _known_where(values[np.where(known, rows, 0)], known)


def facts_of_batches(
    batches: Iterable[pa.RecordBatch], windows: Windows, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield a row for each queue and window, with these columns of MADE, of samples with the columns of TAKEN."""
    _freeze()
    encoded = [_encode(batch) for batch in batches if batch.num_rows]
    if not encoded:
        return
    table = pa.Table.from_batches(encoded).unify_dictionaries()
    yield from _facts(table, windows, names).to_batches(max_chunksize=_BATCH_ROWS)


@functools.cache
def _freeze() -> None:
    """Take what is imported out of what Spark's worker looks through for garbage after each task, once a process."""
    gc.freeze()


def _encode(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with its names as numbers: they are most of its bytes."""
    place = batch.schema.get_field_index("names")
    return batch.set_column(place, "names", batch.column(place).dictionary_encode())


def _facts(table: pa.Table, windows: Windows, names: Sequence[str]) -> pa.Table:
    every_name = _Names(table.column("names"))
    looks = _in_order(_looks(table, every_name))
    window = (looks.at_ms - windows.offset_ms) // windows.length_ms
    is_new = np.ones(len(window), np.bool_)
    is_new[1:] = (looks.queue[1:] != looks.queue[:-1]) | (window[1:] != window[:-1])
    stretches = _Stretches(np.flatnonzero(is_new), len(is_new))
    starts_ms = window[stretches.starts] * windows.length_ms + windows.offset_ms
    until_ms = np.minimum(starts_ms + windows.length_ms, windows.until_ms)
    owners = _owners(looks, stretches, every_name.clients)
    named = _named(every_name, looks.take(stretches.starts))

    looks, stretches, has_max_gone_back = _of_one_log(looks, stretches)
    facts = _queue_facts(looks, stretches, until_ms)
    facts["has_max_gone_back"] = has_max_gone_back
    columns = {
        "window_start_ms": starts_ms,
        "window_end_ms": starts_ms + windows.length_ms,
        **named,
        **facts,
        **_lag(looks, stretches),
        **_trend(looks, stretches),
        **_verdicts(facts),
        **owners,
    }
    return pa.table({name: _arrow(columns[name]) for name in names})


def _arrow(column: Any) -> Any:
    if isinstance(column, _Numbers):
        return pa.array(column.values, mask=~column.known)
    return pa.array(column) if isinstance(column, np.ndarray) else column


# Samples


def _looks(table: pa.Table, names: _Names) -> _Looks:
    numbers = {name: _numbers(table.column(name)) for name in (*_NUMBERS, *_FLAGS, "queue_id", "at_ms")}
    queue_id, none_stored = numbers["queue_id"].values, numbers["is_none_stored"]
    queue = names.place * (int(np.ptp(queue_id)) + 1) + queue_id - queue_id.min()
    queue, cluster = _by_cluster(queue, names.cluster, len(names.clusters))
    return _Looks(
        queue=queue,
        queue_id=queue_id,
        place=names.place,
        cluster=cluster,
        at_ms=numbers["at_ms"].values,
        consumer=numbers["consumer_offset"],
        max=numbers["max_offset"],
        min=numbers["min_offset"],
        lag=numbers["lag_messages"],
        last_ms=numbers["last_ms"],
        held=numbers["is_held"],
        is_none_stored=none_stored.known & (none_stored.values == 1),
        client=names.client,
    )


def _numbers(column: pa.ChunkedArray) -> _Numbers:
    known = column.is_valid().to_numpy()
    values = column.cast(pa.int64()).fill_null(0).to_numpy()
    return _Numbers(values, known)


def _by_cluster(queue: Ints, cluster: Ints, count: int) -> tuple[Ints, Ints]:
    """Return numbers of queues, in which those of the same names in other clusters are others, and their clusters.

    A broker's cluster can be unknown for once: its queues are still those of the one cluster that they are known of.
    """
    if count == 0 or (count == 1 and (cluster == 0).all()):
        return queue, cluster
    _, queue = np.unique(queue, return_inverse=True)
    lowest = np.full(queue.max() + 1, count)
    highest = np.full(queue.max() + 1, -1)
    np.minimum.at(lowest, queue, np.where(cluster >= 0, cluster, count))
    np.maximum.at(highest, queue, cluster)
    only = np.where(lowest == highest, lowest, -1)
    cluster = np.where(cluster >= 0, cluster, only[queue])
    return queue * (count + 1) + cluster + 1, cluster


def _in_order(looks: _Looks) -> _Looks:
    """Return in_order() of each queue: by time, one look a moment."""
    order = np.lexsort((looks.at_ms, looks.queue))
    queue, at_ms = looks.queue[order], looks.at_ms[order]
    is_same = (queue[1:] == queue[:-1]) & (at_ms[1:] == at_ms[:-1])
    if not is_same.any():
        return looks.take(order)
    columns = (looks.last_ms, looks.held, looks.min, looks.max, looks.consumer)
    rank = [np.where(column.known, column.values, -1) for column in columns]
    order = np.lexsort((*rank, looks.is_none_stored, looks.behind.known, looks.at_ms, looks.queue))
    return looks.take(order[np.append(~is_same, True)])


def _of_one_log(looks: _Looks, stretches: _Stretches) -> tuple[_Looks, _Stretches, Bools]:
    """Return of_one_log() of each stretch, and whether it left some out."""
    before = stretches.previous(looks.max.known)
    is_anew = looks.max.known & (before >= 0) & (looks.max.values < looks.max.values[before])
    has_gone_back = stretches.any(is_anew)
    if not has_gone_back.any():
        return looks, stretches, has_gone_back
    stays = stretches.since(np.maximum(stretches.last(is_anew), stretches.starts))
    sizes = stretches.count(stays)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    return looks.take(stays), _Stretches(starts, int(stays.sum())), has_gone_back


def _named(names: _Names, looks: _Looks) -> dict[str, Any]:
    """Return what names the queues of some looks."""
    places = [column.take(pa.array(looks.place)) for column in names.places]
    return {
        "cluster": _texts(names.clusters, looks.cluster),
        **dict(zip(("consumer_group", "topic", "broker_name"), places, strict=True)),
        "queue_id": looks.queue_id.astype(np.int32),
    }


# Facts


def _queue_facts(looks: _Looks, stretches: _Stretches, until_ms: Ints) -> dict[str, Any]:
    """Return the fields of QueueFacts, but for has_max_gone_back, which is another's to tell."""
    at_ms, consumer, behind, is_beyond_max = looks.at_ms, looks.consumer, looks.behind, looks.is_beyond_max
    known, tells = behind.known, behind.known | is_beyond_max | looks.is_none_stored
    has_offset = known & consumer.known
    before = stretches.previous(known)
    last, telling, last_offset = stretches.last(known), stretches.last(tells), stretches.last(has_offset)
    lowest, highest = (find(consumer.values, has_offset) for find in (stretches.lowest, stretches.highest))
    may_be_lost = looks.min.known & consumer.known & ~is_beyond_max
    # Unknown offsets are 0 here, so that two of them are the same.
    at_end = last[stretches.of]
    is_elsewhere = (consumer.values != consumer.values[at_end]) | (consumer.known != consumer.known[at_end])
    moved = stretches.last(known & (is_elsewhere | (behind.values == 0)))
    return {
        "sample_count": stretches.sizes,
        "known_count": stretches.count(known),
        "until_ms": until_ms,
        "first_ms": _at(at_ms, stretches.first(known)),
        "last_ms": _at(at_ms, last),
        "behind_lowest": stretches.lowest(behind.values, known),
        "behind_last": _at(behind.values, last),
        "has_lag_fallen": stretches.any(known & (before >= 0) & (behind.values < behind.values[before])),
        "offset_last": _at(consumer.values, last_offset),
        "offset_highest": highest,
        "has_moved": lowest.values != highest.values,
        "lost_highest": stretches.highest(np.maximum(0, looks.min.values - consumer.values), may_be_lost),
        "held_count": stretches.count(looks.held.known & (looks.held.values == 1)),
        "unheld_count": stretches.count(looks.held.known & (looks.held.values == 0)),
        "moved_at_ms": _at(at_ms, moved),
        "still_from_ms": _at(at_ms, stretches.first(known & stretches.since(moved + 1))),
        "last_timestamp_ms": _at(looks.last_ms.values, stretches.last(looks.last_ms.known)),
        "has_stored": stretches.any(consumer.known),
        "is_beyond_max": (telling >= 0) & is_beyond_max[telling],
        "is_none_stored": (telling >= 0) & (looks.is_none_stored & ~known)[telling],
    }


def _lag(looks: _Looks, stretches: _Stretches) -> dict[str, Any]:
    """Return the lag as `offset show` counts it, at the first and the last sample, the most, the mean."""
    behind = looks.behind
    # A queue with nothing in it has no lag, also where nothing is stored yet.
    known = looks.lag.known | (behind.known & (behind.values == 0))
    count = stretches.count(known)
    sums = stretches.sum(looks.lag.values.astype(np.float64))
    lag = _Numbers(looks.lag.values, known)
    with np.errstate(invalid="ignore"):
        mean = sums / count
    return {
        "lag_first": lag.take(stretches.starts),
        "lag_last": lag.take(stretches.ends),
        "lag_max": stretches.highest(lag.values, known),
        "lag_avg": _Numbers(mean, count > 0),
    }


# The trend


def _trend(looks: _Looks, stretches: _Stretches) -> dict[str, Any]:
    """Return compute_trend() of each."""
    has_both = looks.consumer.known & looks.max.known & ~looks.is_beyond_max
    first, last = stretches.first(has_both), stretches.last(has_both)
    has_any = last >= 0

    def from_first(values: Ints) -> Ints:
        return np.where(has_both, values - _at(values, first).values[stretches.of], 0)

    line = _Line(stretches, has_both, from_first(looks.at_ms))
    produced, consumed = line.slope(from_first(looks.max.values)), line.slope(from_first(looks.consumer.values))
    slope = line.slope(from_first(looks.max.values) - from_first(looks.consumer.values))
    behind = _at(looks.max.values - looks.consumer.values, last).values
    has_line = has_any & line.is_one
    falls = has_line & (slope < 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        eta_s = np.where(behind == 0, 0.0, behind / -slope)
    return {
        "slope_msgs_per_s": _Numbers(slope, has_line),
        "produce_rate": _Numbers(produced, has_line),
        "consume_rate": _Numbers(consumed, has_line),
        "eta_s": _Numbers(eta_s, has_any & ((behind == 0) | falls)),
    }


class _Line:
    """Straight lines by least squares through values over time, both from 0 at the first of each stretch.

    Sums of whole numbers are exact where 64 bits hold them, else they are of floats around the mean.
    """

    def __init__(self, stretches: _Stretches, mask: Bools, at_ms: Ints) -> None:
        self._stretches, self._mask, self._at_ms = stretches, mask, at_ms
        self._count = stretches.count(mask)
        self._sum_ms = stretches.sum(at_ms)
        self._most_ms = stretches.highest(at_ms, mask).values
        self._around_ms = np.where(mask, at_ms - (self._sum_ms / np.maximum(self._count, 1))[stretches.of], 0.0)
        self._denominator = self._products(at_ms)
        self.is_one: Bools = self._denominator > 0

    def slope(self, values: Ints) -> Floats:
        """Return how much the values grow in a second, 0 where there is no line."""
        return np.where(self.is_one, self._products(values) * 1000 / np.where(self.is_one, self._denominator, 1), 0.0)

    def _products(self, values: Ints) -> Floats:
        """Return count * sum(at_ms * value) - sum(at_ms) * sum(value)."""
        stretches = self._stretches
        most = stretches.highest(np.abs(values), self._mask).values
        is_exact = self._count.astype(np.float64) ** 2 * self._most_ms * most < _EXACT
        # Beyond 64 bits these are wrong, and not taken.
        exact = self._count * stretches.sum(self._at_ms * values) - self._sum_ms * stretches.sum(values)
        if is_exact.all():
            return exact.astype(np.float64)
        around = stretches.sum(self._around_ms * values)
        noise = stretches.sum(np.abs(self._around_ms * values)) * 1e-13
        return np.where(is_exact, exact, np.where(np.abs(around) > noise, around, 0.0) * self._count)


# Verdicts


def _verdicts(facts: dict[str, Any], settings: Settings = _DEFAULTS) -> dict[str, Any]:
    """Return what judge() and find_stuck() say of each row.

    They ask a few questions with a yes or a no. Rows that answer all of them alike are judged alike, so one of each
    kind is judged: there are a few dozen kinds of millions of rows.
    """
    answers = _answers(facts, settings)
    kinds = np.zeros(len(answers[0]), np.int64)
    for answer in answers:
        kinds = kinds * 2 + answer
    _, examples, kind = np.unique(kinds, return_index=True, return_inverse=True)
    judged = [_facts_at(facts, row) for row in examples]
    verdicts = [judge(each, settings) for each in judged]
    rules = [_RULES.get(verdict.cause) for verdict in verdicts]
    is_stuck = np.array([find_stuck(each, settings) is not None for each in judged])

    def each(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
        return pa.array(values, type_).take(pa.array(kind))

    return {
        "status": each([str(verdict.health) for verdict in verdicts], pa.string()),
        "cause": each([str(verdict.cause) for verdict in verdicts], pa.string()),
        "burrow_rule": each(rules, pa.int32()),
        "is_stuck": is_stuck[kind],
    }


def _answers(facts: dict[str, Any], settings: Settings) -> list[Bools]:
    """Return the answers to all that judge() and find_stuck() ask of facts; each is yes or no for each row."""
    known_count, first_ms, last_ms = facts["known_count"], facts["first_ms"], facts["last_ms"]
    span_ms = last_ms.values - first_ms.values
    silent_ms = np.where(last_ms.known, facts["until_ms"] - last_ms.values, 0)
    lowest, still = facts["behind_lowest"], facts["still_from_ms"]
    still_ms = last_ms.values - still.values
    return [
        known_count > 0,
        known_count >= settings.least_count,
        span_ms >= settings.least_span_ms,
        silent_ms > np.maximum(span_ms, settings.least_span_ms),
        lowest.known & (lowest.values <= settings.lag_allowance),
        facts["offset_last"].values < facts["offset_highest"].values,
        facts["offset_last"].known,
        facts["has_moved"],
        facts["has_lag_fallen"],
        facts["has_stored"],
        facts["is_beyond_max"],
        facts["is_none_stored"],
        facts["held_count"] == 0,
        facts["unheld_count"] >= settings.least_count,
        still.known & (still_ms > 0) & (still_ms >= settings.stuck_ms),
    ]


def _facts_at(facts: dict[str, Any], row: int) -> QueueFacts:
    def value(column: Any) -> Any:
        if isinstance(column, _Numbers):
            return column.values[row].item() if column.known[row] else None
        return column[row].item()

    return QueueFacts(**{name: value(facts[name]) for name in QueueFacts.__struct_fields__})


# Owners


def _owners(looks: _Looks, stretches: _Stretches, clients: Mapping[str, int]) -> dict[str, Any]:
    """Return who holds the queue at the last sample, who did before, and how often that changed, where it is known."""
    known = looks.client >= 0
    before = stretches.previous(known)
    is_first, is_other = known & (before < 0), known & (before >= 0) & (looks.client != looks.client[before])
    # Each client of a stretch once: pairs of both numbers, in the order of the stretches.
    pairs = np.unique((stretches.of * (len(clients) + 1) + looks.client)[is_first | is_other])
    stretch, client = np.divmod(pairs, len(clients) + 1)
    ends = np.searchsorted(stretch, np.arange(len(stretches.starts) + 1)).astype(np.int32)
    return {
        "client_id": _texts(clients, looks.client[stretches.ends]),
        "client_ids": pa.ListArray.from_arrays(pa.array(ends), _texts(clients, client)),
        "owner_change_count": stretches.count(is_other),
    }
