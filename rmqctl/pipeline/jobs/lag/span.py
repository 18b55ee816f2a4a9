"""The time that the job lag examines, and the length of its windows."""

from __future__ import annotations

from typing import NamedTuple

from rmqctl.errors import UsageError
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.tables.hours import HOUR_MS
from rmqctl.text.durations import parse_duration_ms
from rmqctl.text.option_errors import option_errors

_MINUTE_MS, _DAY_MS = 60_000, 24 * HOUR_MS
_LEAST_WINDOW_MS = _MINUTE_MS
# Burrow judges a partition by its last ten commits. Less than 5 minutes would not show whether a lag fluctuates.
_FITTING_COUNT = 10
_FITTING_MS = (
    *(minutes * _MINUTE_MS for minutes in (5, 6, 10, 12, 15, 20, 30)),
    *(hours * HOUR_MS for hours in (1, 2, 3, 4, 6, 8, 12, 24)),
)


class LagSpan(NamedTuple):
    """The examined time: whole windows from `since_ms` to `until_ms`; the last window ends at `end_ms`.

    `now_ms` is the latest time at which there could be a sample: that of the last one, or the requested end.
    """

    since_ms: int
    until_ms: int
    end_ms: int
    now_ms: int

    def begun_with(self, oldest_ms: int, length_ms: int) -> LagSpan:
        """Return the span without the windows and hours before the oldest sample."""
        return self._replace(since_ms=max(self.since_ms, _floor_ms(oldest_ms, max(length_ms, HOUR_MS))))


def given_window_ms(options: JobOptions) -> int | None:
    """Return the requested length of a window. Raises UsageError unless it divides an hour, or is whole hours."""
    if options.window is None:
        return None
    with option_errors("--window"):
        found = parse_duration_ms(options.window)
    is_whole = found >= _LEAST_WINDOW_MS and found % 1000 == 0
    fits = is_whole and (HOUR_MS % found == 0 or found % HOUR_MS == 0)
    if not fits:
        raise UsageError(
            f"--window {options.window} neither divides an hour nor is a whole number of hours.",
            hint="Use at least 1m, for example 5m, 15m, 1h, 6h or 1d.",
        )
    return found


def fitting_window_ms(interval_ms: int | None) -> int:
    """Return the shortest window that has ten snapshots, taken that far apart; an hour when that is unknown."""
    if interval_ms is None:
        return HOUR_MS
    return next((ms for ms in _FITTING_MS if ms >= _FITTING_COUNT * interval_ms), _FITTING_MS[-1])


def span_of(options: JobOptions, newest_ms: int, length_ms: int) -> LagSpan:
    """Return the time to examine: by default 24 hours, or one window if longer, up to the newest sample.

    It is widened to whole windows and hours, so that complete parts of the table are replaced. Raises UsageError.
    """
    end_ms = options.time_ms("until", newest_ms + 1)
    since_ms = options.time_ms("since", max(0, end_ms - max(_DAY_MS, length_ms)))
    if since_ms >= end_ms:
        raise UsageError("--since is not before --until." if options.until else "--since is after the last snapshot.")
    unit_ms = max(length_ms, HOUR_MS)
    until_ms = _floor_ms(end_ms - 1, unit_ms) + unit_ms
    return LagSpan(_floor_ms(since_ms, unit_ms), until_ms, end_ms, newest_ms if options.until is None else end_ms)


def _floor_ms(at_ms: int, unit_ms: int) -> int:
    return at_ms // unit_ms * unit_ms
