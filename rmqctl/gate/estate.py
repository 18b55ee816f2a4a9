"""A file of checks: which groups of which clusters keep which limits, in TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from rmqctl.diagnose.finding import Severity, parse_severity
from rmqctl.errors import UsageError
from rmqctl.text.durations import parse_duration_ms
from rmqctl.text.names import hint_for, one_of
from rmqctl.text.option_errors import option_errors

from .limits import GroupLimits, SeverityThreshold, Threshold
from .readings import CheckTarget


class EstateEntry(Struct, frozen=True):
    """One group or pattern to check; `context`: None for the cluster of the command line."""

    context: str | None
    target: CheckTarget


def make_limits(given: Mapping[str, Any], name: Callable[[str], str]) -> GroupLimits:
    """Return the limits from values by option, without dashes; `name` returns how errors call an option.

    Numbers are int, durations and severities text. Raises UsageError for an unusable value.
    """

    def number(key: str) -> int | None:
        value = given.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise UsageError(f"{name(key)} must be a whole number, 0 or more, not {value!r}.")
        return value

    def duration_ms(key: str) -> int | None:
        value = given.get(key)
        if value is None:
            return None
        with option_errors(name(key)):
            return parse_duration_ms(value if isinstance(value, str) else str(value))

    def severity(key: str) -> Severity | None:
        value = given.get(key)
        return None if value is None else parse_severity(name(key), str(value))

    def threshold(read: Callable[[str], int | None], warning: str, critical: str) -> Threshold | None:
        found = Threshold(read(warning), read(critical))
        if found.warning is not None and found.critical is not None:
            is_late = found.warning < found.critical if critical == "min-members" else found.warning > found.critical
            if is_late:
                raise UsageError(f"{name(warning)} must warn before {critical} fails.")
        return None if found == Threshold() else found

    severities = SeverityThreshold(severity("warn-severity"), severity("fail-on"))
    window_ms, stable_for_ms = duration_ms("dlq-window"), duration_ms("stable-for")
    return GroupLimits(
        lag=threshold(number, "warn-lag", "max-lag"),
        time_lag_ms=threshold(duration_ms, "warn-time-lag", "max-time-lag"),
        members=threshold(number, "warn-members", "min-members"),
        dead_letters=threshold(number, "warn-dlq-growth", "max-dlq-growth"),
        severity=None if severities == SeverityThreshold() else severities,
        window_ms=GroupLimits().window_ms if window_ms is None else window_ms,
        stable_for_ms=stable_for_ms or None,
    )


LIMIT_KEYS = (
    "max-lag", "warn-lag", "max-time-lag", "warn-time-lag", "min-members", "warn-members", "max-dlq-growth",
    "warn-dlq-growth", "dlq-window", "fail-on", "warn-severity", "stable-for",
)  # fmt: skip
_KEYS = ("group", "topic", "context", *LIMIT_KEYS)
_FORMER_KEYS = {"no-severity": "fail-on"}


def parse_estate(data: bytes, file: str) -> list[EstateEntry]:
    """Return the checks of a file. Raises UsageError for a file that is not one, in one sentence."""
    try:
        document = tomllib.loads(data.decode())
    except ValueError as error:
        raise UsageError(f"{file} is not valid TOML: {error}.") from None
    _require_keys(document, ("defaults", "check"), file)
    defaults, tables = document.get("defaults", {}), document.get("check", [])
    if not isinstance(defaults, dict) or not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise UsageError(f"{file}: defaults must be a table, and check an array of tables.", hint=_EXAMPLE)
    if not tables:
        raise UsageError(f"{file} has no checks.", hint=_EXAMPLE)
    defaults = _renamed(defaults, f"defaults of {file}")
    _require_keys(defaults, _KEYS[1:], f"defaults of {file}")
    entries: dict[tuple[str | None, str, tuple[str, ...]], EstateEntry] = {}
    for index, table in enumerate(tables, start=1):
        where = f"check {index} of {file}"
        table = _renamed(table, where)
        _require_keys(table, _KEYS, where)
        for entry in _entries({**defaults, **table}, where):
            key = entry.context, entry.target.group, entry.target.topics
            if key in entries:
                raise UsageError(f"{where}: group {entry.target.group} has a check with the same topics already.")
            entries[key] = entry
    return list(entries.values())


_EXAMPLE = 'Begin each check with [[check]], and name its group: group = "my-group".'


def _entries(table: Mapping[str, Any], where: str) -> list[EstateEntry]:
    groups, topics = _names(table, "group", where), _names(table, "topic", where)
    if not groups:
        raise UsageError(f"{where} names no group.", hint=_EXAMPLE)
    context = table.get("context")
    if not isinstance(context, str | None):
        raise UsageError(f"{where}: context must be text.")
    limits = make_limits(table, lambda key: f"{where}: {key}")
    if limits == GroupLimits(window_ms=limits.window_ms):
        raise UsageError(f"{where} has no limit.", hint=one_of(LIMIT_KEYS))
    return [EstateEntry(context, CheckTarget(group, topics, limits)) for group in groups]


def _names(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = table.get(key, [])
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise UsageError(f"{where}: {key} must be a name, or a list of names.")
    return tuple(names)


def _renamed(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a table with the names that its keys have today."""
    for former, key in _FORMER_KEYS.items():
        if former in table and key in table:
            raise UsageError(f"{where} has both {key} and its former name {former}.", hint=f"Remove {former}.")
    return {_FORMER_KEYS.get(key, key): value for key, value in table.items()}


def _require_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise UsageError(f"Unknown key {key!r} in {where}.", hint=hint_for(key, known))
