"""How tables show the values of jobs."""

from __future__ import annotations

from math import floor
from typing import Any

from rmqctl.text.durations import short_duration
from rmqctl.text.times import iso_time


def _percent(value: float) -> str:
    """Return three digits of a percentage; what is not all does not become 100 %."""
    if 99 < abs(value) < 100:
        return f"{floor(abs(value) * 100) / (100 if value > 0 else -100):.2f} %"
    return f"{value:.3g} %" if abs(value) < 100 else f"{value:.0f} %"


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
            return _percent(100 * value)
        case "number" if isinstance(value, float):
            return f"{value:.2f}" if abs(value) < 1000 else f"{value:.0f}"
    return " ".join(str(value).split())
