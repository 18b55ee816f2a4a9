from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.errors import NotFoundError
from rmqctl.text.wildcards import is_pattern, matching, require_matching

NAMES = ("orders", "orders-eu", "Orders", "payments", "%RETRY%payments", "a[1]", "a1", "a\nb")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("orders", ("orders",)),
        ("orders*", ("orders", "orders-eu")),
        ("*orders", ("orders",)),
        ("?rders", ("Orders", "orders")),
        ("%RETRY%*", ("%RETRY%payments",)),
        ("*", tuple(sorted(NAMES))),
        ("**", tuple(sorted(NAMES))),
        ("a[1]", ("a[1]",)),
        ("a?b", ("a\nb",)),
        ("a?", ("a1",)),
        ("", ()),
        ("order", ()),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, names: tuple[str, ...]) -> None:
    assert matching([pattern], NAMES) == names


def test_several_patterns_give_each_name_once_and_sorted() -> None:
    assert matching(["pay*", "*s", "orders"], NAMES) == ("%RETRY%payments", "Orders", "orders", "payments")
    assert matching([], NAMES) == ()


def test_case_counts_unless_it_is_told_not_to() -> None:
    assert matching(["ORDERS*"], NAMES) == ()
    assert matching(["ORDERS*"], NAMES, with_case=False) == ("Orders", "orders", "orders-eu")


def test_a_pattern_is_told_from_a_name() -> None:
    assert [is_pattern(text) for text in ("orders", "a[1]", "or*", "or?ers", "%RETRY%g")] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_many_stars_take_no_longer_than_one() -> None:
    # What goes back over what each star has taken never comes to an end.
    assert matching(["*a" * 60 + "b"], ["a" * 255]) == ()


def test_a_name_that_is_not_there_is_not_found_with_what_looks_like_it() -> None:
    with pytest.raises(NotFoundError) as raised:
        require_matching("Topic", ["orders", "paymets"], NAMES)
    assert raised.value.sentence == "Topic paymets does not exist."
    assert raised.value.suggestions[0] == "payments"
    assert raised.value.hint is not None
    assert raised.value.hint.startswith("Did you mean payments")


def test_a_pattern_that_matches_nothing_is_not_found() -> None:
    with pytest.raises(NotFoundError) as raised:
        require_matching("Topic", ["*", "paymet*"], NAMES)
    assert raised.value.sentence == "No topic matches paymet*."
    assert raised.value.hint is not None
    assert "payments" in raised.value.hint
    with pytest.raises(NotFoundError) as alone:
        require_matching("Topic", ["zzz*"], NAMES)
    assert alone.value.hint is None


@given(st.text(alphabet="ab*?[]!-\n.", max_size=8), st.lists(st.text(alphabet="ab[]!-\n.", max_size=6), max_size=6))
def test_it_is_what_a_plain_reading_of_the_two_signs_gives(pattern: str, names: list[str]) -> None:
    plain = "".join({"*": ".*", "?": "."}.get(sign) or re.escape(sign) for sign in pattern)
    expected = {name for name in names if re.fullmatch(plain, name, re.DOTALL)}
    assert set(matching([pattern], names)) == expected
