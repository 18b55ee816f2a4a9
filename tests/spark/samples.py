"""Rows of the table of snapshots, as tests make them up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rmqctl.pipeline.tables.delta import Table, TableChange
from rmqctl.pipeline.tables.frames import read_files, require_version
from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS, arrow_schema, columns_of
from rmqctl.rules.health import Observation
from rmqctl.text.times import iso_time

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
START_MS = 1_794_301_200_000  # 2026-11-10T09:00:00Z, a whole hour
assert iso_time(START_MS) == "2026-11-10T09:00:00.000Z"

Sample = dict[str, Any]


def snapshot_row(group: str, look: Observation, **other: Any) -> Sample:
    """Return a row of the table; its lag is that of the rule where nothing was deleted."""
    return {
        "cluster_label": "L",
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
    rows = [{**sample, "dt": str(iso_time(sample["snapshot_ts"] // 1000))[:10]} for sample in samples]
    return pa.Table.from_pylist(rows, arrow_schema(OFFSET_SNAPSHOTS))


def store_rows(folder: Path, samples: Iterable[Sample], marks: Mapping[str, int] = {}) -> None:
    """Add rows to the table of snapshots, in one file per day."""
    rows = snapshot_table(list(samples))
    Table(str(folder), OFFSET_SNAPSHOTS).change(lambda _version: TableChange(rows, None, marks))


def stored_rows(folder: Path, name: str) -> list[SimpleNamespace]:
    """Return all rows of a table, without Spark."""
    version = require_version(Table(str(folder), name))
    return [SimpleNamespace(**row) for row in version.arrow(list(columns_of(name))).to_pylist()]


def rows_of(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    """Return all rows of a table."""
    version = require_version(Table(str(folder), name))
    return read_files(spark, version, version.files)
