"""Hours of tables: partitions are whole hours in UTC, and only completely known hours may replace others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column

HOUR_MS = 3_600_000


class Hour(NamedTuple):
    """An hour in UTC, by which tables are partitioned: 2026-11-22 and 10."""

    dt: str
    hr: int


def hour_of(at_ms: int) -> Hour:
    """Return the hour that a time is in."""
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return Hour(f"{at:%Y-%m-%d}", at.hour)


def floor_hour_ms(at_ms: int) -> int:
    """Return the start of the hour that contains a time."""
    return at_ms // HOUR_MS * HOUR_MS


def ceil_hour_ms(at_ms: int) -> int:
    """Return the end of the hour that contains a time; a time on the hour is returned as is."""
    return -(-at_ms // HOUR_MS) * HOUR_MS


def partition_columns(at_ms: Column) -> tuple[Column, Column]:
    """Return `dt` and `hr` of a column of epoch ms, in UTC whatever the session's time zone is."""
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    hour = F.floor(at_ms / F.lit(HOUR_MS))
    day = F.floor(hour / F.lit(24)).cast("int")
    dt = F.date_add(F.lit("1970-01-01").cast("date"), day).cast("string")
    return dt.alias("dt"), (hour % 24).cast("int").alias("hr")
