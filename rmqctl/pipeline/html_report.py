"""The report of the job lag as one HTML page: no scripts, no external resources, inline plots."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rmqctl.model.queue import MessageQueue
from rmqctl.page.template import render_template
from rmqctl.text.durations import short_duration
from rmqctl.text.times import iso_time
from rmqctl.text.words import counted

from .svg_plots import bar_plot, heat_plot, line_plot

_SHOWN = 100  # rows of a table
_CELL_ROWS = 30  # queues of a heat map


class Page(NamedTuple):
    """The content of a page: facts and group rows as in the job's JSON, and series of the plotted groups.

    `group_count` counts all groups, also those without a row. Series are by (cluster, group), as returned by
    lag_report.group_series.
    """

    facts: Mapping[str, Any]
    groups: Sequence[Mapping[str, Any]]
    group_count: int
    series: Mapping[tuple[str | None, str], Mapping[str, Any]]


def render_page(page: Page) -> str:
    """Return the page; all names from the cluster are escaped."""
    from markupsafe import Markup

    body = [_head(page), _groups(page), *_drawings(page), _stuck(page), _topics(page), _members(page), _owners(page)]
    return render_template("pipeline/report.html", {"body": Markup("\n".join(filter(None, body)))})  # noqa: S704 -- made of escaped parts


def _text(value: object) -> str:
    return html.escape(str(value))


def _number(value: float | None) -> str:
    """Format a number; None becomes "unknown"."""
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _time(at_ms: int | None) -> str:
    iso = iso_time(at_ms)
    return "unknown" if iso is None else f'<time datetime="{iso}">{iso[:10]} {iso[11:19]}</time>'


def _health(health: str) -> str:
    return f'<span class="health {health}">{health}</span>'


def _head(page: Page) -> str:
    facts = page.facts
    window = short_duration(facts["windowMs"])
    counts = "".join(
        f'<li><b>{count:,}</b><span class="health {health}">{health}</span></li>'
        for health, count in facts["groupCounts"].items()
    )
    return f"""<header>
<h1>Consumer groups: lag</h1>
<p>{counted(facts["groupCount"], "group")}, {counted(facts["queueCount"], "queue")}, judged by the last {window} up to
{_time(facts["windowEndTimestamp"])} UTC. {counted(facts["snapshotCount"], "snapshot")} since
{_time(facts["sinceTimestamp"])}, the newest from {_time(facts["newestSnapshotTimestamp"])}.</p>
<ul class="counts" aria-label="Groups by health">{counts}</ul>
</header>"""


def _table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: str) -> str:
    """Return a table of cells that are HTML; `numbers` has a # for each column of numbers, a . for others."""
    classes = [' class="number"' if kind == "#" else "" for kind in numbers]
    head = "".join(f'<th scope="col"{kind}>{_text(name)}</th>' for name, kind in zip(headings, classes, strict=True))
    lines = []
    for first, *others in rows:
        cells = "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(others, classes[1:], strict=True))
        lines.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{_text(caption)}"><table>'
        f"<caption>{_text(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _first(rows: Sequence[Any], noun: str) -> str:
    """Return how many of the rows a table shows."""
    return f"The first {_SHOWN:,} of {counted(len(rows), noun)}." if len(rows) > _SHOWN else counted(len(rows), noun)


def _eta(row: Mapping[str, Any]) -> str:
    return "not at this pace" if row["etaMs"] is None else short_duration(row["etaMs"])


def _name(row: Mapping[str, Any]) -> str:
    cluster = "" if row["cluster"] is None else f' <span class="soft">{_text(row["cluster"])}</span>'
    return f"{_text(row['group'])}{cluster}"


def _groups(page: Page) -> str:
    shown = [
        (
            _name(row), _health(row["health"]), _number(row["lag"]), _number(row["slopeMsgsPerS"]), _eta(row),
            _number(row["stuckCount"]), f"{_text(row['worstQueue'])}: {_text(row['reason'])}",
        )
        for row in page.groups
    ]  # fmt: skip
    more = "" if page.group_count == len(shown) else f"The worst {len(shown):,} of "
    headings = ("Group", "Health", "Lag", "Lag per s", "Caught up in", "Stuck", "Worst queue")
    table = _table(f"{more}{counted(page.group_count, 'group')}, worst first", headings, shown, "..##.#.")
    return f"<section><h2>Groups</h2>{table}</section>"


def _drawings(page: Page) -> list[str]:
    drawn = [
        _drawing(f"g{number}", row, page.series[row["cluster"], row["group"]])
        for number, row in enumerate(page.groups)
        if page.series.get((row["cluster"], row["group"]), {}).get("startsMs")
    ]
    return ["<h2>Over time</h2>", *drawn] if drawn else []


def _drawing(key: str, row: Mapping[str, Any], series: Mapping[str, Any]) -> str:
    name = row["group"]
    queues = sorted(series["queues"].items(), key=lambda item: (-_most(item[1]), item[0]))
    shown = dict(sorted(queues[:_CELL_ROWS]))
    cells: dict[str, list[tuple[int | None, str] | None]] = {str(mq): values for mq, values in shown.items()}
    more = f", the {len(shown)} with the most lag of {len(queues)}" if len(queues) > len(shown) else ""
    times = (series["startsMs"], series["endsMs"])
    parts = [
        line_plot(f"{key}l", f"Lag of {name}", *times, series["lag"]),
        heat_plot(f"{key}q", f"Lag of the queues of {name}{more}: maximum in each window", *times, cells),
    ]
    if any(series["ownerChanges"]):
        parts.append(
            bar_plot(f"{key}o", f"Queues of {name} that changed owner, in each window", *times, series["ownerChanges"])
        )
    return (
        f'<section class="group"><h3>{_name(row)} {_health(row["health"])}</h3>'
        f"<p>{_text(row['worstQueue'])}: {_text(row['reason'])}.</p>{''.join(parts)}</section>"
    )


def _most(values: Iterable[tuple[int | None, str] | None]) -> int:
    return max((value[0] for value in values if value is not None and value[0] is not None), default=-1)


def _stuck(page: Page) -> str:
    found = [(row, queue) for row in page.groups for queue in row["stuckQueues"]]
    if not found:
        return ""
    found.sort(key=lambda pair: (-pair[1]["forMs"], -pair[1]["behind"]))
    rows = [
        (
            _text(MessageQueue(queue["topic"], queue["brokerName"], queue["queueId"])), _name(row),
            _number(queue["behind"]), _number(queue["consumerOffset"]), short_duration(queue["forMs"]),
            _time(queue["sinceTimestamp"]), "" if queue["clientId"] is None else _text(queue["clientId"]),
        )
        for row, queue in found[:_SHOWN]
    ]  # fmt: skip
    headings = ("Queue", "Group", "Behind", "Offset", "For at least", "Since", "Held by")
    return f"<section><h2>Stuck queues</h2>{_table(_first(found, 'queue'), headings, rows, '..###..')}</section>"


def _topics(page: Page) -> str:
    found = [(row, topic) for row in page.groups for topic in row["topics"] if (topic["lagSkew"] or 1) > 1]
    if not found:
        return ""
    found.sort(key=lambda pair: -pair[1]["lagSkew"])
    rows = [
        (
            _text(topic["topic"]), _name(row), _number(topic["queueCount"]), _number(topic["lag"]),
            *(_number(topic[key]) for key in ("lagSkew", "produceSkew", "consumeSkew")),
        )
        for row, topic in found[:_SHOWN]
    ]  # fmt: skip
    headings = ("Topic", "Group", "Queues", "Lag", "Lag skew", "Produce skew", "Consume skew")
    said = "Skew is the maximum per queue divided by the mean; 1.00 is even."
    table = _table(f"{said} {_first(found, 'topic')}", headings, rows, "..#####")
    return f"<section><h2>Skew between queues</h2>{table}</section>"


def _members(page: Page) -> str:
    found = [row for row in page.groups if max(row["memberLagSkew"] or 1, row["memberConsumeSkew"] or 1) > 1]
    if not found:
        return ""
    found.sort(key=lambda row: -(row["memberLagSkew"] or 1))
    rows = [
        (
            _name(row), _number(len(row["members"])), _number(row["lag"]), _number(row["memberLagSkew"]),
            _number(row["memberConsumeSkew"]), _text(_busiest(row["members"])),
        )
        for row in found[:_SHOWN]
    ]  # fmt: skip
    headings = ("Group", "Members", "Lag", "Lag skew", "Consume skew", "Most lag")
    said = "Skew is the maximum per member divided by the mean of the members with queues."
    table = _table(f"{said} {_first(found, 'group')}", headings, rows, ".####.")
    return f"<section><h2>Skew between members</h2>{table}</section>"


def _busiest(members: Sequence[Mapping[str, Any]]) -> str:
    busiest = max(members, key=lambda member: member["lag"] or 0)
    return f"{busiest['clientId']} ({_number(busiest['lag'])})"


def _owners(page: Page) -> str:
    found = sorted(
        (row for row in page.groups if row["ownerChangeCount"]),
        key=lambda row: (-row["ownerChangeCount"], row["group"]),
    )
    if not found:
        return ""
    rows = [
        (_name(row), *(_number(row[key]) for key in ("ownerChangeCount", "queueCount", "clientCount")))
        for row in found[:_SHOWN]
    ]
    headings = ("Group", "Changes", "Queues", "Clients seen")
    caption = f"Changes of queue owners in the last window. {_first(found, 'group')}"
    return f"<section><h2>Changing owners</h2>{_table(caption, headings, rows, '.###')}</section>"
