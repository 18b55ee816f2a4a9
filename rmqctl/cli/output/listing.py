"""A listing: items as they stand in JSON, and the columns that show them in tables."""

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
    """One column. `key` is the item's JSON key; `show` makes its cell, "-" standing for unknown.

    `is_time`: the key's time is shown as its UTC twin, the key with Iso behind it. `gives_way`: left out of a table for
    which the terminal is too narrow, those of 1 before those of 2; 0 stays. `is_sentence`: below its row there.
    """

    heading: str
    key: str
    show: Callable[[Item], str] | None = None
    is_number: bool = False
    is_time: bool = False
    is_wide: bool = False
    gives_way: int = 0
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
    """One result. `extra` are more top-level JSON keys, `notes` sentences for people; `name` names an item alone.

    `row_notes` makes notes of the rows that --where leaves. `headings` come before the table. `warnings` are sentences
    without which the rows would mislead: they reach stderr in every format, also with -q.

    With `sections`, people see each item in full, one part after the other, instead of a row; its flag is "wide".
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

    @property
    def exit_code(self) -> int:
        """0 when everything was read, 8 when a part of it was not, 4 when that was for want of a right."""
        if any(failure.error.exit_code == NotAuthorisedError.exit_code for failure in self.failures):
            return NotAuthorisedError.exit_code
        return 8 if self.failures else 0

    def errors(self) -> list[dict[str, Any]]:
        """Return the failures as they stand in JSON."""
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
