from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.cli.output.text import printable

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
