"""Options that are durations."""

from __future__ import annotations

from rmqctl.errors import UsageError


def duration_option_ms(option: str, text: str) -> int:
    """Return the duration of an option in ms. Raises UsageError for an invalid duration, and for 0."""
    duration_ms = _parse_ms(option, text)
    if duration_ms == 0:
        raise UsageError(f"{option} must be above 0.")
    return duration_ms


def seconds_option(option: str, text: str) -> float:
    """Return the duration of an option in s, which may be 0. Raises UsageError for an invalid duration."""
    return _parse_ms(option, text) / 1000


def _parse_ms(option: str, text: str) -> int:
    from rmqctl.text.durations import parse_duration_ms

    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}.") from None
