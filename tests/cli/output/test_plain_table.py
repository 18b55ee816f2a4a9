"""Tables for pipes."""

from __future__ import annotations

from rmqctl.cli.output.plain_table import plain_table


def test_columns_are_aligned_and_no_line_ends_in_blanks() -> None:
    assert plain_table([["TOPIC", "LAG", "OWNER"], ["a", "12345", "x"], ["longer", "7", ""]], [False, True, False]) == (
        "TOPIC     LAG  OWNER\n"
        "a       12345  x\n"
        "longer      7\n"
    )  # fmt: skip


def test_wide_letters_count_twice() -> None:
    assert plain_table([["订单", "1"], ["ab", "22"]], [False, True]) == "订单   1\nab    22\n"
