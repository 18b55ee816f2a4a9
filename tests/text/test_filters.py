from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.text.filters import (
    Condition,
    decide,
    is_met,
    ordered,
    parse_condition,
    require_comparable,
    undecided_counts,
)

_ROW = {
    "group": "payments",
    "lag": 2**63 - 1,
    "rate": 0.5,
    "state": "ONLINE",
    "writable": True,
    "topics": ["orders", "refunds"],
    "owner": None,
    "none": [],
}


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("lag>0", Condition("lag", ">", "0")),
        ("lag>=0", Condition("lag", ">=", "0")),
        (" lag <= 5 ", Condition("lag", "<=", "5")),
        ("group~^pay", Condition("group", "~", "^pay")),
        ("group!~^pay=x", Condition("group", "!~", "^pay=x")),
        ("group!=a b", Condition("group", "!=", "a b")),
        ("lag==0", Condition("lag", "=", "0")),
        ("group=", Condition("group", "=", "")),
        ("group=a\nb", Condition("group", "=", "a\nb")),
        ("messageQueue.id=1", Condition("messageQueue.id", "=", "1")),
    ],
)
def test_a_condition_is_a_key_an_operator_and_a_value(text: str, condition: Condition) -> None:
    assert parse_condition(text) == condition


@pytest.mark.parametrize("text", ["", "lag", ">0", "5>lag", "lag!5", "group~(", "group!~[", "größe>1"])
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"^invalid (condition|regular expression) "):
        parse_condition(text)


@pytest.mark.parametrize(
    "text",
    [
        *("group=payments", "group!=orders", "group~^pay", "group~MENTS|ments", "group!~^x", "group>p", "group<q"),
        # Offsets are beyond what a float holds.
        *("lag=9223372036854775807", "lag!=9223372036854775806", "lag>9223372036854775806", "lag>=0", "lag>1.5"),
        *("rate<1", "rate>=0.5", "rate=.5", "lag~^922", "writable=true", "writable!=false", "writable~tru"),
        *("topics=orders", "topics~^ref", "topics!=x", "topics!~^x", "none!=x", "none!=unknown"),
        *("owner=unknown", "owner!=x", "owner!~x", "gone=unknown", "lag!=unknown", "state!=unknown"),
    ],
)
def test_a_row_that_meets_a_condition(text: str) -> None:
    assert is_met(parse_condition(text), _ROW)


@pytest.mark.parametrize(
    "text",
    [
        *("group=pay", "group~^ay", "lag=9223372036854775806", "lag<0", "lag=x", "lag>x", "rate>0.5", "writable=True"),
        *("lag>1_0", "lag>\uff11", "lag<inf", "lag=9223372036854775_807"),
        *("topics=x", "topics!=orders", "topics!~^ord", "none=x", "none=unknown"),
        # What is unknown is neither equal, nor larger, nor smaller.
        *("owner=", "owner=None", "owner>0", "owner<0", "owner>=", "owner~.*", "owner!=unknown", "group=unknown"),
    ],
)
def test_a_row_that_does_not(text: str) -> None:
    assert not is_met(parse_condition(text), _ROW)


_VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
_ROWS = st.dictionaries(st.sampled_from(["a", "b"]), _VALUES | st.lists(st.text() | st.integers()))


@given(_ROWS, st.text(), st.sampled_from([("=", "!="), ("~", "!~")]))
def test_an_operator_and_its_negation_are_never_both_met(row: dict[str, Any], text: str, pair: tuple[str, str]) -> None:
    import re

    if pair[0] == "~":
        text = re.escape(text)
    assert is_met(Condition("a", pair[0], text), row) != is_met(Condition("a", pair[1], text), row)


@given(st.integers(), st.integers())
def test_integers_are_compared_exactly(value: int, wanted: int) -> None:
    row = {"a": value}
    met = {operator for operator in ("=", "<", ">", "<=", ">=") if is_met(Condition("a", operator, str(wanted)), row)}
    assert met == ({"=", "<=", ">="} if value == wanted else {"<", "<="} if value < wanted else {">", ">="})


@given(st.text())
def test_any_text_is_a_condition_or_a_value_error(text: str) -> None:
    try:
        condition = parse_condition(text)
    except ValueError:
        return
    is_met(condition, _ROW)


def test_rows_are_ordered_by_the_first_key_then_the_next() -> None:
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 1, "b": "y"}, {"a": None, "b": "x"}, {"b": "z"}]
    assert ordered(rows, ["-a", "b"]) == [rows[1], rows[0], rows[2], rows[3], rows[4]]
    assert ordered(rows, ["a", "-b"]) == [rows[2], rows[0], rows[1], rows[4], rows[3]]
    assert ordered(rows, []) == rows


def test_numbers_come_before_texts_and_unknown_last_either_way() -> None:
    rows = [{"a": "x"}, {"a": None}, {"a": 10}, {"a": 9.5}, {"a": ["l", 1]}]
    assert [row["a"] for row in ordered(rows, ["a"])] == [9.5, 10, ["l", 1], "x", None]
    assert [row["a"] for row in ordered(rows, ["-a"])] == ["x", ["l", 1], 10, 9.5, None]


@given(st.lists(_ROWS), st.lists(st.sampled_from(["a", "-a", "b", "-b"])))
def test_ordering_keeps_every_row_once_and_is_stable(rows: list[dict[str, Any]], keys: list[str]) -> None:
    made = ordered(rows, keys)
    assert sorted(map(id, made)) == sorted(map(id, rows))
    assert ordered(made, keys) == made


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("lag>1k", True),
        ("lag=much", True),
        ("lag>1", False),
        ("lag~1k", False),
        ("lag=unknown", False),
        ("name>z", False),
    ],
)
def test_a_number_is_compared_with_numbers_only(text: str, is_refused: bool) -> None:
    condition = parse_condition(text)
    rows = [{"lag": None, "name": "a"}, {"lag": 5, "name": "b"}]
    if is_refused:
        with pytest.raises(ValueError, match="lag is a number"):
            require_comparable(condition, rows)
    else:
        require_comparable(condition, rows)


_AT_LEAST_50 = {"lag": None, "lagAtLeast": 50, "reasons": {"lag": "BROKER_UNREACHABLE"}}


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        *[(f"lag>{number}", True) for number in (0, 49, -1, 49.5)],
        *[(f"lag>={number}", True) for number in (0, 50)],
        *[(text, None) for text in ("lag>50", "lag>=51", "lag<51", "lag<=50", "lag=50", "lag=1e9")],
        *[(text, False) for text in ("lag<50", "lag<5", "lag<=49", "lag=49", "lag=0")],
        *[(text, True) for text in ("lag!=0", "lag!=50", "lag=unknown")],
        ("lag!=unknown", False),
    ],
)
def test_a_lower_bound_decides_what_it_can(text: str, decision: bool | None) -> None:
    assert decide(parse_condition(text), _AT_LEAST_50) is decision
    assert is_met(parse_condition(text), _AT_LEAST_50) is (decision is True)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.sampled_from(["=", "<", ">", "<=", ">=", "!="]))
def test_a_decision_by_a_lower_bound_is_that_of_every_number_from_it_on(
    bound: int, more: int, wanted: int, operator: str
) -> None:
    condition = Condition("lag", operator, str(wanted))
    decision = decide(condition, {"lag": None, "lagAtLeast": bound})
    if operator != "!=" and decision is not None:
        assert decide(condition, {"lag": bound + more}) is decision


def test_rows_that_only_an_unknown_number_keeps_out_are_counted() -> None:
    rows = [
        _AT_LEAST_50,
        {"lag": None, "lagAtLeast": 0, "state": "EMPTY"},
        {"lag": None, "lagAtLeast": 0, "state": "ONLINE"},
        {"lag": 7, "state": "EMPTY"},
        {"lag": None, "reasons": {"lag": "NO_MEMBERS"}},
    ]
    conditions = [parse_condition("lag>40"), parse_condition("state!=ONLINE")]
    assert undecided_counts(conditions[:1], rows) == {"lag": 2}
    assert undecided_counts(conditions, rows) == {"lag": 1}
    assert undecided_counts([parse_condition("state=EMPTY")], rows) == {}


def test_rows_are_sorted_by_the_part_that_is_known() -> None:
    rows = [{"lag": 4}, {"lag": None, "lagAtLeast": 0}, _AT_LEAST_50, {"lag": 100}]
    assert ordered(rows, ["-lag"]) == [rows[3], _AT_LEAST_50, rows[0], rows[1]]
    assert ordered(rows, ["lag"]) == [rows[0], _AT_LEAST_50, rows[3], rows[1]]
