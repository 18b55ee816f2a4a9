from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqctl.protocol.properties import decode_properties, encode_properties, split_keys

TEXTS = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=10)


def test_pairs() -> None:
    assert decode_properties("KEYS\x01a b\x02TAGS\x01A\x02") == {"KEYS": "a b", "TAGS": "A"}


def test_4_9_does_not_end_the_last_pair() -> None:
    assert decode_properties("KEYS\x01a\x02TAGS\x01A") == {"KEYS": "a", "TAGS": "A"}


def test_no_text_is_no_property() -> None:
    assert decode_properties("") == decode_properties("\x02") == decode_properties("\x02\x02") == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k1 k2", ["k1", "k2"]),
        (" k1  k2 ", ["k1", "k2"]),
        ("订单\u30001024 a\u00a0b", ["订单\u30001024", "a\u00a0b"]),
        ("a\tb end\n", ["a\tb", "end\n"]),
        (" ", []),
        ("", []),
        (None, []),
    ],
)
def test_keys_are_parted_by_single_blanks_and_nothing_else(text: str | None, expected: list[str]) -> None:
    assert split_keys(text) == expected


def test_the_last_pair_of_a_name_wins() -> None:
    assert decode_properties("WAIT\x01true\x02TAGS\x01A\x02WAIT\x01false\x02") == {"WAIT": "false", "TAGS": "A"}


def test_a_name_ends_at_the_first_mark() -> None:
    assert decode_properties("a\x01b\x01c\x02") == {"a": "b\x01c"}


def test_what_is_no_pair_is_dropped() -> None:
    assert decode_properties("\x02alone\x02a\x01\x02\x02b\x012") == {"a": "", "b": "2"}


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=6))
def test_properties_come_back(properties: dict[str, str]) -> None:
    text = encode_properties(properties)
    assert decode_properties(text) == properties
    assert decode_properties(text.removesuffix("\x02")) == properties
    assert list(decode_properties(text)) == list(properties)


def test_each_pair_is_ended() -> None:
    assert encode_properties({"a": "1", "b": ""}) == "a\x011\x02b\x01\x02"
    assert encode_properties({}) == ""


@pytest.mark.parametrize("properties", [{"": "v"}, {"a\x01": ""}, {"a\x02": ""}, {"a": "\x01"}, {"a": "x\x02y"}])
def test_separators_and_empty_names_are_not_sent(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="cannot be sent"):
        encode_properties(properties)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="\x01\x02ab", max_size=20))
def test_any_text_is_read(text: str) -> None:
    for name, value in decode_properties(text).items():
        assert f"{name}\x01{value}" in text
