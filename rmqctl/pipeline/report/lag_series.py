"""A group over time, as the page of the job lag draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rmqctl.model.queue import MessageQueue
from rmqctl.text.times import iso_time


class LagPoint(NamedTuple):
    """A snapshot of a group: its lag, None if that of a queue is unknown, and what changed since the one before.

    `set_back_count`: queues whose offset is lower; `owner_change_count`: queues that another member holds.
    """

    at_ms: int
    lag: int | None
    set_back_count: int = 0
    owner_change_count: int = 0


class LagWindow(NamedTuple):
    """A window that has snapshots, and the health of the group in it."""

    start_ms: int
    end_ms: int
    health: str


class GroupSeries(NamedTuple):
    """A group over time. `queues` have their maximum lag (None if unknown) and health by the start of the window."""

    points: Sequence[LagPoint]
    windows: Sequence[LagWindow]
    queues: Mapping[MessageQueue, Mapping[int, tuple[int | None, str]]]


def clock(at_ms: int) -> str:
    """Return a time as month, day, hour and minute in UTC."""
    iso = iso_time(at_ms) or ""
    return f"{iso[5:10]} {iso[11:16]}"
