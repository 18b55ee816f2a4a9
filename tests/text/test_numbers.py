from __future__ import annotations

import pytest

from rmqctl.text.numbers import decimal_number, rate_cell, rate_words, rounded_rate, whole_number


@pytest.mark.parametrize(
    ("text", "whole", "decimal"),
    [
        ("0", 0, 0), ("12", 12, 12), ("+5", 5, 5), ("-5", -5, -5), ("007", 7, 7),
        ("9007199254740993", 9007199254740993, None),
        ("0.25", None, 0.25), ("-1.5", None, -1.5),
        *((text, None, None) for text in (
            "", "-", "+-5", " 12", "12 ", "12\n", "1_000", "\uff11\uff12", "\u0663", "²", "0x10", "1e3", "1.", ".5",
            "inf", "nan", "1,000",
        )),
    ],
)  # fmt: skip
def test_a_number_has_only_plain_digits(text: str, whole: int | None, decimal: float | None) -> None:
    if whole is None:
        with pytest.raises(ValueError, match="is not a whole number"):
            whole_number(text)
    else:
        assert whole_number(text) == whole
    if whole is None and decimal is None:
        with pytest.raises(ValueError, match="is not a number"):
            decimal_number(text)
    elif decimal is not None:
        assert decimal_number(text) == decimal


@pytest.mark.parametrize(
    ("rate", "words", "cell", "number"),
    [
        (0, "0", "0.0", 0),
        (0.0333333, "0.033", "0.033", 0.0333),
        (0.00028, "0.00028", "0.00028", 0.00028),
        (0.00000001, "<0.000001", "<0.000001", 0.00000001),
        (0.2, "0.2", "0.2", 0.2),
        (3.0, "3", "3.0", 3),
        (12.34, "12.3", "12.3", 12.34),
        (123.4, "123", "123.4", 123.4),
        (1234567.8, "1234568", "1234567.8", 1234567.8),
    ],
)
def test_only_0_is_a_rate_of_0(rate: float, words: str, cell: str, number: float) -> None:
    assert (rate_words(rate), rate_cell(rate), rounded_rate(rate)) == (words, cell, number)
