"""What opens a dead-letter topic, and what a plan may say of it."""

from __future__ import annotations

from typing import Any

import pytest

from rmqctl.changes.groups.rules.dead_letter_permission import is_permission_change, is_readable, opened

TOPIC = {"topicName": "%DLQ%G", "readQueueNums": 1, "perm": 2, "attributes": {"x": "1"}}


@pytest.mark.parametrize(("perm", "target"), [(2, 6), (0, 4), (6, 6), (4, 4), (3, 7)])
def test_the_right_to_read_is_added_and_no_other(perm: int, target: int) -> None:
    before = {**TOPIC, "perm": perm}
    assert opened(before) == {**TOPIC, "perm": target}
    assert is_readable(before) is (perm == target)


@pytest.mark.parametrize(
    ("before", "target", "is_right"),
    [
        (TOPIC, {**TOPIC, "perm": 6}, True),
        ({**TOPIC, "perm": 6}, TOPIC, True),
        (TOPIC, {**TOPIC, "perm": "6"}, False),
        (TOPIC, {**TOPIC, "perm": True}, False),
        (TOPIC, {**TOPIC, "perm": 6, "readQueueNums": 8}, False),
        ({**TOPIC, "topicName": "T"}, {**TOPIC, "topicName": "T", "perm": 6}, False),
        ({}, {"perm": 6}, False),
        (None, TOPIC, False),
        (TOPIC, None, False),
    ],
)
def test_a_plan_changes_the_permission_alone(before: Any, target: Any, is_right: bool) -> None:
    assert is_permission_change("G", before, target) is is_right
