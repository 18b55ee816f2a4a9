"""LagLimits of groups as users give them: a number for all, or for the groups that a pattern names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rmqctl.errors import UsageError
from rmqctl.text.durations import exact_duration, parse_duration_ms
from rmqctl.text.option_errors import option_errors
from rmqctl.text.wildcards import matching, require_matching

_EVERY = "*"


class LagLimits(NamedTuple):
    """Most unread messages of a group, and the highest age of the oldest one; None means no such limit."""

    max_lag: int | None
    max_time_lag_ms: int | None

    def __str__(self) -> str:
        """Return both, as a table shows them."""
        lag = [] if self.max_lag is None else [f"lag {self.max_lag}"]
        return ", ".join(lag + ([] if self.max_time_lag_ms is None else [exact_duration(self.max_time_lag_ms)]))


class GivenLimit(NamedTuple):
    """A number for the groups that a pattern names."""

    pattern: str
    most: int


class GivenLimits(NamedTuple):
    """All limits, in the given order: the last one that names a group applies to it."""

    lags: Sequence[GivenLimit]
    time_lags: Sequence[GivenLimit]

    def of_groups(self, names: Iterable[str]) -> dict[str, LagLimits]:
        """Return the limits of those groups that have any. Raises NotFoundError for a pattern that names none."""
        known = sorted(set(names))
        lags, time_lags = _by_group(self.lags, known), _by_group(self.time_lags, known)
        return {
            name: LagLimits(lags.get(name), time_lags.get(name)) for name in known if name in lags or name in time_lags
        }


def _by_group(given: Sequence[GivenLimit], names: Sequence[str]) -> dict[str, int]:
    found = {}
    for pattern, most in given:
        named = matching([pattern], names) if pattern == _EVERY else require_matching("Group", [pattern], names)
        found.update(dict.fromkeys(named, most))
    return found


def parse_limits(max_lags: Sequence[str], max_time_lags: Sequence[str]) -> GivenLimits:
    """Return the limits in texts like 1000 and payments-*=50. Raises UsageError."""
    return GivenLimits(
        [_parse("--max-lag", text, _count) for text in max_lags],
        [_parse("--max-time-lag", text, parse_duration_ms) for text in max_time_lags],
    )


def _parse(option: str, text: str, parse: Callable[[str], int]) -> GivenLimit:
    pattern, separator, number = text.rpartition("=")
    if separator and not pattern:
        raise UsageError(f"{option} {text} names no group.", hint=f"Write {option} {number}, or GROUP={number}.")
    with option_errors(option):
        return GivenLimit(pattern or _EVERY, parse(number))


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a number of messages")
    return int(text)
