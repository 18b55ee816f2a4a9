"""What one run leaves behind for its timeline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct, field


class Span(NamedTuple):
    """A time, in ms since the start of the run, and the number of queues that it concerns."""

    begun_ms: float
    ended_ms: float
    queue_count: int = 1


class Track(Struct):
    """When each client id pulled queues, and when queues had two or more owners, or none."""

    pulled: dict[str, list[Span]] = field(default_factory=dict)
    shared: list[Span] = field(default_factory=list)
    unowned: list[Span] = field(default_factory=list)


def sum_parts(spans: Iterable[Span], *, part_ms: int, for_ms: float) -> list[float]:
    """Return, for each part of the time, the ms of it that spans cover, times their numbers of queues."""
    sums_ms = [0.0] * -int(-for_ms // part_ms)
    for begun_ms, ended_ms, queue_count in spans:
        for number in range(int(begun_ms // part_ms), len(sums_ms)):
            first_ms = number * part_ms
            if first_ms >= ended_ms:
                break
            sums_ms[number] += queue_count * (min(ended_ms, first_ms + part_ms) - max(begun_ms, first_ms))
    return sums_ms
