from __future__ import annotations

import pytest

from rmqctl.text.numbers import decimal_number, whole_number


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
