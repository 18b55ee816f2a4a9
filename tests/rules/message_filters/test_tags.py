from __future__ import annotations

import pytest

from rmqctl.rules.message_filters.tags import has_tag, parse_tags


@pytest.mark.parametrize(
    ("expression", "tags"),
    [("A", {"A"}), ("A || B", {"A", "B"}), ("A||B||", {"A", "B"}), (" A ", {"A"}), ("*", set()), (" * ", set())],
)
def test_an_expression_is_read_as_brokers_do(expression: str, tags: set[str]) -> None:
    assert parse_tags(expression) == tags


@pytest.mark.parametrize("expression", ["", "  ", "||", " || "])
def test_an_expression_without_a_tag_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="contains no tag"):
        parse_tags(expression)


def test_tags_are_compared_as_text() -> None:
    assert has_tag(frozenset({"Aa"}), "Aa")
    assert not has_tag(frozenset({"Aa"}), "BB")  # the same hash
    assert not has_tag(frozenset({"Aa"}), None)
    assert has_tag(frozenset(), None)
