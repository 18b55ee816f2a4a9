"""What the page of the job draws of a group: each of its snapshots, and its queues in each window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.report.lag_series import GroupSeries, LagPoint, LagWindow

from .groups import WORDS, queue_of
from .standing import UNCONSUMED

_UNCONSUMED = {word for word, _ in UNCONSUMED.values()}


def group_series(
    sums: Iterable[Mapping[str, Any]], facts: Iterable[Mapping[str, Any]], since_ms: int, until_ms: int
) -> GroupSeries:
    """Return what is drawn of one group, from its rows of sums.snapshot_sums and of queue_windows.MADE.

    A window has the worst health of its queues. None ends after `until_ms`; the first is left out if it begins before
    `since_ms`, because some of its snapshots were not read.
    """
    of_run: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in sums:
        of_run[row["run_id"]].append(row)
    words: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    queues: defaultdict[MessageQueue, dict[int, tuple[int | None, str]]] = defaultdict(dict)
    rows = list(facts)
    last_ms = max((row["window_start_ms"] for row in rows), default=0)
    for row in rows:
        if row["window_start_ms"] < min(since_ms, last_ms):
            continue
        words[row["window_start_ms"], row["window_end_ms"]].add(row["status"])
        queues[queue_of(row)][row["window_start_ms"]] = row["lag_max"], row["status"]
    return GroupSeries(
        tuple(_point(rows) for rows in of_run.values()),
        tuple(
            LagWindow(start_ms, min(end_ms, until_ms), min(found - _UNCONSUMED or found, key=WORDS.index))
            for (start_ms, end_ms), found in sorted(words.items())
        ),
        dict(queues),
    )


def _point(rows: Iterable[Mapping[str, Any]]) -> LagPoint:
    """Return the point of a snapshot; its brokers may have been of several clusters, or of an unknown one."""
    rows = list(rows)
    lags = [row["lag"] for row in rows]
    return LagPoint(
        min(row["at_ms"] for row in rows),
        None if None in lags else sum(lags),
        sum(row["set_back_count"] for row in rows),
        sum(row["owner_change_count"] for row in rows),
    )
