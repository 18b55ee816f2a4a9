"""Tables on a terminal: colour, and long names folded instead of cut."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rmqctl.cli.invocation import Display

from .listing import Column, Item
from .text import printable, to_stderr

_GAP = 2  # blanks between two columns
_FOLDED = 8  # no text is folded into less


def rich_table(items: Sequence[Item], columns: Sequence[Column], display: Display) -> str:
    """Return a table for a terminal of the present width. Numbers are never wrapped nor cut: it is rather too wide."""
    width = max(shutil.get_terminal_size().columns, 20)
    columns = list(columns)
    widths = _widths(items, columns)
    if display.format == "table" and not display.columns:
        columns = _fit(columns, widths, width, display)
    narrowest = [widths[column.key] if column.is_number else min(widths[column.key], _FOLDED) for column in columns]
    width = max(width, sum(narrowest) + _GAP * (len(columns) - 1))
    with_color = display.with_color and not os.environ.get("NO_COLOR")
    table = Table(box=None, pad_edge=False, show_header=display.with_headers, header_style="bold" if with_color else "")
    for column in columns:
        table.add_column(
            column.heading,
            justify="right" if column.is_number else "left",
            no_wrap=column.is_number,
            overflow="fold",
        )
    for item in items:
        table.add_row(*(_cell(column, item) for column in columns))
    return _written(table, width, with_color=with_color)


def rich_heading(title: str, display: Display) -> str:
    """Return the title of a section as a line."""
    with_color = display.with_color and not os.environ.get("NO_COLOR")
    return _written(Text(printable(title), style="bold" if with_color else ""), 10_000, with_color=with_color)


def _written(shown: Table | Text, width: int, *, with_color: bool) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=with_color,
        color_system="standard" if with_color else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(shown)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _widths(items: Sequence[Item], columns: list[Column]) -> dict[str, int]:
    """Return how wide each column is when nothing of it is folded."""
    return {
        column.key: max(cell_len(column.heading), *(cell_len(printable(column.cell(item))) for item in items))
        for column in columns
    }


def _fit(columns: list[Column], widths: Mapping[str, int], width: int, display: Display) -> list[Column]:
    """Leave out columns that give way until the rest fits, and say so."""
    kept, left_out = list(columns), []
    for column in reversed(columns):
        if sum(widths[kept_column.key] + _GAP for kept_column in kept) - _GAP <= width:
            break
        if column.gives_way:
            kept.remove(column)
            left_out.append(column.heading)
    if left_out and display.with_notes:
        to_stderr(f"No room for {', '.join(reversed(left_out))}: -o wide shows all columns.")
    return kept


def _cell(column: Column, item: Item) -> Text:
    text = printable(column.cell(item))
    if text == "-":
        return Text(text, style="dim")
    if column.is_alarm is not None and column.is_alarm(item):
        return Text(text, style="yellow")
    return Text(text)
