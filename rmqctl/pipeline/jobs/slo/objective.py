"""What a week is, and whether its objective is met."""

from __future__ import annotations

from enum import StrEnum

WEEK_MS = 7 * 86_400_000
# Monday 1970-01-05, 00:00 UTC.
_MONDAY_MS = 4 * 86_400_000


class Objective(StrEnum):
    """Whether the objective of a week is met so far. UNKNOWN: the time that was not measured decides."""

    MISSED = "MISSED"
    UNKNOWN = "UNKNOWN"
    MET = "MET"


def week_start_ms(at_ms: int) -> int:
    """Return the start of the week that contains a time: Monday, 00:00 UTC."""
    return (at_ms - _MONDAY_MS) // WEEK_MS * WEEK_MS + _MONDAY_MS
