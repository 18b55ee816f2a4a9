"""The lag of groups in each of their snapshots, and what changed since the one before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqctl.pipeline.tables.codes import epoch_ms, row_codes

from .queue_samples import NumberColumn, RowRuns, number_column, standing_of
from .standing import Standing

# The columns that identify a queue of a group, except its cluster, which can be unknown in one snapshot.
_QUEUE_KEY = ("cluster_label", "consumer_group", "topic", "broker_name", "queue_id")


def snapshot_sums(rows: pa.Table) -> list[dict[str, Any]]:
    """Return one row per group, cluster and snapshot, from rows of queues in offset_snapshots; ordered by time.

    `lag` is that of `offset show`: null when that of a queue is unknown. An offset that is lower than in the snapshot
    before was set back, unless the queue was created again; an owner counts as changed when both are known.
    """
    rows = rows.append_column("queue", pa.array(row_codes(rows, *_QUEUE_KEY)))
    rows = rows.sort_by([(name, "ascending") for name in ("queue", "snapshot_ts", "run_id")])
    queue, run = rows.column("queue").to_numpy(), row_codes(rows, "run_id")
    is_new = np.append(True, queue[1:] != queue[:-1])[: len(queue)]
    queues = RowRuns(np.flatnonzero(is_new), len(queue))
    names = ("consumer_offset", "max_offset", "min_offset", "lag_messages")
    consumer, highest, lowest, lag = (number_column(rows.column(name)) for name in names)
    client = NumberColumn(row_codes(rows, "client_id"), rows.column("client_id").is_valid().to_numpy())

    def before(column: NumberColumn) -> tuple[Any, Any]:
        """Return the last known value before each row, and whether both are known."""
        at = queues.previous(column.known)
        return column.values[at], column.known & (at >= 0)

    (offset, has_offset), (end, has_end), (owner, has_owner) = map(before, (consumer, highest, client))
    is_recreated = has_end & (highest.values < end)
    none_stored = rows.column("is_none_stored").fill_null(False).to_numpy()
    has_both = lowest.known & highest.known
    is_empty = none_stored & ~consumer.known & has_both & (lowest.values == highest.values)
    is_read = is_empty | (consumer.known & highest.known & (consumer.values == highest.values))
    # A queue counts once per snapshot: its first row there has what changed.
    is_first = is_new | np.append(True, run[1:] != run[:-1])[: len(run)]
    is_counted = is_first & (standing_of(rows) == Standing.CONSUMES.value)
    key = ["cluster_label", "cluster", "consumer_group", "run_id"]
    made = {
        **{name: rows.column(name) for name in (*key, "snapshot_ts")},
        "lag": pa.array(lag.values, mask=~(lag.known | is_read)),
        "set_back": pa.array((has_offset & (consumer.values < offset) & ~is_recreated).astype(np.int64)),
        "handed_over": pa.array((has_owner & (client.values != owner)).astype(np.int64)),
    }
    sums = pa.table(made).filter(pa.array(is_counted)).group_by(key).aggregate(
        [("snapshot_ts", "min"), ("lag", "sum", pc.ScalarAggregateOptions(skip_nulls=False)),
         ("set_back", "sum"), ("handed_over", "sum")]
    )  # fmt: skip
    at_ms = epoch_ms(sums.column("snapshot_ts_min"))
    given = {"at_ms": at_ms, "lag": sums.column("lag_sum"), "set_back_count": sums.column("set_back_sum")}
    given["owner_change_count"] = sums.column("handed_over_sum")
    found: list[dict[str, Any]] = pa.table({**{name: sums.column(name) for name in key}, **given}).to_pylist()
    return sorted(found, key=lambda row: row["at_ms"])
