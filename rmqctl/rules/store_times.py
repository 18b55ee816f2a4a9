"""Store times of a queue that do not rise with its offsets: a broker's clock was set back, or another broker took over.

This module picks the offsets to read to detect that, and describes how reliable a search by time is then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from rmqctl.model.queue import MessageQueue
from rmqctl.text.words import listed


class TimeOrder(StrEnum):
    """The order of store times that a search by time saw in a queue, and how it found its answer.

    RISING: every message seen is at least as new as those before it, so the search halved the queue. READ: some message
    is older than an earlier one, and the candidates were read. HALVED: some message is older, but there are too many
    candidates, or one of them cannot be read.
    """

    RISING = "RISING"
    READ = "READ"
    HALVED = "HALVED"


class TimeTarget(NamedTuple):
    """The message to find: the first one stored at `at_ms` or later, or the last one stored before it."""

    at_ms: int
    is_last: bool = False

    def fits(self, stored_at_ms: int) -> bool:
        """Tell whether a message is on the wanted side of the time."""
        return (stored_at_ms < self.at_ms) if self.is_last else (stored_at_ms >= self.at_ms)


def is_rising(seen: Mapping[int, int]) -> bool:
    """Tell whether store times, by offset, never go back."""
    return all(seen[before] <= seen[after] for before, after in pairwise(sorted(seen)))


def near_first(near: int, far: int, count: int) -> list[int]:
    """Return up to `count` offsets from the one after `near` to `far`, with growing distances.

    An unordered stretch changes the answer of a search only on one side: the nearer, the shorter it can be.
    """
    distance, step = abs(far - near), 1 if far >= near else -1
    if not distance:
        return []
    return sorted({near + step * round(distance ** (number / count)) for number in range(1, count + 1)})


def widest_drop(delays_ms: Mapping[int, int], least_ms: int = 1_000) -> tuple[int, int] | None:
    """Return the two neighbours with the largest fall of the time from birth to storage; None below `least_ms`.

    Birth times are by the producers' clocks. A broker's clock that was set back shows in this time for all later
    messages. Their store times overlap with earlier ones only for as long as the clock was set back.
    """
    drops = [(delays_ms[before] - delays_ms[after], before, after) for before, after in pairwise(sorted(delays_ms))]
    widest_ms, before, after = max(drops, default=(0, 0, 0))
    return (before, after) if widest_ms >= least_ms else None


def evenly(first: int, last: int, count: int) -> list[int]:
    """Return up to `count` evenly spread offsets between two others, in the direction from the first to the last."""
    inner = {first + (last - first) * number // (count + 1) for number in range(1, count + 1)} - {first, last}
    return sorted(inner, reverse=last < first)


def may_hold(wanted: TimeTarget, before_ms: int, after_ms: int) -> bool:
    """Tell whether the wanted message may be between two neighbours, the first one of which does not fit.

    If neither neighbour fits, it may be between them when their times go back. If their times rise, those in between
    are assumed to rise too.
    """
    return wanted.fits(after_ms) or (before_ms < after_ms if wanted.is_last else before_ms > after_ms)


def describe_orders(orders: Mapping[MessageQueue, TimeOrder]) -> Iterator[str]:
    """Yield sentences on the queues searched by time whose store times go back."""
    for order, meaning in (
        (TimeOrder.READ, "rmqctl read the messages that may be of that time."),
        (TimeOrder.HALVED, "Messages of that time may be missing."),
    ):
        yield from describe_back([mq for mq, found in orders.items() if found is order], meaning)


def describe_back(queues: Iterable[MessageQueue], meaning: str) -> Iterator[str]:
    """Yield a sentence on queues whose store times go back, and what that means; nothing without such queues."""
    if every := sorted(queues):
        yield f"Store times go back in {listed(every)}: a clock was set back, or another broker took over. {meaning}"
