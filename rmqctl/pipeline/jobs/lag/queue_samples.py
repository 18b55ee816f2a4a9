"""Samples of many queues as columns of numbers: in order, one per moment, of one log.

Does what rules/health/observation.py does for one queue, for many queues together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqctl.pipeline.tables.codes import epoch_ms, row_codes

from .standing import Standing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Floats: TypeAlias = NDArray[np.float64]
    Bools: TypeAlias = NDArray[np.bool_]

# Names of the place of a queue. Its cluster can be unknown in one snapshot.
_PLACE = ["cluster_label", "consumer_group", "topic", "broker_name"]
_NUMBERS = (
    "queue_id", "consumer_offset", "max_offset", "min_offset", "lag_messages", "is_held", "is_none_stored",
)  # fmt: skip
_NONE = np.iinfo(np.int64).min


class NumberColumn(NamedTuple):
    """Integers or floats; unknown ones are 0 and not `known`."""

    values: Any
    known: Bools

    def take(self, rows: Ints | Bools) -> NumberColumn:
        """Return the numbers of some rows."""
        return NumberColumn(self.values[rows], self.known[rows])


class QueueSamples(NamedTuple):
    """Samples by column. `place`, `cluster` and `client` are indices of names; `queue` is a number per queue.

    `behind` and `is_beyond_max` are those of Observation.
    """

    queue: Ints
    queue_id: Ints
    place: Ints
    cluster: Ints
    at_ms: Ints
    consumer: NumberColumn
    max: NumberColumn
    min: NumberColumn
    behind: NumberColumn
    is_beyond_max: Bools
    lag: NumberColumn
    last_ms: NumberColumn
    held: NumberColumn
    is_none_stored: Bools
    standing: Ints
    client: Ints

    def take(self, rows: Ints | Bools) -> QueueSamples:
        """Return some rows."""
        columns: list[Any] = [
            column.take(rows) if isinstance(column, NumberColumn) else column[rows] for column in self
        ]
        return QueueSamples(*columns)


class RowNames:
    """The names of all rows: each distinct one, and its index per row. -1 means no name."""

    def __init__(self, rows: pa.Table) -> None:
        _, firsts, place = np.unique(row_codes(rows, *_PLACE), return_index=True, return_inverse=True)
        self.places = rows.select(_PLACE).take(pa.array(firsts))
        self.place: Ints = place
        self.clusters, self.cluster = _numbered(rows.column("cluster"))
        self.clients, self.client = _numbered(rows.column("client_id"))


def _numbered(column: pa.ChunkedArray) -> tuple[pa.Array, Ints]:
    """Return the distinct names of a column, and the index of that of each row, -1 for null."""
    found = column.combine_chunks().dictionary_encode()
    return found.dictionary, found.indices.fill_null(-1).to_numpy().astype(np.int64)


def texts(names: pa.Array, numbers: Ints) -> pa.Array:
    """Return the names with these numbers; null for -1."""
    return names.take(pa.array(numbers, mask=numbers < 0))


class RowRuns:
    """Runs of consecutive rows that belong together; every run has a row."""

    def __init__(self, starts: Ints, count: int) -> None:
        self.starts = starts
        self.sizes: Ints = np.diff(np.append(starts, count))
        self.of: Ints = np.repeat(np.arange(len(starts)), self.sizes)
        self._rows: Ints = np.arange(count)

    @property
    def ends(self) -> Ints:
        """The last row of each stretch."""
        return self.starts + self.sizes - 1

    def first(self, mask: Bools) -> Ints:
        """Return the first row of each stretch in the mask, or the number of all rows without one."""
        return np.minimum.reduceat(np.where(mask, self._rows, len(self._rows)), self.starts)

    def last(self, mask: Bools) -> Ints:
        """Return the last row of each stretch in the mask, or -1 without one."""
        return np.maximum.reduceat(np.where(mask, self._rows, -1), self.starts)

    def previous(self, mask: Bools) -> Ints:
        """Return for each row the last earlier row of its stretch in the mask, or -1 without one."""
        latest = np.maximum.accumulate(np.where(mask, self._rows, -1))
        before = np.concatenate(([-1], latest[:-1]))
        return np.where(before < self.starts[self.of], -1, before)

    def since(self, rows: Ints) -> Bools:
        """Return which rows are at or after the given row of their stretch."""
        return self._rows >= rows[self.of]

    def count(self, mask: Bools) -> Ints:
        """Return how many rows of each stretch are in the mask."""
        return np.add.reduceat(mask.astype(np.int64), self.starts)

    def sum(self, values: Any) -> Any:
        """Return the sum of each stretch."""
        return np.add.reduceat(values, self.starts)

    def any(self, mask: Bools) -> Bools:
        """Return whether each stretch has a row in the mask."""
        return np.logical_or.reduceat(mask, self.starts)

    def lowest(self, values: Ints, mask: Bools) -> NumberColumn:
        """Return the lowest value of each stretch in the mask, unknown without one."""
        found = np.minimum.reduceat(np.where(mask, values, np.iinfo(np.int64).max), self.starts)
        return known_where(found, self.any(mask))

    def highest(self, values: Ints, mask: Bools) -> NumberColumn:
        """Return the highest value of each stretch in the mask, unknown without one."""
        return known_where(np.maximum.reduceat(np.where(mask, values, _NONE), self.starts), self.any(mask))


def known_where(values: Ints, known: Bools) -> NumberColumn:
    """Return values, with 0 for unknown ones."""
    return NumberColumn(np.where(known, values, 0), known)


def at_rows(values: Ints, rows: Ints) -> NumberColumn:
    """Return the values at these rows; unknown for a row out of range."""
    known = (rows >= 0) & (rows < len(values))
    return known_where(values[np.where(known, rows, 0)], known)


def standing_of(rows: pa.Table) -> Ints:
    """Return the number of the Standing of each row of offset_snapshots."""

    def is_false(name: str) -> Any:
        return pc.fill_null(pc.invert(rows.column(name)), False)

    left = pc.if_else(is_false("is_subscribed"), Standing.LEFT.value, Standing.CONSUMES.value)
    standing: Ints = pc.if_else(is_false("is_configured"), Standing.GONE.value, left).to_numpy()
    return standing


def samples_of(rows: pa.Table, names: RowNames) -> QueueSamples:
    """Return rows of offset_snapshots, in their order."""
    numbers = {name: number_column(rows.column(name)) for name in _NUMBERS}
    queue_id, none_stored = numbers["queue_id"].values, numbers["is_none_stored"]
    is_none_stored = none_stored.known & (none_stored.values == 1)
    queue = names.place * (int(np.ptp(queue_id)) + 1) + queue_id - queue_id.min()
    queue, cluster = _by_cluster(queue, names.cluster, len(names.clusters))
    behind, is_beyond_max = _behind(
        numbers["consumer_offset"], numbers["max_offset"], numbers["min_offset"], is_none_stored
    )
    return QueueSamples(
        queue=queue,
        queue_id=queue_id,
        place=names.place,
        cluster=cluster,
        at_ms=epoch_ms(rows.column("snapshot_ts")).to_numpy(),
        consumer=numbers["consumer_offset"],
        max=numbers["max_offset"],
        min=numbers["min_offset"],
        behind=behind,
        is_beyond_max=is_beyond_max,
        lag=numbers["lag_messages"],
        last_ms=number_column(epoch_ms(rows.column("last_consume_ts"))),
        held=numbers["is_held"],
        is_none_stored=is_none_stored,
        standing=standing_of(rows),
        client=names.client,
    )


def number_column(column: pa.ChunkedArray) -> NumberColumn:
    """Return a column of integers or flags."""
    known = column.is_valid().to_numpy()
    values = column.cast(pa.int64()).fill_null(0).to_numpy()
    return NumberColumn(values, known)


def _behind(
    consumer: NumberColumn, max_: NumberColumn, min_: NumberColumn, is_none_stored: Bools
) -> tuple[NumberColumn, Bools]:
    """Return Observation.behind and is_beyond_max of each row."""
    has_both = consumer.known & max_.known
    is_beyond_max = has_both & (consumer.values > max_.values)
    tells = has_both & ~is_beyond_max
    is_empty = is_none_stored & ~consumer.known & min_.known & max_.known & (min_.values == max_.values)
    return NumberColumn(np.where(tells, max_.values - consumer.values, 0), tells | is_empty), is_beyond_max


def _by_cluster(queue: Ints, cluster: Ints, count: int) -> tuple[Ints, Ints]:
    """Return queue numbers that also separate queues with equal names in different clusters, and the clusters.

    A broker's cluster can be unknown in one snapshot: its queues then belong to the only cluster they are known from.
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


def in_order(samples: QueueSamples) -> QueueSamples:
    """Return the samples of each queue by time, one per moment, as rules.health.in_order does."""
    order = np.lexsort((samples.at_ms, samples.queue))
    queue, at_ms = samples.queue[order], samples.at_ms[order]
    is_same = (queue[1:] == queue[:-1]) & (at_ms[1:] == at_ms[:-1])
    if not is_same.any():
        return samples.take(order)
    columns = (samples.last_ms, samples.held, samples.min, samples.max, samples.consumer)
    rank = [np.where(column.known, column.values, -1) for column in columns]
    order = np.lexsort((*rank, samples.is_none_stored, samples.behind.known, samples.at_ms, samples.queue))
    return samples.take(order[np.append(~is_same, True)])


def of_one_log(samples: QueueSamples, stretches: RowRuns) -> tuple[QueueSamples, RowRuns, Bools]:
    """Return the rows of each stretch that rules.health.of_one_log keeps, and whether it drops any."""
    before = stretches.previous(samples.max.known)
    is_recreated = samples.max.known & (before >= 0) & (samples.max.values < samples.max.values[before])
    has_gone_back = stretches.any(is_recreated)
    if not has_gone_back.any():
        return samples, stretches, has_gone_back
    stays = stretches.since(np.maximum(stretches.last(is_recreated), stretches.starts))
    sizes = stretches.count(stays)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    return samples.take(stays), RowRuns(starts, int(stays.sum())), has_gone_back
