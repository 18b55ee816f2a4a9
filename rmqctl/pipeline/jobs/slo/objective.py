"""What a week is, and whether its objective is met."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

WEEK_MS = 7 * 86_400_000
# Monday 1970-01-05, 00:00 UTC.
_MONDAY_MS = 4 * 86_400_000


class Objective(StrEnum):
    """Whether the objective of a week is met so far. UNKNOWN: the time that was not measured decides."""

    MISSED = "MISSED"
    UNKNOWN = "UNKNOWN"
    MET = "MET"


class WeekReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """A week of a group as it is reported: named as in the table, and in JSON in camel case.

    `within` is the share of the known time within the limits. `budget_left` is the share of the error budget of a whole
    week that is left, below 0 if it is exceeded. Both are None if all is unknown. `outside_count` counts the times that
    the group was outside without a break, `outside_max_ms` is the longest of them. In `absent_ms`, which is part of no
    other time, the group was gone or consumed nothing. `unmeasured_ms` is the time without a snapshot.
    """

    state: Objective
    within: float | None
    budget_left: float | None
    within_ms: int
    outside_ms: int
    outside_count: int
    outside_max_ms: int
    unknown_ms: int
    unmeasured_ms: int
    absent_ms: int
    lag_max: int | None
    time_lag_max_ms: int | None


def budget_ms(objective: float) -> float:
    """Return the error budget: the time of a whole week that the objective leaves, for example 1h40m of 99 %."""
    return (1 - objective) * WEEK_MS


def judge_week(outside_ms: int, known_ms: int, hidden_ms: int, objective: float) -> Objective:
    """Return whether the objective is met, also if the group was outside in all the time that is not known."""
    budget = budget_ms(objective)
    if outside_ms > budget:
        return Objective.MISSED
    return Objective.MET if known_ms and outside_ms + hidden_ms <= budget else Objective.UNKNOWN


def week_start_ms(at_ms: int) -> int:
    """Return the start of the week that contains a time: Monday, 00:00 UTC."""
    return (at_ms - _MONDAY_MS) // WEEK_MS * WEEK_MS + _MONDAY_MS


def week_end_ms(start_ms: int, until_ms: int) -> int:
    """Return the end of a week, or `until_ms` if that is earlier."""
    return min(start_ms + WEEK_MS, until_ms)
