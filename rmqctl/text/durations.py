"""Parse durations (500ms, 10s, 1m30s, 2h, 3d, PT1H, 0 for none), and format them as short text."""

from __future__ import annotations

import re

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = r"(\d+(?:\.\d+)?)(ms|[smhd])"
_ISO = r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?"
_MAX_MS = 100 * 365 * 86_400_000


def parse_duration_ms(text: str) -> int:
    """Return a duration in ms.

    Raises ValueError with a sentence for any other text, a negative duration, one beyond 100 years, and a number other
    than 0 without a unit: 2 could mean seconds, but for a reset more often means hours.
    """
    given = text.strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", given) and float(given) != 0:
        raise ValueError(f"{text!r} has no unit: use {given}h, {given}m or {given}s")
    duration_ms = _parse(given)
    if duration_ms is None or duration_ms > _MAX_MS:
        raise ValueError(f"invalid duration {text!r}: use for example 500ms, 10s, 1m30s, 2h, 3d or PT1H")
    return round(duration_ms)


def _parse(given: str) -> float | None:
    if not given.isascii():
        return None  # digits of other scripts, and letters that become ASCII when their case is changed
    if re.fullmatch(r"\d+(\.\d+)?", given):
        return 0.0  # any other number lacks a unit
    iso = re.fullmatch(_ISO, given.upper())
    if iso is not None and any(iso.groups()):
        days, hours, minutes, seconds = (float(part or 0) for part in iso.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000
    parts = re.findall(_PART, given.lower())
    if not parts or "".join(number + unit for number, unit in parts) != given.lower():
        return None
    return sum(float(number) * _UNIT_MS[unit] for number, unit in parts)


def short_duration(duration_ms: int) -> str:
    """Return a duration in at most two units, rounded down: 950ms, 12s, 3m05s, 2h10m, 4d3h, -5s."""
    if duration_ms < 0:
        return f"-{short_duration(-duration_ms)}"
    if 0 < duration_ms < 1000:
        return f"{duration_ms}ms"
    seconds = duration_ms // 1000
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    if seconds < 86400:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02}m"
    return f"{seconds // 86400}d{seconds % 86400 // 3600}h"


def exact_duration(duration_ms: int) -> str:
    """Return a duration, 0 or more, in all its units and without zeros, as people write it: 5m, 1m30s, 2h, 1500ms."""
    if duration_ms % 1000:
        return f"{duration_ms}ms"
    parts = []
    for unit in ("d", "h", "m", "s"):
        count, duration_ms = divmod(duration_ms, _UNIT_MS[unit])
        parts += [f"{count}{unit}"] * bool(count)
    return "".join(parts) or "0s"
