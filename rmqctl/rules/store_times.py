"""Store times of a queue that do not rise with its offsets: a broker's clock was set back, or another broker took over.

What of a queue to look at to see that, and what a search by time can tell then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from rmqctl.model.queue import MessageQueue

from .words import listed


class TimeOrder(StrEnum):
    """What a search by time saw of a queue's store times, and how it found its answer then.

    RISING: no message seen is older than one before it, so the queue was halved. READ: one is, and the messages in
    question were read. HALVED: one is, but too many messages are in question, or one of them can't be read.
    """

    RISING = "RISING"
    READ = "READ"
    HALVED = "HALVED"


class Wanted(NamedTuple):
    """The message that is searched: the first one stored at `at_ms` or later, or the last one stored before it."""

    at_ms: int
    is_last: bool = False

    def fits(self, stored_at_ms: int) -> bool:
        """Tell whether a message is on the wanted side of the time."""
        return (stored_at_ms < self.at_ms) if self.is_last else (stored_at_ms >= self.at_ms)


def is_rising(seen: Mapping[int, int]) -> bool:
    """Tell whether store times, by offset, never go back."""
    return all(seen[before] <= seen[after] for before, after in pairwise(sorted(seen)))


def near_first(near: int, far: int, count: int) -> list[int]:
    """Return up to `count` offsets from next to `near` up to `far`, each further from the last than that was.

    A stretch out of order changes the answer of a search only on one side of it: the nearer, the shorter it can be.
    """
    distance, step = abs(far - near), 1 if far >= near else -1
    if not distance:
        return []
    return sorted({near + step * round(distance ** (number / count)) for number in range(1, count + 1)})


def widest_drop(delays_ms: Mapping[int, int], least_ms: int = 1_000) -> tuple[int, int] | None:
    """Return the two neighbours between which the time from birth to storage falls most; None where it falls by less.

    Birth is by the producers' clocks. A broker's clock that is set back shows in all later messages, while their store
    times overlap with those of earlier ones for as long as it was set back only.
    """
    drops = [(delays_ms[before] - delays_ms[after], before, after) for before, after in pairwise(sorted(delays_ms))]
    widest_ms, before, after = max(drops, default=(0, 0, 0))
    return (before, after) if widest_ms >= least_ms else None


def evenly(first: int, last: int, count: int) -> list[int]:
    """Return up to `count` offsets between two others, evenly spread, in the direction from the first to the last."""
    inner = {first + (last - first) * number // (count + 1) for number in range(1, count + 1)} - {first, last}
    return sorted(inner, reverse=last < first)


def may_hold(wanted: Wanted, before_ms: int, after_ms: int) -> bool:
    """Tell whether the wanted message may be between two neighbours, of which the first one reached does not fit.

    Between two messages that do not fit either it may be if their times go back. Where they rise, times in between are
    taken to rise as well.
    """
    return wanted.fits(after_ms) or (before_ms < after_ms if wanted.is_last else before_ms > after_ms)


def describe_orders(orders: Mapping[MessageQueue, TimeOrder]) -> Iterator[str]:
    """Tell of the queues that were searched by time and whose store times go back."""
    for order, meaning in (
        (TimeOrder.READ, "rmqctl read the messages that may be of that time."),
        (TimeOrder.HALVED, "Messages of that time may be missing."),
    ):
        yield from describe_back([mq for mq, found in orders.items() if found is order], meaning)


def describe_back(queues: Iterable[MessageQueue], meaning: str) -> Iterator[str]:
    """Tell of queues whose store times go back, and what that means; nothing of none."""
    if every := sorted(queues):
        yield f"Store times go back in {listed(every)}: a clock was set back, or another broker took over. {meaning}"
