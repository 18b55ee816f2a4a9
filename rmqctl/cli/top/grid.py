"""A table that fills its part of the screen, with a cursor: rows can be sorted and chosen by keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from rmqctl.cli.output.cells import cut
from rmqctl.cli.output.listing import Column, Item
from rmqctl.cli.output.rich_table import folded_widths, total_width
from rmqctl.cli.output.text import printable
from rmqctl.text.filters import ordered

from .columns import BARS, BARS_WIDTH, identity

# A column of text is cut to this width before others are left out.
_LEAST_TEXT = 16


def fit(columns: Sequence[Column], widths: Mapping[str, int], width: int) -> dict[str, int]:
    """Return the columns that fit, by key, with their widths: text is cut first, then columns give way."""
    kept = list(columns)
    least = {
        column.key: widths[column.key] if column.is_number else min(widths[column.key], _LEAST_TEXT)
        for column in columns
    }
    for column in sorted((each for each in reversed(columns) if each.gives_way), key=lambda each: each.gives_way):
        if total_width(kept, least) <= width:
            break
        kept.remove(column)
    folded = folded_widths(kept, widths, width)
    return {column.key: folded[column.key] for column in kept}


class Grid(Widget, can_focus=True):
    """Shows items sorted by a column; the cursor stays on its row when items change, or at the top.

    Items are given in the order of their health. `sort` is the key of a column, with - for the largest first.
    """

    class Selected(Message):
        """The cursor is on another row."""

        def __init__(self, grid: Grid) -> None:
            super().__init__()
            self.grid = grid

    class Opened(Message):
        """A row was chosen."""

        def __init__(self, item: Item) -> None:
            super().__init__()
            self.item = item

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", show=False),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
        Binding("home,g", "move(-1_000_000)", "First", show=False),
        Binding("end,G", "move(1_000_000)", "Last", show=False),
        Binding("s", "sort(1)", "Sort"),
        Binding("S", "sort(-1)", "Sort by the column before", show=False),
        Binding("r", "reverse", "Reverse"),
    ]

    def __init__(self, columns: Sequence[Column], *, sort: str, with_color: bool, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._columns, self._with_color = columns, with_color
        self._by_key = {column.key: column for column in columns}
        self._sort, self._is_reversed = sort.removeprefix("-"), sort.startswith("-")
        self._given: Sequence[Item] = ()
        self._items: Sequence[Item] = ()
        self._texts: list[dict[str, str]] = []
        self._natural: dict[str, int] = {}
        self._widths: dict[str, int] = {}
        self._at, self._top = 0, 0

    @property
    def selected(self) -> Item | None:
        """The item that the cursor is on."""
        return self._items[self._at] if self._items else None

    @property
    def line_count(self) -> int:
        """The lines of all rows and the headings."""
        return len(self._items) + 1

    def show(self, items: Sequence[Item]) -> None:
        """Show these items."""
        self._given = items
        before = self.selected
        self._items = self._ordered(items)
        columns = [column for column in self._columns if column.key != BARS]
        self._texts = [{column.key: printable(column.cell(item)) for column in columns} for item in self._items]
        self._natural = {
            column.key: max(map(cell_len, (column.heading, *(row[column.key] for row in self._texts))))
            for column in columns
        } | {BARS: BARS_WIDTH}
        self._widths = fit(self._columns, self._natural, self.size.width)
        # At the top, the cursor stays there: the worst row must not appear out of sight above it.
        wanted = None if before is None or self._at == 0 else identity(before)
        found = next((at for at, item in enumerate(self._items) if identity(item) == wanted), None)
        self._move_to(self._at if found is None else found)

    def _ordered(self, items: Sequence[Item]) -> Sequence[Item]:
        if self._sort == "health":
            return list(reversed(items)) if self._is_reversed else items
        return ordered(items, [f"-{self._sort}" if self._is_reversed else self._sort])

    def _move_to(self, at: int) -> None:
        self._at = max(0, min(at, len(self._items) - 1))
        visible = max(1, self.size.height - 1)
        self._top = max(min(self._top, self._at, max(0, len(self._items) - visible)), self._at - visible + 1)
        self.refresh()
        self.post_message(self.Selected(self))

    # Keys

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        self._move_to(self._at + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by pages."""
        self._move_to(self._at + by * max(1, self.size.height - 2))

    def action_open(self) -> None:
        """Open the row of the cursor."""
        if self.selected is not None:
            self.post_message(self.Opened(self.selected))

    def action_sort(self, by: int) -> None:
        """Sort by the next column that is shown, or by the one before."""
        keys = [key for key in self._widths if key != BARS]
        self._sort = keys[(keys.index(self._sort) + by) % len(keys)] if self._sort in keys else keys[0]
        # The largest numbers first.
        self._is_reversed = self._by_key[self._sort].is_number
        self.show(self._given)

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._is_reversed = not self._is_reversed
        self.show(self._given)

    def on_resize(self, event: Resize) -> None:
        """Use the new width, and keep the cursor visible."""
        del event
        self._widths = fit(self._columns, self._natural, self.size.width)
        self._move_to(self._at)

    # Drawing

    def render_line(self, y: int) -> Strip:
        """Return one line: the headings, or the row that is scrolled there."""
        at = self._top + y - 1
        if y == 0:
            headings = {column.key: column.heading for column in self._columns}
            return self._strip(headings, {}, _BOLD, mark="▼" if self._is_reversed else "▲")
        if at >= len(self._items):
            return Strip.blank(self.size.width)
        is_current = at == self._at
        item, row = self._items[at], self._texts[at]
        if BARS in self._widths:
            row = {**row, BARS: self._by_key[BARS].cell(item)}
        base = Style(reverse=True) if is_current and self.has_focus else Style(bold=is_current)
        return self._strip(row, {key: self._style(key, item) for key in row}, base)

    def _style(self, key: str, item: Item) -> Style:
        if not self._with_color:
            return _PLAIN
        is_alarm = self._by_key[key].is_alarm
        if is_alarm is not None and is_alarm(item):
            return _ALARM
        return _HEALTH_STYLES.get(str(item.get(key)), _PLAIN) if key == "health" else _PLAIN

    def _strip(self, texts: Mapping[str, str], styles: Mapping[str, Style], base: Style, mark: str = "") -> Strip:
        """Return a line of cells with two blanks between them; `mark` is next to the text of the sorted column."""
        segments: list[Segment] = []
        for key, width in self._widths.items():
            text, own_mark = texts[key], mark if key == self._sort else ""
            # The mark takes the place of the blank that is next to the text.
            if self._by_key[key].is_number:
                shown = f"{own_mark}{text}".rjust(width + 1) + " "
            else:
                shown = f" {cut(f'{text}{own_mark}', width + 1) if own_mark else cut(text, width) + ' '}"
            segments.append(Segment(shown, base + styles.get(key, _PLAIN)))
        return Strip(segments).crop(1).adjust_cell_length(self.size.width, base)


_PLAIN, _BOLD = Style(), Style(bold=True)
_ALARM = Style(color="red", bold=True)
_HEALTH_STYLES: Mapping[str, Style] = {"WARN": Style(color="yellow"), "UNKNOWN": Style(color="magenta")}
