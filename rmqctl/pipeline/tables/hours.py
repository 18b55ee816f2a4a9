"""Hours and days in UTC: only completely known hours may replace others."""

from __future__ import annotations

from datetime import UTC, datetime

HOUR_MS = 3_600_000


def day_of(at_ms: int) -> str:
    """Return the day that a time is in, for example 2026-11-22."""
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d}"


def floor_hour_ms(at_ms: int) -> int:
    """Return the start of the hour that contains a time."""
    return at_ms // HOUR_MS * HOUR_MS


def ceil_hour_ms(at_ms: int) -> int:
    """Return the end of the hour that contains a time; a time on the hour is returned as is."""
    return -(-at_ms // HOUR_MS) * HOUR_MS
