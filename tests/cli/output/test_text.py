from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.cli.output.text import printable
from rmqctl.text.times import iso_time

from .hostile import RAW


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\tb\nc\r", "a\\x09b\\x0ac\\x0d"),
        ("\x7f\x80\x9b", "\\x7f\\x80\\x9b"),
        ("\u202ex\u2028", "\\u202ex\\u2028"),
        ("\u061c", "\\u061c"),
        ("\ud800", "\\ud800"),
        ("[red]", "[red]"),
        ("\u4e2d\u6587 \u00e9 \U0001f600", "\u4e2d\u6587 \u00e9 \U0001f600"),
        ("", ""),
    ],
)
def test_what_a_terminal_could_obey_is_written_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters()))
def test_no_text_gets_through_with_anything_unsafe(text: str) -> None:
    shown = printable(text)
    assert not set(shown) & RAW
    assert printable(shown) == shown
    if not set(text) & RAW:
        assert shown == text


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_795_238_122_995, "2026-11-21T05:15:22.995Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, None),
        (-1, None),
        (2**63 - 1, None),
        (None, None),
    ],
)
def test_a_time_is_utc_with_milliseconds_or_none(at_ms: int | None, text: str | None) -> None:
    assert iso_time(at_ms) == text
