"""Rows of the table of snapshots, as tests make them up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS
from rmqctl.rules.health import Observation
from rmqctl.text.times import iso_time

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
START_MS = 1_794_301_200_000  # 2026-11-10T09:00:00Z, a whole hour
assert iso_time(START_MS) == "2026-11-10T09:00:00.000Z"

_SCHEMA = pa.schema(
    [
        ("run_id", pa.string()),
        ("snapshot_ts", pa.timestamp("us", tz="UTC")),
        ("cluster", pa.string()),
        ("consumer_group", pa.string()),
        ("topic", pa.string()),
        ("broker_name", pa.string()),
        ("queue_id", pa.int32()),
        ("min_offset", pa.int64()),
        ("max_offset", pa.int64()),
        ("consumer_offset", pa.int64()),
        ("lag_messages", pa.int64()),
        ("last_consume_ts", pa.timestamp("us", tz="UTC")),
        ("client_id", pa.string()),
        ("is_held", pa.bool_()),
        ("is_none_stored", pa.bool_()),
    ]
)
Sample = dict[str, Any]


def snapshot_row(group: str, look: Observation, **other: Any) -> Sample:
    """Return a row of the table; its lag is that of the rule where nothing was deleted."""
    return {
        "run_id": f"run-{look.at_ms}",
        "snapshot_ts": look.at_ms * 1000,
        "cluster": "c1",
        "consumer_group": group,
        "topic": "Orders",
        "broker_name": "broker-a",
        "queue_id": 0,
        "min_offset": look.min_offset,
        "max_offset": look.max_offset,
        "consumer_offset": look.consumer_offset,
        "lag_messages": None if look.consumer_offset is None else look.behind,
        "last_consume_ts": None if look.last_timestamp_ms is None else look.last_timestamp_ms * 1000,
        "client_id": None,
        "is_held": look.is_held,
        "is_none_stored": look.is_none_stored,
    } | other


def snapshot_table(samples: Sequence[Sample]) -> pa.Table:
    return pa.Table.from_pylist(list(samples), _SCHEMA)


def store_rows(folder: Path, samples: Iterable[Sample], part: str = "p") -> None:
    """Write rows as the table of snapshots has them."""
    hours: defaultdict[tuple[str, int], list[Sample]] = defaultdict(list)
    for sample in samples:
        at_ms = sample["snapshot_ts"] // 1000
        hours[str(iso_time(at_ms))[:10], at_ms // HOUR_MS % 24].append(sample)
    for (dt, hr), rows in hours.items():
        path = folder / OFFSET_SNAPSHOTS / f"dt={dt}" / f"hr={hr}" / f"part={part}"
        path.mkdir(parents=True, exist_ok=True)
        pq.write_table(snapshot_table(rows), path / "rows.parquet")
