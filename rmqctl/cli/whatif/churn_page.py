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
from rmqctl.whatif.churn.timeline import ClientRow, round_part_ms

from .churn_sweep import COST_COLUMNS, cost_items, sweep_words
from .churn_timeline import PARTS, Drawing

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
    busiest = timeline.busiest(_MOST_CLIENTS)
    counts = [count for row in timeline.clients for count in row.queues if count is not None]
    most, part_ms = max(counts, default=0.0), timeline.part_ms
    rows = [_client_row(row, part_ms, most) for row in busiest]
    rows += [
        PageRow(
            name,
            [
                PageCell(_title(number, part_ms, "down"), 1, "away") if is_down else None
                for number, is_down in enumerate(parts)
            ],
        )
        for name, parts in timeline.is_down.items()
    ]
    rows += [
        _count_row("Two owners", timeline.shared, part_ms, "two"),
        _count_row("No owner", timeline.unowned, part_ms, "none"),
    ]
    return {
        "title": drawing.title,
        "rows": rows,
        "more_count": len(timeline.clients) - len(busiest),
        "most": most,
        "part": exact_duration(part_ms),
        "times": [short_duration(at_ms) for at_ms in (0, drawing.for_ms // 2, drawing.for_ms)],
    }


def _title(number: int, part_ms: int, words: str) -> str:
    return f"{exact_duration(number * part_ms)}: {words}"


def _client_row(row: ClientRow, part_ms: int, most: float) -> PageRow:
    def cell(number: int, count: float | None, *, is_cut: bool) -> PageCell | None:
        if count is None:
            return None
        words = f"{count:.1f} queues{', cut off' if is_cut else ''}"
        title = _title(number, part_ms, words)
        if not count:
            return PageCell(title, 1, "away" if is_cut else "blank")
        return PageCell(title, 0.1 + 0.9 * count / most, "")

    pairs = zip(row.queues, row.is_cut, strict=True)
    return PageRow(row.client_id, [cell(number, count, is_cut=is_cut) for number, (count, is_cut) in enumerate(pairs)])


def _count_row(name: str, counts: Sequence[float], part_ms: int, style: str) -> PageRow:
    most = max(counts, default=0.0)
    return PageRow(
        name,
        [
            PageCell(_title(number, part_ms, f"{count:.1f} queues"), 0.2 + 0.8 * count / most, style) if count else None
            for number, count in enumerate(counts)
        ],
    )
