"""The page of rmqctl whatif churn (--html)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.text import printable
from rmqctl.page.file import replace_file
from rmqctl.page.template import render_template
from rmqctl.text.durations import exact_duration, short_duration
from rmqctl.whatif.churn.sweep import SweepChoice
from rmqctl.whatif.churn.timeline import round_part_ms

from .churn_sweep import COST_COLUMNS, cost_items, sweep_words
from .churn_timeline import PARTS, Drawing, RowKind, TimelineRow, timeline_rows

_MOST_CLIENTS = 100


class PageCell(NamedTuple):
    """A part of the time: what a reader sees on it, how dark it is from 0 to 1, and the class of its style."""

    title: str
    shade: float
    style: str


class PageRow(NamedTuple):
    """A client, a broker or all queues over time; None is a part in which there is nothing to show."""

    name: str
    cells: Sequence[PageCell | None]


def write_page(path: str, listing: Listing, drawings: Sequence[Drawing], choice: SweepChoice | None) -> None:
    """Write the page and replace an existing file. Raises RmqctlError."""
    view = {
        "group": listing.extra["group"],
        "heading": listing.headings[0],
        "notes": [*listing.notes, *listing.warnings],
        "failures": [f"{failure.what}: {failure.error.sentence}" for failure in listing.failures],
        "seed": listing.extra["seed"],
        "result": _table(listing.columns, listing.items),
        "choice": None if choice is None else sweep_words(choice),
        "costs": None if choice is None or not choice.costs else _table(COST_COLUMNS, cost_items(choice)),
        "timelines": [_timeline(drawing) for drawing in drawings],
    }
    replace_file(path, render_template("whatif/churn/churn.html", view, printable))


def _table(columns: Sequence[Column], items: Sequence[Item]) -> dict[str, Any]:
    return {
        "headings": [column.heading for column in columns],
        "numbers": [column.heading for column in columns if column.is_number],
        "rows": [[(column.heading, column.cell(item), column.is_number) for column in columns] for item in items],
    }


def _timeline(drawing: Drawing) -> dict[str, Any]:
    timeline = drawing.timeline(round_part_ms(drawing.for_ms, PARTS))
    rows = timeline_rows(timeline, _MOST_CLIENTS)
    most = {
        kind: max((count for row in rows if row.kind is kind for count in row.counts if count), default=0.0)
        for kind in RowKind
    }
    return {
        "title": drawing.title,
        "rows": [PageRow(row.name, _cells(row, timeline.part_ms, most[row.kind])) for row in rows],
        "more_count": max(0, len(timeline.clients) - _MOST_CLIENTS),
        "most": most[RowKind.CLIENT],
        "part": exact_duration(timeline.part_ms),
        "times": [short_duration(at_ms) for at_ms in (0, drawing.for_ms // 2, drawing.for_ms)],
    }


def _cells(row: TimelineRow, part_ms: int, most: float) -> list[PageCell | None]:
    """Return the cells of a row; the darkest cell of its kind has `most` queues."""

    def cell(number: int, count: float | None, *, is_away: bool) -> PageCell | None:
        if count is None:
            return None
        words = "down" if row.kind is RowKind.BROKER else f"{count:.1f} queues{', cut off' if is_away else ''}"
        title = f"{exact_duration(number * part_ms)}: {words}"
        if count:
            return PageCell(title, 0.1 + 0.9 * count / most, row.kind)
        return PageCell(title, 1, "away" if is_away else "blank")

    parts = zip(row.counts, row.is_away, strict=True)
    return [cell(number, count, is_away=is_away) for number, (count, is_away) in enumerate(parts)]
