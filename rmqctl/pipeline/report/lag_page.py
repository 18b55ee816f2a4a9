"""The report of the job lag as one HTML page: no scripts, no external resources, inline plots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rmqctl.model.queue import MessageQueue
from rmqctl.page.template import render_template
from rmqctl.text.times import iso_time

_SHOWN = 100  # rows of a table
_CELL_ROWS = 30  # queues of a heat map

# The maximum lag and the health of a queue in one window.
Lag = tuple[int | None, str]


class HeatCell(NamedTuple):
    """A queue in one window: its lag, the lag in words, and a shade from 0 to 1."""

    lag: int | None
    title: str
    shade: float


class LagPage(NamedTuple):
    """The content of a page: facts and group rows as in the job's JSON, and series of the plotted groups.

    `group_count` counts all groups, also those without a row. Series are by (cluster label, cluster, group), as
    returned by jobs.lag.groups.group_series.
    """

    facts: Mapping[str, Any]
    groups: Sequence[Mapping[str, Any]]
    group_count: int
    series: Mapping[tuple[str, str | None, str], Mapping[str, Any]]


def render_page(page: LagPage) -> str:
    """Return the page; all names from the cluster are escaped."""
    groups = page.groups
    stuck = [(row, queue) for row in groups for queue in row["stuckQueues"]]
    uneven_topics = [(row, topic) for row in groups for topic in row["topics"] if (topic["lagSkew"] or 1) > 1]
    uneven = [row for row in groups if max(row["memberLagSkew"] or 1, row["memberConsumeSkew"] or 1) > 1]
    changed = [row for row in groups if row["ownerChangeCount"]]
    view = {
        **page._asdict(),
        "drawings": [_drawing(f"g{number}", row, series) for number, row, series in _drawn(page)],
        "most_rows": _SHOWN,
        "stuck": sorted(stuck, key=lambda pair: (-pair[1]["forMs"], -pair[1]["behind"])),
        "topics": sorted(uneven_topics, key=lambda pair: -pair[1]["lagSkew"]),
        "members": [(row, max(row["members"], key=lambda each: each["lag"] or 0)) for row in _by_skew(uneven)],
        "owners": sorted(changed, key=lambda row: (-row["ownerChangeCount"], row["group"])),
        "queue_of": lambda queue: MessageQueue(queue["topic"], queue["brokerName"], queue["queueId"]),
    }
    return render_template("pipeline/report/lag.html", view)


def _by_skew(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(rows, key=lambda row: -(row["memberLagSkew"] or 1))


def _drawn(page: LagPage) -> Iterable[tuple[int, Mapping[str, Any], Mapping[str, Any]]]:
    for number, row in enumerate(page.groups):
        series = page.series.get((row["clusterLabel"], row["cluster"], row["group"]), {})
        if series.get("startsMs"):
            yield number, row, series


def _drawing(key: str, row: Mapping[str, Any], series: Mapping[str, Any]) -> dict[str, Any]:
    from .plots import lag_plot  # takes most of a second to import

    starts_ms, ends_ms, changes = series["startsMs"], series["endsMs"], series["ownerChanges"]
    titles = [f"{clock(at_ms)} {count:,}" for at_ms, count in zip(starts_ms, changes, strict=True)]
    box, shapes = lag_plot(key, starts_ms, ends_ms, series["lag"], changes, titles)
    queues = sorted(series["queues"].items(), key=lambda item: (-_most(item[1]), item[0]))
    shown = dict(sorted(queues[:_CELL_ROWS]))
    most = _most(queues[0][1])
    return {
        "key": key,
        "row": row,
        "box": box,
        "shapes": shapes,
        "lag": summary(ends_ms, series["lag"]),
        "changes": summary(ends_ms, changes) if any(changes) else "",
        "queue_count": len(queues),
        "most": max(0, most),
        "rows": heat_rows(starts_ms, ends_ms[0] - starts_ms[0], shown, most),
        "times": [clock(at_ms) for at_ms in (starts_ms[0], (starts_ms[0] + ends_ms[-1]) // 2, ends_ms[-1])],
    }


def heat_rows(
    starts_ms: Sequence[int], window_ms: int, queues: Mapping[MessageQueue, Sequence[Lag | None]], most: int
) -> list[tuple[MessageQueue, list[HeatCell | None]]]:
    """Return the cells of each queue, one per window; those of windows without a sample are None.

    Shades have a log scale up to `most`, the maximum of all queues.
    """
    full = math.log1p(max(1, most))

    def cell(mq: MessageQueue, at_ms: int, lag: int | None, health: str) -> HeatCell:
        said = "unknown" if lag is None else f"{lag:,}"
        # A tenth of the maximum is still visible.
        shade = 0.06 + 0.94 * math.log1p(lag or 0) / full
        return HeatCell(lag, f"{mq} {clock(at_ms)}: {said}, {health}", shade)

    every_ms = range(starts_ms[0], starts_ms[-1] + 1, window_ms)
    rows: list[tuple[MessageQueue, list[HeatCell | None]]] = []
    for mq, lags in queues.items():
        known = {at_ms: cell(mq, at_ms, *lag) for at_ms, lag in zip(starts_ms, lags, strict=True) if lag is not None}
        rows.append((mq, [known.get(at_ms) for at_ms in every_ms]))
    return rows


def _most(lags: Iterable[Lag | None]) -> int:
    return max((lag[0] for lag in lags if lag is not None and lag[0] is not None), default=-1)


def clock(at_ms: int) -> str:
    """Return a time as month, day, hour and minute in UTC."""
    iso = iso_time(at_ms) or ""
    return f"{iso[5:10]} {iso[11:16]}"


def summary(ends_ms: Sequence[int], values: Sequence[float | None]) -> str:
    """Describe a plot to those who cannot see it."""
    known = [(value, at_ms) for value, at_ms in zip(values, ends_ms, strict=True) if value is not None]
    if not known:
        return "All values are unknown."
    most, at_ms = max(known)
    gaps = f" {len(values) - len(known)} of {len(values)} are unknown." if len(known) < len(values) else ""
    return f"From {known[0][0]:,} to {known[-1][0]:,}, maximum {most:,} at {clock(at_ms)} UTC.{gaps}"
