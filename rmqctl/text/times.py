"""Parse points in time: ISO 8601, epoch s or ms, mqadmin's format, words, durations back from now."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum

from msgspec import Struct

from .durations import parse_duration_ms

_MAX_MS = 253_402_300_799_999  # the last ms of the year 9999
_MQADMIN = re.compile(r"(\d{4}-\d{2}-\d{2})#(\d{2}:\d{2}:\d{2})(?::(\d{3}))?")  # UtilAll.YYYY_MM_DD_HH_MM_SS_SSS
# fromisoformat() alone accepts more than that, for example any letter between date and time.
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?)?|\d{8}[Tt]\d{4}(\d\d)?)([Zz]|[+-]\d\d(:?\d\d)?)?", re.ASCII
)
_KNOWN = "use 2026-11-21T10:00Z, 2026-11-21#10:00:00:000, an epoch time in s or ms, now, or 2h for two hours ago"


class Edge(StrEnum):
    """The ends of a queue, instead of a point in time."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Ago(Struct, frozen=True):
    """A time counted back from now, by the clock of the caller's choice."""

    ago_ms: int


def iso_time(at_ms: int | None) -> str | None:
    """Return UTC ISO 8601 with ms, None for None and for times outside of 1970 to 9999."""
    if at_ms is None or not 0 <= at_ms <= _MAX_MS:
        return None
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z"


def time_fields(key: str, at_ms: int | None) -> dict[str, int | str | None]:
    """Return a time under a JSON key in ms, and as iso_time() returns it under the same key with Iso at its end.

    A key can end with Ms, in whose place Iso comes then.
    """
    return {key: at_ms, f"{key.removesuffix('Ms')}Iso": iso_time(at_ms)}


def short_time(at_ms: int, now_ms: int) -> str:
    """Return a time in UTC for a sentence: the time of day, preceded by the date on another day than now."""
    at, now = (datetime.fromtimestamp(ms // 1000, UTC) for ms in (at_ms, now_ms))
    return f"{at:%H:%M:%S} UTC" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def parse_time(text: str, now_ms: int, zone: tzinfo | None = None) -> int | Edge:
    """Return a point in time in ms since the epoch, or an end of the queue.

    A duration is counted back from `now_ms`. Otherwise like parse_moment().
    """
    moment = parse_moment(text, zone)
    return resolve_ago(moment, text, now_ms) if isinstance(moment, Ago) else moment


def parse_moment(text: str, zone: tzinfo | None = None) -> int | Edge | Ago:
    """Return a point in time in ms since the epoch, an end of the queue, or a time that is counted back from now.

    A time without a zone is in `zone`, which defaults to the machine's. A duration may have a minus; "now" is a
    duration of 0. An epoch time has 10 digits (s) or 13 (ms): other numbers could be dates, and are rejected. Raises
    ValueError with a sentence.
    """
    given = text.strip()
    word = given.lower()
    if word in (Edge.EARLIEST, Edge.LATEST):
        return Edge(word)
    if word == "now":
        return Ago(0)
    if re.fullmatch(r"[0-9]+", given):
        return _require_era(_epoch_ms(given, text), text)
    at_ms = _date_ms(given, text, zone)
    return _ago(given, text) if at_ms is None else _require_era(at_ms, text)


def resolve_ago(ago: Ago, text: str, now_ms: int) -> int:
    """Return the time in ms. Raises ValueError for one before 1970."""
    return _require_era(now_ms - ago.ago_ms, text)


def _require_era(at_ms: int, text: str) -> int:
    if not 0 <= at_ms <= _MAX_MS:
        raise ValueError(f"{text!r} is not between the years 1970 and 9999")
    return at_ms


def _epoch_ms(given: str, text: str) -> int:
    if len(given) == 10:
        return int(given) * 1000
    if len(given) == 13:
        return int(given)
    raise ValueError(f"{text!r} is ambiguous: an epoch time has 10 digits (s) or 13 (ms)")


def _date_ms(given: str, text: str, zone: tzinfo | None) -> int | None:
    """Parse a date with a time; None for a text in another form."""
    mqadmin = _MQADMIN.fullmatch(given)
    if mqadmin is not None:
        day, time, ms = mqadmin.groups()
        given = f"{day}T{time}.{ms or '000'}"
    if re.match(r"\d{4}-\d|\d{8}[Tt]", given, re.ASCII) is None:
        return None
    if _ISO.fullmatch(given) is None:
        raise ValueError(f"invalid time {text!r}: {_KNOWN}")
    try:
        at = datetime.fromisoformat(given.upper())
    except ValueError:
        raise ValueError(f"invalid time {text!r}: {_KNOWN}") from None
    if at.tzinfo is None:
        if zone is not None:
            at = at.replace(tzinfo=zone)
        return _local_ms(at, text)
    return _ms(at, text)


def _local_ms(at: datetime, text: str) -> int:
    """Return a local time that exists exactly once; in an hour that clocks skip or repeat it would be a guess."""
    first_ms, second_ms = _ms(at.replace(fold=0), text), _ms(at.replace(fold=1), text)
    if first_ms != second_ms:
        raise ValueError(f"{text!r} is skipped or ambiguous at a clock change: add a zone, for example +01:00 or Z")
    return first_ms


def _ms(at: datetime, text: str) -> int:
    try:
        aware = at.astimezone()  # naive: in the machine's zone
        return round((aware - datetime.fromtimestamp(0, aware.tzinfo)) / timedelta(milliseconds=1))
    except (OverflowError, ValueError, OSError):
        raise ValueError(f"{text!r} is not between the years 1970 and 9999") from None


def _ago(given: str, text: str) -> Ago:
    number = given.removeprefix("-")
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", number):
        raise ValueError(f"{text!r} has no unit: use {given}h, {given}m or {given}s")
    try:
        return Ago(parse_duration_ms(number))
    except ValueError:
        raise ValueError(f"invalid time {text!r}: {_KNOWN}") from None


_ZONES_MS = 14 * 3_600_000  # no zone is further from UTC


def month_times_ms(since_month_ms: int, now_ms: int, count: int = 3) -> list[int]:
    """Return the latest times that are `since_month_ms` after the start of a month in UTC, the newest first.

    Unique keys record only this part of the time they were created at (MessageClientIDSetter), in the producer's zone:
    the true time is up to 14 hours off, and may be in any month. The list is empty when no month is that long.
    """
    month = datetime.fromtimestamp(now_ms / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    times: list[int] = []
    for _ in range(count + 1):
        start_ms = round(month.timestamp() * 1000)
        following = (month + timedelta(days=32)).replace(day=1)
        at_ms = start_ms + since_month_ms
        if at_ms <= now_ms + _ZONES_MS and at_ms < round(following.timestamp() * 1000) + _ZONES_MS:
            times.append(at_ms)
        month = (month - timedelta(days=1)).replace(day=1)
    return times[:count]
