"""A listing: its items as in JSON, and the columns that show them in tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from rmqctl.errors import NotAuthorisedError
from rmqctl.model.failure import Failure

Item = Mapping[str, Any]


def _plain(item: Item, key: str) -> str:
    value = item.get(key)
    return "-" if value is None else str(value)


class Column(Struct, frozen=True):
    """One column: `key` is the item's JSON key, `show` returns the text of its cell, "-" for unknown.

    `is_time`: shows the key with the suffix Iso, which has the time in UTC. `is_sentence`: shown below its row on a
    terminal that is too narrow. Other columns are left out there: first the empty ones, then those that give way, 1
    before 2, and those with an alarm last. `gives_way` 0 stays unless it is empty, `is_kept` always: owners and
    clients. `is_id`: an id that people copy, which is neither left out nor wrapped.
    """

    heading: str
    key: str
    show: Callable[[Item], str] | None = None
    is_number: bool = False
    is_time: bool = False
    is_wide: bool = False
    gives_way: int = 0
    is_kept: bool = False
    is_id: bool = False
    is_sentence: bool = False
    is_alarm: Callable[[Item], bool] | None = None

    def cell(self, item: Item) -> str:
        """Return the cell's text."""
        if self.show is not None:
            return self.show(item)
        return _plain(item, f"{self.key}Iso" if self.is_time else self.key)


class Section(Struct, frozen=True):
    """A part of an item that is shown in full: lines of name and value, or a table."""

    title: str | None = None
    facts: Sequence[tuple[str, str]] = ()
    columns: Sequence[Column] = ()
    items: Sequence[Item] = ()


class Listing(Struct, frozen=True):
    """One result. `extra` are more top-level JSON keys, `notes` sentences for people; `name` returns an item's name.

    `merged` returns the rows of a table for items, where several items share a row.

    `row_notes` returns notes on the rows that --where keeps. `headings` are printed before the table. `warnings` are
    sentences without which the rows would mislead: they are written to stderr in every format, also with -q.

    `own_formats` return the result in formats that only this command has.

    With `sections`, tables show each item in full, section by section; their flag is whether all columns are shown.
    `below` returns what is printed after a table.
    """

    kind: str
    columns: Sequence[Column]
    items: Sequence[Item]
    name: Callable[[Item], str]
    failures: Sequence[Failure] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    empty: str = "Nothing to show."
    headings: Sequence[str] = ()
    row_notes: Callable[[Sequence[Item]], Sequence[str]] | None = None
    sections: Callable[[Item, bool], Sequence[Section]] | None = None
    own_formats: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    merged: Callable[[Sequence[Item]], Sequence[Item]] | None = None
    below: Callable[[], str] | None = None

    @property
    def exit_code(self) -> int:
        """0 if everything was read, 8 if a part was not, 4 if a permission was missing for it."""
        if any(failure.error.exit_code == NotAuthorisedError.exit_code for failure in self.failures):
            return NotAuthorisedError.exit_code
        return 8 if self.failures else 0

    def errors(self) -> list[dict[str, Any]]:
        """Return the failures as JSON objects."""
        return [
            {
                "brokerName": failure.broker_name,
                "what": failure.what,
                "attempt": failure.attempt.value,
                "name": failure.error.name,
                "message": failure.error.sentence,
            }
            for failure in self.failures
        ]
