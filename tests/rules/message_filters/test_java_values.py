from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.rules.message_filters.java_values import JavaValue, compare, parse_double, parse_whole

_VALUES = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text())


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [
        ("5", 5, 0), (5, "6", -1), ("5.5", 5.0, 1), (2**31, 5.0, 1), (5, 5.0, 0), ("b", "a", 1), ("true", True, 0),
        ("TRUE", True, 0), ("1", True, -1), (True, False, 1), (5, True, None), (True, 5.0, None),
        (math.nan, math.nan, 0), (math.nan, math.inf, 1), (-0.0, 0.0, -1), ("2147483648", 2**31, 0),
    ],
)  # fmt: skip
def test_the_order_of_values(left: JavaValue, right: JavaValue, order: int | None) -> None:
    assert compare(left, right) == order


@pytest.mark.parametrize(
    ("left", "right"), [("x", 5), ("5.0", 5), ("2147483648", 5), (True, "true"), ("x", 5.0), (5, ""), ("1" * 20, 2**40)]
)
def test_texts_that_are_no_such_numbers(left: JavaValue, right: JavaValue) -> None:
    with pytest.raises(ValueError, match=r"."):
        compare(left, right)


@given(_VALUES, _VALUES)
def test_turned_around_the_order_is_the_opposite(left: JavaValue, right: JavaValue) -> None:
    try:
        order, opposite = compare(left, right), compare(right, left)
    except ValueError:
        return
    assert (order is None) is (opposite is None)
    assert order is None or opposite is None or order == -opposite


@given(st.floats())
def test_doubles_are_read_as_written(value: float) -> None:
    text = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    assert compare(parse_double(f" {text} "), value) == 0


@pytest.mark.parametrize("text", ["", "nan", "inf", "1_0", "1e", ".", "0x10", "5l", "1 2", "\u0665"])
def test_what_is_no_double(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        parse_double(text)


def test_whole_numbers_have_64_bits() -> None:
    assert parse_whole(str(2**63 - 1)) == 2**63 - 1
    assert parse_whole("-9223372036854775808") == -(2**63)
    for text in (str(2**63), "1.0", " 1", "", "9" * 5000):
        with pytest.raises(ValueError, match=r"."):
            parse_whole(text)
