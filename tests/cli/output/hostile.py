"""A small listing of names that nobody should trust."""

from __future__ import annotations

from typing import Any

from rmqctl.cli.output.listing import Column, Listing
from rmqctl.errors import UnreachableError
from rmqctl.model.failure import Failure

# What no output may hold as it is: controls (C0, DEL, C1), line separators, marks that turn the direction, surrogates.
RAW = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, 0x2028, 0x2029)}
RAW |= {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))}

NAMES = [
    "plain",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b31m\x85c1",
    "[red]markup[/red] :smile:",
    'comma, "quote" ; semicolon',
    "tab\tnewline\nreturn\r",
    "bidi\u202eevil\u2066x\u2069\u061c",
    "line\u2028para\u2029",
    "nul\x00del\x7f",
    "surrogate\ud800",
    "zh \u4e2d\u6587 emoji \U0001f600",
    " leading and trailing ",
    "=1+1",
    "-",
    "null",
    "yes",
    "2101",
    "",
    "&anchor *alias !tag %directive # comment: x",
]
NUMBERS = [0, 1, -1, 2**53 + 1, 2**63 - 1, None]

COLUMNS = (
    Column("NAME", "name"),
    Column("COUNT", "count", is_number=True, is_alarm=lambda item: bool(item["count"])),
    Column("TAGS", "tags", show=lambda item: ",".join(item["tags"]) or "-", is_wide=True),
    Column("ACTIVE", "active", is_wide=True),
)


def items() -> list[dict[str, Any]]:
    """Return one item a name."""
    return [
        {
            "name": name,
            "count": NUMBERS[index % len(NUMBERS)],
            "tags": [name, "b"],
            "active": index % 2 == 0,
            "reasons": {"count": "NEVER_COMMITTED"} if NUMBERS[index % len(NUMBERS)] is None else {},
        }
        for index, name in enumerate(NAMES)
    ]


def listing(**changes: Any) -> Listing:
    """Return a listing of all of them, whole unless told otherwise."""
    settings: dict[str, Any] = {
        "kind": "TestList",
        "columns": COLUMNS,
        "items": items(),
        "name": lambda item: str(item["name"]),
        "extra": {"summary": {"lag": 2**63 - 1, "who": NAMES[1]}},
        "notes": ["A note about \x1b[31mthis."],
        "empty": "Nothing \x1b[31mhere.",
    }
    return Listing(**{**settings, **changes})


FAILURES = (
    Failure("broker-\x1b[31mb", "offsets\n", UnreachableError("b:1\x9b", "connection refused")),
    Failure(None, "route of T", UnreachableError("ns:1", "connection refused")),
)


def raw_in(text: str) -> set[str]:
    """Return what a text holds that it must not; line ends are its own."""
    return set(text) & (RAW - {"\n"})
