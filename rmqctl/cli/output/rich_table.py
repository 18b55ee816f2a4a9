"""Tables on a terminal: color, long names wrapped instead of cut, sentences below their rows if space is short."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .display import Display
from .listing import Column, Item
from .text import note_to_stderr, printable

_GAP = 2  # blanks between two columns
_FOLDED = 8  # no text column is narrower
_LAST = 30  # no column is left out because the last one, a body or an owner, is wider than this: it is wrapped
_INDENT = 4  # of a sentence below its row


def rich_table(items: Sequence[Item], columns: Sequence[Column], display: Display) -> str:
    """Return a table that fits the terminal, unless numbers make it wider: they are never wrapped or cut.

    With -o wide nothing is wrapped: lines are as long as needed, for less -S or a wide window.
    """
    width = max(shutil.get_terminal_size().columns, 20)
    columns = list(columns)
    widths = _widths(items, columns)
    below: list[Column] = []
    if display.format == "wide":
        width = max(width, total_width(columns, widths))
    elif total_width(columns, widths) > width:
        below = [column for column in columns if column.is_sentence][: len(columns) - 1]
        columns = [column for column in columns if column not in below]
    if display.format == "table" and not display.columns:
        columns = _fit(items, columns, widths, width, display)
    widths = folded_widths(columns, widths, width)
    width = max(width, total_width(columns, widths))
    with_color = display.with_color and not os.environ.get("NO_COLOR")
    header_style = "bold" if with_color else ""
    if not below:
        table = _table(columns, widths, header_style, show_header=display.with_headers)
        for item in items:
            table.add_row(*(_cell(column, item) for column in columns))
        return _written([table], width, with_color=with_color)
    parts: list[RenderableType] = [_table(columns, widths, header_style)] if display.with_headers else []
    for item in items:
        row = _table(columns, widths, header_style, show_header=False)
        row.add_row(*(_cell(column, item) for column in columns))
        parts += [row, *(_sentence(column, item) for column in below if column.cell(item) != "-")]
    return _written(parts, width, with_color=with_color)


def _table(
    columns: Sequence[Column], widths: Mapping[str, int], header_style: str, *, show_header: bool = True
) -> Table:
    table = Table(box=None, pad_edge=False, show_header=show_header, header_style=header_style)
    for column in columns:
        table.add_column(
            column.heading,
            justify="right" if column.is_number else "left",
            no_wrap=column.is_number or column.is_id,
            overflow="fold",
            width=widths[column.key],
        )
    return table


def _sentence(column: Column, item: Item) -> Padding:
    said = _cell(column, item)
    return Padding(Text(f"{column.heading.lower()}: ").append_text(said), (0, 0, 0, _INDENT))


def rich_heading(title: str, display: Display) -> str:
    """Return the title of a section as a line."""
    with_color = display.with_color and not os.environ.get("NO_COLOR")
    return _written([Text(printable(title), style="bold" if with_color else "")], 10_000, with_color=with_color)


def _written(shown: Iterable[RenderableType], width: int, *, with_color: bool) -> str:
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
    for part in shown:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _widths(items: Sequence[Item], columns: list[Column]) -> dict[str, int]:
    """Return how wide each column is if nothing is wrapped."""
    return {
        column.key: max(cell_len(column.heading), *(cell_len(printable(column.cell(item))) for item in items))
        for column in columns
    }


def _fit(
    items: Sequence[Item], columns: list[Column], widths: Mapping[str, int], width: int, display: Display
) -> list[Column]:
    """Leave out columns until the rest fits, and print their names; Column says in which order."""
    left_out: list[Column] = []
    last = columns[-1]
    if not (last.is_number or last.is_id or last.gives_way):
        widths = {**widths, last.key: min(widths[last.key], _LAST)}

    def total() -> int:
        return total_width([column for column in columns if column not in left_out], widths)

    empty = [column for column in columns[1:] if _is_empty(column, items)]
    for column in (*empty, *_giving_way(items, [each for each in columns if each not in empty])):
        if total() <= width:
            break
        left_out.append(column)
    for column in left_out[::-1]:  # a narrow one may still fit
        if total() + widths[column.key] + _GAP <= width:
            left_out.remove(column)
    if left_out and display.with_notes:
        named = ", ".join(column.heading for column in columns if column in left_out)
        note_to_stderr(f"Hidden at this width: {named} (-o wide or -o vertical shows them).")
    return [column for column in columns if column not in left_out]


def _is_empty(column: Column, items: Sequence[Item]) -> bool:
    """Return whether a column may be left out because it shows nothing."""
    return not (column.is_kept or column.is_id) and all(column.cell(item) in ("", "-") for item in items)


def _giving_way(items: Sequence[Item], columns: Sequence[Column]) -> list[Column]:
    """Return the columns that give way, the first to leave out first."""

    def has_alarm(column: Column) -> bool:
        return column.is_alarm is not None and any(map(column.is_alarm, items))

    giving = [column for column in reversed(columns) if column.gives_way]
    return sorted(giving, key=lambda column: (has_alarm(column), column.gives_way))


def total_width(columns: Sequence[Column], widths: Mapping[str, int]) -> int:
    """Return how wide a table with these columns is."""
    return sum(widths[column.key] + _GAP for column in columns) - _GAP


def folded_widths(columns: Sequence[Column], widths: Mapping[str, int], width: int) -> dict[str, int]:
    """Return how wide each column is on a terminal of this width; the widest texts are wrapped until all fit."""
    least = {
        column.key: widths[column.key] if column.is_number or column.is_id else min(widths[column.key], _FOLDED)
        for column in columns
    }
    folded = {key: max(least[key], min(widths[key], width)) for key in least}
    while total_width(columns, folded) > width:
        wide = [key for key in folded if folded[key] > least[key]]
        if not wide:
            break
        folded[max(wide, key=folded.__getitem__)] -= 1
    return folded


def _cell(column: Column, item: Item) -> Text:
    text = printable(column.cell(item))
    if text == "-":
        return Text(text, style="dim")
    if column.is_alarm is not None and column.is_alarm(item):
        return Text(text, style="yellow")
    return Text(text)
