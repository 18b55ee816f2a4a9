"""How tables show the values of jobs."""

from __future__ import annotations

from typing import Any

from rmqctl.text.durations import short_duration
from rmqctl.text.times import iso_time


def show_value(kind: str, value: Any) -> str:
    """Return a value as text; `kind` is the value of a ValueKind (pipeline/jobs/definition.py)."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "-"
    if value is None or value == "":
        return "-"
    match kind:
        case "time":
            return iso_time(value) or "-"
        case "minute":
            return (iso_time(value) or "-").replace(":00.000Z", "Z")
        case "duration":
            return short_duration(round(value))
        case "share":
            return f"{100 * value:.3g} %"
        case "number" if isinstance(value, float):
            return f"{value:.2f}" if abs(value) < 1000 else f"{value:.0f}"
    return " ".join(str(value).split())
