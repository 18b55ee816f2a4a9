"""Conditions in the SQL of Delta."""

from __future__ import annotations

from collections.abc import Sequence

from .hours import day_of


def of_cluster(label: str) -> str:
    """Return the condition that a row is of a cluster."""
    return f"cluster_label = {_quoted(label)}"


def any_of(column: str, texts: Sequence[str]) -> str:
    """Return the condition that a column has one of some texts."""
    return f"{column} in ({', '.join(map(_quoted, texts))})" if texts else "false"


def between(column: str, since_ms: int, until_ms: int) -> str:
    """Return the condition that a time is from since_ms (inclusive) to until_ms (exclusive); `dt` is its day."""
    return f"{since(column, since_ms)} and dt <= '{day_of(until_ms - 1)}' and {column} < {_time_at(until_ms)}"


def since(column: str, since_ms: int) -> str:
    """Return the condition that a time is since_ms or later; `dt` is its day."""
    return f"dt >= '{day_of(since_ms)}' and {column} >= {_time_at(since_ms)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _time_at(at_ms: int) -> str:
    """Return a time of the type that columns of times have; a literal would have another one."""
    return f"arrow_cast({at_ms * 1000}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
