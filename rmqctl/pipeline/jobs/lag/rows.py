"""Reads the rows of offset_snapshots that the job lag examines: once if they are few, else part by part."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqctl.pipeline.tables.codes import epoch_ms
from rmqctl.pipeline.tables.conditions import any_of, between, of_cluster
from rmqctl.pipeline.tables.delta import TableVersion

# Rows in memory at a time, about 500 bytes each.
ROWS_AT_ONCE = 500_000
_COLUMNS = (
    "cluster_label", "cluster", "consumer_group", "topic", "broker_name", "queue_id", "client_id", "run_id",
    "snapshot_ts", "consumer_offset", "max_offset", "min_offset", "lag_messages", "last_consume_ts", "is_held",
    "is_none_stored", "is_subscribed", "is_configured",
)  # fmt: skip

# Names that a row must have, by column.
Chosen = Mapping[str, Collection[str]]


class RowPart(NamedTuple):
    """Rows that are read together, with all of each queue in whole units of time; `groups` is None for all."""

    since_ms: int
    until_ms: int
    groups: tuple[str, ...] | None = None


class SnapshotRows:
    """The rows of one version of offset_snapshots, of one cluster or of all (None)."""

    def __init__(self, version: TableVersion, label: str | None) -> None:
        self._version, self._label = version, label
        self._kept: tuple[int, int, pa.Table] | None = None

    def newest_ms(self) -> int | None:
        """Return the time of the newest row, None without one."""
        files = self._version.files
        if self._label is None and all(file.last_ms is not None for file in files):
            return max((file.last_ms for file in files if file.last_ms is not None), default=None)
        is_ours = "true" if self._label is None else of_cluster(self._label)
        for day in sorted({file.day for file in files}, reverse=True):
            batches = self._version.batches(("snapshot_ts",), f"dt = '{day}' and {is_ours}")
            found = [pc.max(epoch_ms(batch.column("snapshot_ts"))).as_py() for batch in batches if batch.num_rows]
            if found:
                return max(found)
        return None

    def keep(self, since_ms: int, until_ms: int) -> None:
        """Read these rows now, and use them from then on, unless they are many."""
        counts = [file.row_count for file in self._version.files_between(since_ms, until_ms)]
        if None not in counts and sum(filter(None, counts)) <= ROWS_AT_ONCE:
            self._kept = since_ms, until_ms, self._version.arrow(_COLUMNS, self._where(since_ms, until_ms, {}))

    def tables(self, since_ms: int, until_ms: int, columns: Collection[str] = _COLUMNS) -> Iterator[pa.Table]:
        """Yield some columns of the rows from since_ms (inclusive) to until_ms (exclusive), in tables of some size."""
        if self._holds(since_ms, until_ms):
            yield self._read(since_ms, until_ms, {}).select(list(columns))
            return
        batches: list[pa.RecordBatch] = []
        for batch in self._version.batches(list(columns), self._where(since_ms, until_ms, {})):
            batches.append(batch)
            if sum(each.num_rows for each in batches) >= ROWS_AT_ONCE:
                yield pa.Table.from_batches(batches)
                batches = []
        if batches:
            yield pa.Table.from_batches(batches)

    def parts(self, parts: Iterable[RowPart], chosen: Chosen) -> Iterator[pa.Table]:
        """Yield the rows of queues in each part that have one of the chosen names in each column."""
        for part in parts:
            names = dict(chosen) if part.groups is None else {**chosen, "consumer_group": part.groups}
            table = self._read(part.since_ms, part.until_ms, names)
            yield table.filter(table.column("broker_name").is_valid())

    def _holds(self, since_ms: int, until_ms: int) -> bool:
        return self._kept is not None and self._kept[0] <= since_ms and until_ms <= self._kept[1]

    def _read(self, since_ms: int, until_ms: int, chosen: Chosen) -> pa.Table:
        if self._kept is None or not self._holds(since_ms, until_ms):
            return self._version.arrow(_COLUMNS, self._where(since_ms, until_ms, chosen))
        table = self._kept[2]
        at_ms = epoch_ms(table.column("snapshot_ts")).to_numpy()
        is_wanted = pa.array((at_ms >= since_ms) & (at_ms < until_ms))
        for column, names in chosen.items():
            is_wanted = pc.and_(is_wanted, pc.is_in(table.column(column), pa.array(names, pa.string())))
        return table.filter(is_wanted)

    def _where(self, since_ms: int, until_ms: int, chosen: Chosen) -> str:
        where = [between("snapshot_ts", since_ms, until_ms)]
        if self._label is not None:
            where.append(of_cluster(self._label))
        where += [any_of(column, sorted(names)) for column, names in chosen.items()]
        return " and ".join(where)
