"""Rates over time as a line of bars."""

from __future__ import annotations

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"
_UNKNOWN = "·"


def sparkline(rates: Sequence[float | None], width: int) -> str:
    """Return the last rates as at most `width` bars, each the mean of equally many; the highest one fills its cell.

    Nothing, or less than nothing, is the lowest bar, and anything more is higher. A bar is a dot where a rate is
    unknown.
    """
    size = max(1, -(-len(rates) // width))
    parts = [rates[at : at + size] for at in range(len(rates) % size, len(rates), size)]
    if len(rates) % size:
        parts.insert(0, rates[: len(rates) % size])
    means = [_mean(part) for part in parts]
    highest = max((mean for mean in means if mean is not None), default=0.0)
    return "".join(_UNKNOWN if mean is None else _bar(mean, highest) for mean in means)


def _mean(rates: Sequence[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) / len(known) if len(known) == len(rates) else None


def _bar(rate: float, highest: float) -> str:
    if rate <= 0:
        return _BARS[0]
    return _BARS[min(len(_BARS) - 1, 1 + int(rate / highest * (len(_BARS) - 1)))]
