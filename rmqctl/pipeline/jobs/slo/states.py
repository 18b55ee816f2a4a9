"""Whether a group was within its limits at each of its snapshots, from rows of offset_snapshots."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from .limits import LagLimits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Bools: TypeAlias = NDArray[np.bool_]


class LimitState(IntEnum):
    """The state of a group at a snapshot.

    A part that is known can exceed a limit, but cannot meet one. ABSENT: the group consumes no topic, or is gone.
    """

    WITHIN = 0
    OUTSIDE = 1
    UNKNOWN = 2
    ABSENT = 3


class GroupSamples(NamedTuple):
    """Rows of one group, in any order. `queue` and `run` are numbers for names; unknown offsets are -1.

    `is_counted`: the row is of a queue that the group consumes. `is_expired`: its unread messages were deleted.
    """

    queue: Ints
    run: Ints
    at_ms: Ints
    consumer: Ints
    max: Ints
    min: Ints
    is_none_stored: Bools
    is_expired: Bools
    is_counted: Bools

    def take(self, rows: Ints | Bools) -> GroupSamples:
        """Return some rows."""
        columns: list[Any] = [column[rows] for column in self]
        return GroupSamples(*columns)

    def is_blank(self) -> bool:
        """Return whether all rows are of consumed queues and none has an offset."""
        return bool(self.is_counted.all() and (self.consumer < 0).all() and (self.max < 0).all())


class GroupStates(NamedTuple):
    """A group at its snapshots, in order of time: its state, unread messages, and the age of the oldest, at least."""

    at_ms: Ints
    state: Ints
    lag: Ints
    time_lag_ms: Ints


class _Ages(NamedTuple):
    """The age of the oldest unread message of each row, 0 without one; `known` or a lower bound."""

    at_least_ms: Ints
    known: Bools


def group_states(rows: GroupSamples, limits: LagLimits) -> GroupStates:
    """Return the states of a group. Messages that were deleted unread are unread, and outside of every limit."""
    rows = rows.take(np.lexsort((rows.at_ms, rows.queue)))
    # A queue counts once per snapshot.
    rows = rows.take(np.append((rows.queue[1:] != rows.queue[:-1]) | (rows.run[1:] != rows.run[:-1]), True))
    has = (rows.consumer >= 0) & (rows.max >= 0) & (rows.consumer <= rows.max)
    is_empty = (rows.consumer < 0) & rows.is_none_stored & (rows.min >= 0) & (rows.min == rows.max)
    is_lost = has & (rows.is_expired | (rows.min > rows.consumer))
    ages = _ages(rows, has)
    counted = rows.is_counted

    names, of = np.unique(rows.run, return_inverse=True)
    run_count = len(names)

    def any_of(mask: Bools) -> Bools:
        return np.asarray(np.bincount(of[mask & counted], minlength=run_count) > 0)

    def highest(values: Ints) -> Ints:
        found = np.zeros(run_count, np.int64)
        np.maximum.at(found, of[counted], values[counted])
        return found

    at_ms = np.full(run_count, np.iinfo(np.int64).max)
    np.minimum.at(at_ms, of, rows.at_ms)
    lag = np.zeros(run_count, np.int64)
    np.add.at(lag, of[counted], np.where(has, rows.max - rows.consumer, 0)[counted])
    time_lag_ms = highest(ages.at_least_ms)

    is_outside, is_unknown = any_of(is_lost), any_of(~has & ~is_empty)
    if limits.max_lag is not None:
        is_outside |= lag > limits.max_lag
    if limits.max_time_lag_ms is not None:
        is_outside |= time_lag_ms > limits.max_time_lag_ms
        is_unknown |= any_of(~ages.known)
    state = np.where(is_outside, LimitState.OUTSIDE, np.where(is_unknown, LimitState.UNKNOWN, LimitState.WITHIN))
    state = np.where(any_of(np.ones(len(of), np.bool_)), state, LimitState.ABSENT)
    order = np.argsort(at_ms, kind="stable")
    return GroupStates(at_ms[order], state[order], lag[order], time_lag_ms[order])


def _ages(rows: GroupSamples, has: Bools) -> _Ages:
    """Return the ages, by rules/time_lag.py: a message was stored when the end of the queue passed its offset.

    `rows` are by queue and time. A queue whose end goes back was created again, and begins there.
    """
    at_least_ms, known = np.zeros(len(has), np.int64), np.ones(len(has), np.bool_)
    ended = np.flatnonzero(rows.max >= 0)
    queue, at_ms, end = rows.queue[ended], rows.at_ms[ended], rows.max[ended]
    unread = np.maximum(rows.consumer, rows.min)[ended]
    is_waiting = has[ended] & (unread < end)
    starts = np.flatnonzero(np.append(True, (queue[1:] != queue[:-1]) | (end[1:] < end[:-1]))[: len(ended)])
    for begin, stop in zip(starts, np.append(starts, len(ended))[1:], strict=True):
        ms, ends = at_ms[begin:stop], end[begin:stop]
        waiting = np.flatnonzero(is_waiting[begin:stop])
        first = unread[begin:stop][waiting]
        passed = np.searchsorted(ends, first, side="right")
        before = np.maximum(passed - 1, 0)
        share = (first + 1 - ends[before]) / np.maximum(ends[passed] - ends[before], 1)
        stored_ms = ms[before] + ((ms[passed] - ms[before]) * share).astype(np.int64)
        is_older = passed == 0
        of = ended[begin:stop][waiting]
        at_least_ms[of] = ms[waiting] - np.where(is_older, ms[0], stored_ms)
        known[of] = ~is_older
    return _Ages(at_least_ms, known)
