"""Reads the rows of groups from offset_snapshots, without Spark: some groups at a time, each of them whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqctl.pipeline.tables.codes import epoch_ms, name_parts, row_codes
from rmqctl.pipeline.tables.conditions import any_of
from rmqctl.pipeline.tables.delta import TableVersion

from .states import GroupSamples

# Rows in memory at a time, about 500 bytes each.
_MOST_ROWS = 1_000_000
_COLUMNS = (
    "cluster_label", "consumer_group", "topic", "broker_name", "queue_id", "run_id", "snapshot_ts", "consumer_offset",
    "max_offset", "min_offset", "is_none_stored", "lag_state", "is_subscribed", "is_configured",
)  # fmt: skip
_EXPIRED = "EXPIRED"


def count_rows(version: TableVersion, where: str) -> Counter[str]:
    """Return the number of rows of each group; the rows are not kept in memory."""
    counts: Counter[str] = Counter()
    for batch in version.batches(("consumer_group",), where):
        for pair in batch.column("consumer_group").value_counts().to_pylist():
            counts[pair["values"]] += pair["counts"]
    return counts


def read_groups(
    version: TableVersion, counts: Mapping[str, int], where: Sequence[str]
) -> Iterator[tuple[str, str, GroupSamples]]:
    """Yield the label, the group and the rows of each group of each cluster; `counts` are the rows by group."""
    for names in name_parts(counts, _MOST_ROWS):
        table = version.arrow(_COLUMNS, " and ".join([*where, any_of("consumer_group", names)]))
        if table.num_rows:
            yield from _groups(table)


def _groups(table: pa.Table) -> Iterator[tuple[str, str, GroupSamples]]:
    def codes(*columns: str) -> tuple[Any, Any]:
        """Return a number for each row by the values of some columns, and the first row of each number."""
        _, firsts, of = np.unique(row_codes(table, *columns), return_index=True, return_inverse=True)
        return of, firsts

    def numbers(name: str) -> Any:
        return table.column(name).fill_null(-1).to_numpy()

    def flags(name: str, *, default: bool) -> Any:
        return table.column(name).fill_null(default).to_numpy()

    is_queue = pc.is_valid(table.column("broker_name")).to_numpy()
    of_group, firsts = codes("cluster_label", "consumer_group")
    rows = GroupSamples(
        queue=codes("topic", "broker_name", "queue_id")[0],
        run=codes("run_id")[0],
        at_ms=epoch_ms(table.column("snapshot_ts")).to_numpy(),
        consumer=numbers("consumer_offset"),
        max=numbers("max_offset"),
        min=numbers("min_offset"),
        is_none_stored=flags("is_none_stored", default=False),
        is_expired=pc.fill_null(pc.equal(table.column("lag_state"), _EXPIRED), False).to_numpy(),
        is_counted=is_queue & flags("is_subscribed", default=True) & flags("is_configured", default=True),
    )
    order = np.argsort(of_group, kind="stable")
    ends = np.searchsorted(of_group[order], np.arange(len(firsts)), side="right")
    names = table.select(["cluster_label", "consumer_group"]).take(firsts)
    for label, group, begin, end in zip(*names.to_pydict().values(), [0, *ends[:-1]], ends, strict=True):
        yield label, group, rows.take(order[begin:end])
