from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqctl.rules.message_filters.sql92 import parse

MESSAGE = {"a": "5", "b": "red", "half": "5.5", "yes": "true", "it": "it's", "TAGS": "TagA", "big": "2147483648"}

# Each of these was asked of RocketMQ's own parser, of 4.9.7 and 5.4.0, with the message above.
MATCHING = [
    "a = 5", "a = '5'", "a <> 6", "a > 4", "a >= 5", "a < 6", "a <= 5", "a > 4.5", "half > 5.0", "a = 5 OR 5 < half",
    "a BETWEEN 5 AND 6", "a NOT BETWEEN 6 AND 7", "b IN ('red', 'blue')", "b NOT IN ('blue')", "b = 'red'",
    "missing IS NULL", "b IS NOT NULL", "missing = gone", "5 <> missing", "yes = TRUE", "TRUE", "NOT FALSE",
    "a = 5 AND b = 'red'", "a = 6 OR b = 'red'", "(a = 6 OR b = 'red') AND NOT (a = 7)", "it = 'it''s'",
    "TAGS = 'TagA'", "a > -5", "- -4 < a", "+4 < a", "a = 5E0", "a = 5L", "a = 5 nonsense", "a = 5 )",
    "a /* five */ = --\n 5", "NOT b", "(NOT a) IS NOT NULL", "a IS NOT NULL = TRUE",
    "missing = 5 OR a = 5", "a=5", "big > 2147483647.0", "big = 2147483648", "NULL IS NULL", "(a = 5) = TRUE",
]  # fmt: skip
OTHERS = [
    "a = 6", "a <> 5", "missing = 5", "missing <> 5", "NOT missing = 5", "NOT (missing = 5)", "missing > 5",
    "missing IN ('x')", "missing NOT IN ('x')", "b > 5", "NOT (b > 5)", "b > 5 AND a = 5", "half > 5", "half = 5",
    "a = 6 OR half > 5", "b", "a", "missing", "FALSE", "NULL", "NOT NULL", "missing = 5 AND a = 5", "TRUE = yes",
    "TRUE = b", "yes = FALSE", "5 = missing", "a = TRUE", "a BETWEEN 6 AND 7", "b BETWEEN 1 AND 2", "NOT a = 5",
    "big > 5", "a > big", "a < b", "-a = 5", "-'x' = 5", "b LIKE 'red' AND (",
]  # fmt: skip
WRONG = [
    "", " ", "a =", "= a", "a == 5", "a != 5", "a > 'x'", "'x' < a", "a > TRUE", "a > NULL", "a = NULL", "NULL = a",
    "TRUE = 5", "TRUE = 'x'", "a IN (1)", "a IN ()", "a IN 'x'", "5 IN ('x')", "a BETWEEN 6 AND 5", "a BETWEEN 1",
    "a BETWEEN 'a' AND 'b'", "a BETWEEN NULL AND 5", "5", "'x'", "a AND 5", "NOT 5", "-a", "a IS 5",
    "a NOT 5", "(a = 5", "a = 'x", "a = 0.0", "a = 1E400", "a = 9223372036854775808", "a = -9223372036854775808",
    "a = #",
    "NOT a > 1", "(a = 1) > 2", "a IS NOT", "a = 5 #", "/* a = 5", "NOT a IN ('x')", "#",
]  # fmt: skip


@pytest.mark.parametrize("expression", MATCHING)
def test_what_passes(expression: str) -> None:
    assert parse(expression).matches(MESSAGE)


@pytest.mark.parametrize("expression", OTHERS)
def test_what_does_not_pass(expression: str) -> None:
    assert not parse(expression).matches(MESSAGE)


@pytest.mark.parametrize("expression", WRONG)
def test_what_is_no_expression(expression: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(expression)


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("b CONTAINS 'e'", True), ("b NOT CONTAINS 'x'", True), ("b STARTSWITH 're'", True), ("b ENDSWITH 'ed'", True),
        ("b contains 'x'", False), ("b NOT STARTSWITH 'r'", False), ("b NOT ENDSWITH 'x'", True),
        ("missing CONTAINS 'x'", False), ("missing NOT CONTAINS 'x'", False), ("b CONTAINS ''", False),
        ("b NOT CONTAINS ''", False), ("5 CONTAINS '5'", False), ("'abc' CONTAINS 'b'", True),
        ("NOT (missing CONTAINS 'x')", True), ("NOT ((half = 5) CONTAINS '')", True),
        ("NOT ((half = 5) CONTAINS 'x')", False),
    ],
)  # fmt: skip
def test_parts_of_texts_since_5(expression: str, matches: bool) -> None:
    assert parse(expression).matches(MESSAGE) is matches


def test_parts_of_texts_are_no_operators_to_4_9() -> None:
    """There the expression ends before them, and a property alone is false."""
    assert not parse("b CONTAINS 'e'", has_text_operators=False).matches(MESSAGE)
    assert parse("a = 5 AND CONTAINS IS NULL", has_text_operators=False).matches(MESSAGE)
    with pytest.raises(ValueError, match="CONTAINS"):
        parse("CONTAINS = 5")


@pytest.mark.parametrize(
    ("text", "literal", "matches"),
    [
        ("5.0", "5.0", True), (" 5 ", "5.0", True), ("5d", "5.0", True), ("0x1p2", "4.0", True), ("5", "5.0", True),
        ("NaN", "5.0", False), ("5_0", "50.0", False), ("\u0665", "5", True), ("\u0665", "5.0", False),
        ("+5", "5", True),
        ("", "5", False), (" 5 ", "5", False), ("2147483648", "5", False), ("-0.0", "1.0", False),
    ],
)  # fmt: skip
def test_texts_become_numbers_as_java_reads_them(text: str, literal: str, matches: bool) -> None:
    assert parse(f"n = {literal}").matches({"n": text}) is matches


@pytest.mark.parametrize(
    ("text", "matches"), [("NaN", True), ("Infinity", True), ("-Infinity", False), ("1e999", True)]
)
def test_odd_doubles_have_their_order(text: str, matches: bool) -> None:
    assert parse("n > 5.0").matches({"n": text}) is matches


def test_two_properties_are_compared_as_numbers_only_by_order() -> None:
    message = {"one": "10", "other": "9", "same": "10.0"}

    assert parse("one > other").matches(message)
    assert not parse("one = same").matches(message)
    assert parse("one >= same AND one <= same").matches(message)


def test_long_and_deep_expressions() -> None:
    assert parse(" AND ".join(["a = 5"] * 5000)).matches(MESSAGE)
    assert parse("(" * 50 + "a = 5" + ")" * 50).matches(MESSAGE)
    with pytest.raises(ValueError, match="too deep"):
        parse("(" * 100_000)


@given(st.text())
@example("'" * 1001)
@example("--" * 1000)
@example("/*" * 1000)
@example("a = " * 3000 + "a")
@example("9" * 5000)
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    _try(text)


_WORDS = [
    "a", "b", "missing", "5", "5.0", "'red'", "=", "<>", ">", "(", ")", "NOT", "AND", "OR", "IS", "NULL", "TRUE",
    "BETWEEN", "IN", ",", "-", "CONTAINS",
]  # fmt: skip


@given(st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join))
def test_any_words_are_an_expression_or_refused(text: str) -> None:
    _try(text)


def _try(text: str) -> None:
    try:
        compiled = parse(text)
    except ValueError:
        return
    assert compiled.matches(MESSAGE) in (True, False)
