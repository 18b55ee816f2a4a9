"""Tables on a terminal: colour, and long names folded instead of cut."""

from __future__ import annotations

import io
import os
import shutil

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rmqctl.cli.invocation import Display

from .listing import Column, Listing
from .text import printable


def rich_table(listing: Listing, columns: list[Column], display: Display) -> str:
    """Return a table for a terminal of the present width. Numbers are never wrapped nor cut."""
    with_color = display.with_color and not os.environ.get("NO_COLOR")
    table = Table(box=None, pad_edge=False, show_header=display.with_headers, header_style="bold" if with_color else "")
    for column in columns:
        table.add_column(
            column.heading,
            justify="right" if column.is_number else "left",
            no_wrap=column.is_number,
            overflow="fold",
        )
    for item in listing.items:
        table.add_row(*(_cell(column, item) for column in columns))
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(shutil.get_terminal_size().columns, 20),
        force_terminal=with_color,
        color_system="standard" if with_color else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _cell(column: Column, item: object) -> Text:
    text = printable(column.cell(item))  # type: ignore[arg-type]
    if text == "-":
        return Text(text, style="dim")
    if column.is_alarm is not None and column.is_alarm(item):  # type: ignore[arg-type]
        return Text(text, style="yellow")
    return Text(text)
