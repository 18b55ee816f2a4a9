"""Bars, the filter line, the number of requests, and the widths of columns."""

from __future__ import annotations

from typing import Any

import pytest

from rmqctl.cli.output.cells import cut
from rmqctl.cli.output.listing import Column
from rmqctl.cli.top.grid import fit
from rmqctl.cli.top.group_filter import filter_groups
from rmqctl.cli.top.help_text import HELP_TEXT
from rmqctl.cli.top.request_rate import RequestRate
from rmqctl.cli.top.sparkline import sparkline


@pytest.mark.parametrize(
    ("rates", "width", "bars"),
    [
        ([], 4, ""),
        ([0.0, 0.0], 4, "▁▁"),
        ([0.0, 0.1, 50.0, 100.0], 4, "▁▂▅█"),
        ([-5.0, 10.0], 4, "▁█"),  # a reset
        ([None, 4.0], 4, "·█"),
        ([8.0, 0.0, 8.0, 8.0, 4.0], 3, "█▅▇"),  # the newest bars are whole
        ([8.0, None, 8.0, 8.0], 2, "·█"),
    ],
)
def test_bars(rates: list[float | None], width: int, bars: str) -> None:
    assert sparkline(rates, width) == bars


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ["payments", "Pay-retry", "orders"]),
        ("PAY", ["payments", "Pay-retry"]),
        ("pay ments", ["payments"]),
        ("pay*", ["payments", "Pay-retry"]),
        ("ment*", []),
        ("STALL", ["orders"]),
        ("lag>1", ["payments", "orders"]),
        ("pay lag>1", ["payments"]),
        ("lag>1 nothing", []),
        ("[", []),
    ],
)
def test_every_word_of_the_filter_must_match(text: str, found: list[str]) -> None:
    items: list[dict[str, Any]] = [
        {"group": "payments", "health": "OK", "lag": 5},
        {"group": "Pay-retry", "health": "OK", "lag": None},
        {"group": "orders", "health": "STALL", "lag": 9},
    ]
    assert [item["group"] for item in filter_groups(items, text)] == found


def test_requests_of_the_last_seconds_count() -> None:
    requests = RequestRate()
    assert requests.update(100.0, {}) == 0.0
    assert requests.update(102.0, {"a": 4, "b": 3}) == 2.0
    assert [requests.update(100.0 + at, {"a": 4, "b": 3}) for at in (4, 10, 12, 15)] == [1.0, 0.4, 0.0, 0.0]


def test_columns_give_way_and_texts_are_cut() -> None:
    columns = [Column("GROUP", "group"), Column("LAG", "lag", is_number=True), Column("RULE", "rule", gives_way=1)]
    natural = {"group": 40, "lag": 6, "rule": 12}
    assert fit(columns, natural, 80) == natural
    assert fit(columns, natural, 50) == {"group": 28, "lag": 6, "rule": 12}
    assert fit(columns, natural, 30) == {"group": 22, "lag": 6}
    assert fit(columns, natural, 10) == {"group": 8, "lag": 6}  # as far as it goes
    assert [cut("payments-eu-west-1", width) for width in (20, 9, 1)] == ["payments-eu-west-1  ", "paym…st-1", "p"]


def test_the_help_fits_a_screen_of_80_columns() -> None:
    assert max(map(len, HELP_TEXT.splitlines())) <= 76  # beside its border and scroll bar
