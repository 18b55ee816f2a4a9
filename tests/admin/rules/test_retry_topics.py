from __future__ import annotations

import pytest

from rmqctl.admin.rules.retry_topics import own_retry_topics, owner_of_retry_topic

_OWN, _OF_T, _OF_T_V2 = "%RETRY%G", "%RETRY%G_T", "%RETRY%G+T"


@pytest.mark.parametrize(
    ("topics", "known", "groups", "found"),
    [
        ((), {_OWN, _OF_T}, (), {_OWN}),
        (("T",), {_OWN, _OF_T, _OF_T_V2, "%RETRY%H"}, (), {_OWN, _OF_T, _OF_T_V2}),
        # Group G_T has the same name for its own.
        (("T",), {_OWN, _OF_T, _OF_T_V2}, {"G_T"}, {_OWN, _OF_T_V2}),
        ((_OWN, "%DLQ%G", "T"), {"%RETRY%G_%RETRY%G", "%RETRY%G_%DLQ%G"}, (), set()),
        (("T",), {"T"}, (), set()),
    ],
)
def test_retry_topics_of_a_group(topics: tuple[str, ...], known: set[str], groups: set[str], found: set[str]) -> None:
    assert own_retry_topics("G", topics, known, groups) == found


@pytest.mark.parametrize(
    ("topic", "groups", "owner"),
    [
        ("%RETRY%G", {"G", "H"}, "G"),
        ("%RETRY%G_T", {"G"}, "G"),
        ("%RETRY%G+T", {"G"}, "G"),
        ("%RETRY%G_T", {"G", "G_T"}, "G_T"),
        ("%RETRY%G_U", {"G"}, None),  # no topic has that name
        ("%RETRY%gone", {"G"}, None),
        ("%DLQ%G", {"G"}, None),
        ("G", {"G"}, None),
    ],
)
def test_whose_messages_a_retry_topic_holds(topic: str, groups: set[str], owner: str | None) -> None:
    assert owner_of_retry_topic(topic, groups, {"T", topic}) == owner
