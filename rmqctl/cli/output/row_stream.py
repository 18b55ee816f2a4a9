"""Writes items as they arrive, one per line, for results that are endless or do not fit into memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from rmqctl.cli.globals import MARKUPS
from rmqctl.errors import UsageError
from rmqctl.text.filters import is_met, ordered
from rmqctl.text.names import hint_for

from .display import Display
from .listing import Column, Item, Listing
from .plain_table import plain_table
from .render import choose_columns, render
from .text import end_waiting, printable

_WHOLE = ("json", "yaml", *MARKUPS)
# A wider cell does not widen the columns of later rows: the keys of a message can have 32 KiB.
_MOST_WIDTH = 64


def require_stream(display: Display, *, with_sort: bool = False) -> None:
    """Raise UsageError for options that need the whole result; `with_sort`: --sort applies to each write."""
    if display.format in _WHOLE:
        raise UsageError(
            f"-o {display.format} is not supported: this output is a stream.", hint="Use -o jsonl: one item per line."
        )
    if display.sort_keys and not with_sort:
        raise UsageError("--sort is not supported: rows are shown as they arrive.")


def require_keys(item: Item, display: Display) -> None:
    """Raise UsageError for a key in --where or --sort that the items do not have."""
    wanted = {"--where": [condition.key for condition in display.conditions],
              "--sort": [key.removeprefix("-") for key in display.sort_keys]}  # fmt: skip
    for option, keys in wanted.items():
        for key in keys:
            if key not in item:
                raise UsageError(f"Unknown key {key!r} in {option}.", hint=hint_for(key, sorted(item)))


class RowStream:
    """A stream of rows of one kind. Columns of a table grow with their content; each write is flushed."""

    def __init__(
        self,
        kind: str,
        columns: Sequence[Column],
        name: Callable[[Item], str],
        display: Display,
        *,
        with_sort: bool = False,
    ) -> None:
        require_stream(display, with_sort=with_sort)
        self._kind, self._known, self._name, self._display = kind, columns, name, display
        self._columns = choose_columns(columns, display)
        self._widths = [len(column.heading) for column in self._columns]
        self._with_headers = display.with_headers
        self._is_begun = False

    def write(self, items: Sequence[Item], *, at_most: int | None = None) -> Sequence[Item]:
        """Write rows that meet the conditions, up to `at_most`; return them. Raises UsageError for unknown keys."""
        if items:
            require_keys(items[0], self._display)
        items = [item for item in items if all(is_met(condition, item) for condition in self._display.conditions)]
        items = ordered(items, self._display.sort_keys)[:at_most]
        if not items:
            return items
        end_waiting()
        display = replace(self._display, with_headers=self._with_headers, with_notes=False, conditions=())
        if display.format in ("table", "wide", "plain"):
            sys.stdout.write(self._lines(items))
            sys.stdout.flush()
        else:
            if display.format == "vertical" and self._is_begun:
                sys.stdout.write("\n")
            render(Listing(kind=self._kind, columns=self._known, items=items, name=self._name), display)
        self._with_headers, self._is_begun = False, True
        return items

    def _lines(self, items: Sequence[Item]) -> str:
        if self._display.with_local_times:
            from .local_times import local_item

            items = [local_item(item) for item in items]
        rows = [[printable(column.cell(item)) for column in self._columns] for item in items]
        if self._with_headers:
            rows.insert(0, [column.heading for column in self._columns])
        # A row of blanks as wide as all rows so far keeps the columns in line with them.
        text = plain_table([[" " * width for width in self._widths], *rows], [c.is_number for c in self._columns])
        for at, column in enumerate(self._columns):
            # The last one, when it is text, needs no padding.
            if at < len(self._columns) - 1 or column.is_number:
                self._widths[at] = max(self._widths[at], *(min(len(row[at]), _MOST_WIDTH) for row in rows))
        return text.split("\n", 1)[1]
