"""Samples of many queues as columns of numbers: in order, one a moment, of one log.

What rules/health/observation.py does with the samples of one queue, for all queues of a Spark task at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

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
# The columns of samples that are taken, and their types for Spark. `names` are NAMES, those that are null empty.
TAKEN = (
    "names string, queue_id int, at_ms bigint, consumer_offset bigint, max_offset bigint, min_offset bigint,"
    " lag_messages bigint, last_ms bigint, is_held boolean, is_none_stored boolean"
)
_NONE = np.iinfo(np.int64).min


class Numbers(NamedTuple):
    """Numbers, whole or not, of which some are not known; those are 0."""

    values: Any
    known: Bools

    def take(self, rows: Ints | Bools) -> Numbers:
        """Return those of some rows."""
        return Numbers(self.values[rows], self.known[rows])


class Looks(NamedTuple):
    """Samples, a column each. `place`, `cluster` and `client` are numbers of names, `queue` is of all that tells it.

    `behind` and `is_beyond_max` are those of Observation.
    """

    queue: Ints
    queue_id: Ints
    place: Ints
    cluster: Ints
    at_ms: Ints
    consumer: Numbers
    max: Numbers
    min: Numbers
    behind: Numbers
    is_beyond_max: Bools
    lag: Numbers
    last_ms: Numbers
    held: Numbers
    is_none_stored: Bools
    client: Ints

    def take(self, rows: Ints | Bools) -> Looks:
        """Return some rows."""
        columns: list[Any] = [column.take(rows) if isinstance(column, Numbers) else column[rows] for column in self]
        return Looks(*columns)


class Names:
    """The names of all rows: each once, and by numbers. -1 is none."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self.of: Ints = np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])
        columns = zip(*(text.split(BETWEEN_NAMES, 4) for text in column.chunk(0).dictionary.to_pylist()), strict=True)
        cluster, group, topic, broker_name, client = columns
        places = _numbered(zip(group, topic, broker_name, strict=True))
        self.clusters, self.clients = _numbered(cluster, ""), _numbered(client, "")
        self.places = [pa.array(names, pa.string()) for names in zip(*places, strict=True)]
        self.place = np.array([places[each] for each in zip(group, topic, broker_name, strict=True)])[self.of]
        self.cluster = np.array([self.clusters.get(each, -1) for each in cluster])[self.of]
        self.client = np.array([self.clients.get(each, -1) for each in client])[self.of]


def _numbered(values: Iterable[Any], none: Any = None) -> dict[Any, int]:
    """Return a number for each of different values."""
    found = dict.fromkeys(values)
    found.pop(none, None)
    return {value: number for number, value in enumerate(found)}


def texts(names: Mapping[str, int], numbers: Ints) -> pa.Array:
    """Return names by their numbers."""
    return pa.array(list(names), pa.string()).take(pa.array(numbers, mask=numbers < 0))


class Stretches:
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
        """Return how many rows of each are meant."""
        return np.add.reduceat(mask.astype(np.int64), self.starts)

    def sum(self, values: Any) -> Any:
        """Return the sum of each."""
        return np.add.reduceat(values, self.starts)

    def any(self, mask: Bools) -> Bools:
        """Return whether a row of each is meant."""
        return np.logical_or.reduceat(mask, self.starts)

    def lowest(self, values: Ints, mask: Bools) -> Numbers:
        """Return the lowest of the values that are meant, not known where none is."""
        found = np.minimum.reduceat(np.where(mask, values, np.iinfo(np.int64).max), self.starts)
        return known_where(found, self.any(mask))

    def highest(self, values: Ints, mask: Bools) -> Numbers:
        """Return the highest of the values that are meant, not known where none is."""
        return known_where(np.maximum.reduceat(np.where(mask, values, _NONE), self.starts), self.any(mask))


def known_where(values: Ints, known: Bools) -> Numbers:
    """Return values, those that are not known as 0."""
    return Numbers(np.where(known, values, 0), known)


def at_rows(values: Ints, rows: Ints) -> Numbers:
    """Return values at rows; not known where the row is none of them."""
    known = (rows >= 0) & (rows < len(values))
    return known_where(values[np.where(known, rows, 0)], known)


def encode(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with its names as numbers, which need less room."""
    place = batch.schema.get_field_index("names")
    return batch.set_column(place, "names", batch.column(place).dictionary_encode())


def read_looks(table: pa.Table, names: Names) -> Looks:
    """Return the rows of a table with the columns of TAKEN, as they come."""
    numbers = {name: _numbers(table.column(name)) for name in (*_NUMBERS, *_FLAGS, "queue_id", "at_ms")}
    queue_id, none_stored = numbers["queue_id"].values, numbers["is_none_stored"]
    is_none_stored = none_stored.known & (none_stored.values == 1)
    queue = names.place * (int(np.ptp(queue_id)) + 1) + queue_id - queue_id.min()
    queue, cluster = _by_cluster(queue, names.cluster, len(names.clusters))
    behind, is_beyond_max = _behind(
        numbers["consumer_offset"], numbers["max_offset"], numbers["min_offset"], is_none_stored
    )
    return Looks(
        queue=queue,
        queue_id=queue_id,
        place=names.place,
        cluster=cluster,
        at_ms=numbers["at_ms"].values,
        consumer=numbers["consumer_offset"],
        max=numbers["max_offset"],
        min=numbers["min_offset"],
        behind=behind,
        is_beyond_max=is_beyond_max,
        lag=numbers["lag_messages"],
        last_ms=numbers["last_ms"],
        held=numbers["is_held"],
        is_none_stored=is_none_stored,
        client=names.client,
    )


def _numbers(column: pa.ChunkedArray) -> Numbers:
    known = column.is_valid().to_numpy()
    values = column.cast(pa.int64()).fill_null(0).to_numpy()
    return Numbers(values, known)


def _behind(consumer: Numbers, max_: Numbers, min_: Numbers, is_none_stored: Bools) -> tuple[Numbers, Bools]:
    """Return Observation.behind and is_beyond_max of each."""
    has_both = consumer.known & max_.known
    is_beyond_max = has_both & (consumer.values > max_.values)
    tells = has_both & ~is_beyond_max
    is_empty = is_none_stored & ~consumer.known & min_.known & max_.known & (min_.values == max_.values)
    return Numbers(np.where(tells, max_.values - consumer.values, 0), tells | is_empty), is_beyond_max


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


def in_order(looks: Looks) -> Looks:
    """Return the looks of each queue by time, one a moment, as rules.health.in_order does."""
    order = np.lexsort((looks.at_ms, looks.queue))
    queue, at_ms = looks.queue[order], looks.at_ms[order]
    is_same = (queue[1:] == queue[:-1]) & (at_ms[1:] == at_ms[:-1])
    if not is_same.any():
        return looks.take(order)
    columns = (looks.last_ms, looks.held, looks.min, looks.max, looks.consumer)
    rank = [np.where(column.known, column.values, -1) for column in columns]
    order = np.lexsort((*rank, looks.is_none_stored, looks.behind.known, looks.at_ms, looks.queue))
    return looks.take(order[np.append(~is_same, True)])


def of_one_log(looks: Looks, stretches: Stretches) -> tuple[Looks, Stretches, Bools]:
    """Return what rules.health.of_one_log leaves of each stretch, and whether it leaves some out."""
    before = stretches.previous(looks.max.known)
    is_anew = looks.max.known & (before >= 0) & (looks.max.values < looks.max.values[before])
    has_gone_back = stretches.any(is_anew)
    if not has_gone_back.any():
        return looks, stretches, has_gone_back
    stays = stretches.since(np.maximum(stretches.last(is_anew), stretches.starts))
    sizes = stretches.count(stays)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    return looks.take(stays), Stretches(starts, int(stays.sum())), has_gone_back
