"""The report of the job lag as one HTML page: no scripts, no external resources, inline plots."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rmqctl.model.queue import MessageQueue
from rmqctl.page.template import render_template
from rmqctl.text.words import counted

from .lag_series import GroupSeries, LagPoint, clock

_SHOWN = 100  # rows of a table
_CELL_ROWS = 30  # queues of a heat map
_CELL_COLUMNS = 96  # times of a heat map
_NAMED_RESETS = 5


class HeatCell(NamedTuple):
    """A queue in one window: its lag, the lag in words, and a shade from 0 to 1."""

    lag: int | None
    title: str
    shade: float


class LagPage(NamedTuple):
    """The content of a page: facts and group rows as in the job's JSON, and series of the plotted groups.

    `group_count` counts all groups, also those without a row. Series are by (cluster label, cluster, group), as
    returned by jobs.lag.series.group_series. `warnings` are sentences without which the rows would mislead.
    """

    facts: Mapping[str, Any]
    groups: Sequence[Mapping[str, Any]]
    group_count: int
    series: Mapping[tuple[str, str | None, str], GroupSeries]
    warnings: Sequence[str] = ()


def render_page(page: LagPage) -> str:
    """Return the page; all names from the cluster are escaped."""
    groups = page.groups
    stuck = [(row, queue) for row in groups for queue in row["stuckQueues"]]
    uneven_topics = [(row, topic) for row in groups for topic in row["topics"] if (topic["lagSkew"] or 1) > 1]
    uneven = [row for row in groups if max(row["memberLagSkew"] or 1, row["memberConsumeSkew"] or 1) > 1]
    changed = [row for row in groups if row["ownerChangeCount"]]
    view = {
        **page._asdict(),
        "sick": [row for row in groups if not _is_folded(row)],
        "folded": [row for row in groups if _is_folded(row)],
        "drawings": [
            _drawing(f"g{number}", row, series, page.facts["windowMs"]) for number, row, series in _drawn(page)
        ],
        "most_rows": _SHOWN,
        "stuck": sorted(stuck, key=lambda pair: (-pair[1]["forMs"], -pair[1]["behind"])),
        "topics": sorted(uneven_topics, key=lambda pair: -pair[1]["lagSkew"]),
        "members": [(row, max(row["members"], key=lambda each: each["lag"] or 0)) for row in _by_skew(uneven)],
        "owners": sorted(changed, key=lambda row: (-row["ownerChangeCount"], row["group"])),
        "queue_of": lambda queue: MessageQueue(queue["topic"], queue["brokerName"], queue["queueId"]),
    }
    return render_template("pipeline/report/lag.html", view)


def _is_folded(row: Mapping[str, Any]) -> bool:
    """Return whether there is nothing to look at: the group is OK and its lag known, or it consumes nothing."""
    return row["health"] in ("LEFT", "GONE") or (row["health"] == "OK" and row["lag"] is not None)


def _by_skew(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(rows, key=lambda row: -(row["memberLagSkew"] or 1))


def _drawn(page: LagPage) -> Iterable[tuple[int, Mapping[str, Any], GroupSeries]]:
    for number, row in enumerate(page.groups):
        series = page.series.get((row["clusterLabel"], row["cluster"], row["group"]))
        if series is not None and series.points and series.windows:
            yield number, row, series


def _drawing(key: str, row: Mapping[str, Any], series: GroupSeries, window_ms: int) -> dict[str, Any]:
    from .plots import lag_plot  # takes most of a second to import

    box, shapes = lag_plot(key, series.points, series.windows)
    first_ms, last_ms = series.windows[0].start_ms, series.windows[-1].end_ms
    changes = sum(point.owner_change_count for point in series.points)
    most = max((_most(lags) for lags in series.queues.values()), default=-1)
    return {
        "key": key,
        "row": row,
        "is_open": not _is_folded(row),
        "box": box,
        "shapes": shapes,
        "lag": summary(series.points),
        "resets": set_back(series.points),
        "changes": changes,
        "queue_count": len(series.queues),
        "most": max(0, most),
        "rows": heat_rows(series, window_ms, most),
        "times": [clock(at_ms) for at_ms in (first_ms, (first_ms + last_ms) // 2, last_ms)],
    }


def heat_rows(series: GroupSeries, window_ms: int, most: int) -> list[tuple[MessageQueue, list[HeatCell | None]]]:
    """Return the cells of the queues with the most lag, one per part of the time; None for those without a sample.

    A part is one window or several, of which the cell has the maximum that is known. Shades have a log scale up to
    `most`, the maximum of all queues.
    """
    full = math.log1p(max(1, most))
    first_ms, last_ms = series.windows[0].start_ms, series.windows[-1].start_ms
    window_count = (last_ms - first_ms) // window_ms + 1
    part_ms = window_ms * -(-window_count // _CELL_COLUMNS)
    part_count = (last_ms - first_ms) // part_ms + 1

    def cell(mq: MessageQueue, number: int, lags: Sequence[tuple[int | None, str]]) -> HeatCell:
        known = [lag for lag, _ in lags if lag is not None]
        lag = max(known, default=None)
        said = "unknown" if lag is None else f"at least {lag:,}" if len(known) < len(lags) else f"{lag:,}"
        healths = ", ".join(sorted({health for _, health in lags}))
        # A tenth of the maximum is still visible.
        shade = 0.06 + 0.94 * math.log1p(lag or 0) / full
        return HeatCell(lag, f"{mq} {clock(first_ms + number * part_ms)}: {said}, {healths}", shade)

    rows: list[tuple[MessageQueue, list[HeatCell | None]]] = []
    worst = sorted(series.queues.items(), key=lambda item: (-_most(item[1]), item[0]))
    for mq, lags in sorted(worst[:_CELL_ROWS], key=lambda item: item[0]):
        parts: defaultdict[int, list[tuple[int | None, str]]] = defaultdict(list)
        for start_ms, found in lags.items():
            parts[(start_ms - first_ms) // part_ms].append(found)
        rows.append((mq, [cell(mq, each, parts[each]) if each in parts else None for each in range(part_count)]))
    return rows


def _most(lags: Mapping[int, tuple[int | None, str]]) -> int:
    return max((lag for lag, _ in lags.values() if lag is not None), default=-1)


def summary(points: Sequence[LagPoint]) -> str:
    """Describe the line of a plot in words."""
    known = [(point.lag, point.at_ms) for point in points if point.lag is not None]
    if not known:
        return "The lag is unknown in every snapshot."
    most, at_ms = max(known)
    gaps = f" It is unknown in {len(points) - len(known)} of {len(points)}." if len(known) < len(points) else ""
    return f"From {known[0][0]:,} to {known[-1][0]:,}, maximum {most:,} at {clock(at_ms)} UTC.{gaps}"


def set_back(points: Sequence[LagPoint]) -> str:
    """Return in words when offsets were set back, the latest first; empty if none was."""
    found = [point for point in reversed(points) if point.set_back_count]
    named = [f"{clock(point.at_ms)} ({counted(point.set_back_count, 'queue')})" for point in found[:_NAMED_RESETS]]
    more = [f"{len(found) - len(named)} more"] if len(found) > len(named) else []
    return ", ".join(named + more)
