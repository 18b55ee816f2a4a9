from __future__ import annotations

import pytest

from rmqctl.model.group import Subscription
from rmqctl.rules.message_filters.subscription import matches


@pytest.mark.parametrize(
    ("expression", "kind", "tags", "expected"),
    [
        ("*", "TAG", (), True),
        ("TagA || TagB", "TAG", ("TagA", "TagB"), True),
        ("TagA || TagB", "TAG", (), True),  # a client that leaves out the set of tags
        ("TagB", "TAG", ("TagB",), False),
        ("a > 1", "SQL92", (), True),
        ("a > 2", "SQL92", (), False),
        ("a >", "SQL92", (), None),
    ],
)
def test_a_message_with_tag_a_matches(expression: str, kind: str, tags: tuple[str, ...], expected: bool | None) -> None:
    subscription = Subscription("T", expression, kind, tags=frozenset(tags))
    assert matches(subscription, "TagA", {"TAGS": "TagA", "a": "2"}) is expected
