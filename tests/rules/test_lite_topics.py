from __future__ import annotations

import pytest

from rmqctl.rules.lite_topics import describe_lite, parent_of


@pytest.mark.parametrize(
    ("topic", "parent"),
    [
        ("%LMQ%$Parent$l1", "Parent"),
        ("%LMQ%$Parent$a$b", "Parent"),
        ("%LMQ%123", None),  # of MQTT
        ("%LMQ%$Parent", None),
        ("%LMQ%$$x", None),
        ("Parent", None),
    ],
)
def test_names_of_lite_topics(topic: str, parent: str | None) -> None:
    assert parent_of(topic) == parent


def test_each_parent_is_told_once() -> None:
    assert len(describe_lite(["%LMQ%$P$b", "T", "%LMQ%$P$a", "%LMQ%$Q$a"])) == 2
    assert describe_lite(["T"]) == []
