"""Options that are durations above 0."""

from __future__ import annotations

from rmqctl.errors import UsageError


def duration_option_ms(option: str, text: str) -> int:
    """Return a duration of an option in ms. Raises UsageError for anything else, and for none."""
    from rmqctl.rules.durations import parse_duration_ms

    try:
        duration_ms = parse_duration_ms(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}.") from None
    if duration_ms == 0:
        raise UsageError(f"{option} must be above 0.")
    return duration_ms
