"""What is said of a change of a group's configuration before it is made."""

from __future__ import annotations

from typing import Any

import pytest

from rmqctl.changes.groups.rules.effects import describe_effects
from rmqctl.model.group import BROADCASTING

_BEFORE: dict[str, Any] = {
    "consumeEnable": True, "consumeBroadcastEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16,
    "notifyConsumerIdsChangedEnable": True, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1,
}  # fmt: skip


def _effects(
    before: dict[str, Any] | None = None, *, model: str | None = None, queues: int | None = None, **changes: Any
) -> dict[str, str]:
    target = {**(before or _BEFORE), **changes}
    found = describe_effects("G", before or _BEFORE, target, message_model=model, retry_queue_count=queues)
    return {item.code: item.text for item in found}


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({}, []),
        ({"consumeEnable": False}, ["CONSUME_OFF"]),
        ({"consumeBroadcastEnable": False}, ["BROADCAST_OFF"]),
        ({"retryQueueNums": 0}, ["RETRIES_LOST"]),
        ({"retryQueueNums": 4}, []),
        ({"retryMaxTimes": 3}, ["CLIENTS_DECIDE"]),
        ({"retryMaxTimes": 0}, ["CLIENTS_DECIDE", "NO_RETRIES"]),
        ({"notifyConsumerIdsChangedEnable": False}, ["NOTIFY_OFF"]),
        ({"brokerId": 1}, ["READS_ELSEWHERE"]),
        ({"whichBrokerWhenConsumeSlowly": 2}, ["READS_ELSEWHERE"]),
    ],
)
def test_only_what_changes_has_effects(changes: dict[str, Any], codes: list[str]) -> None:
    assert list(_effects(**changes)) == codes
    bad = {**_BEFORE, **changes}
    assert _effects(bad) == {}


def test_going_back_has_no_effects() -> None:
    off = {**_BEFORE, "consumeEnable": False, "retryQueueNums": 0, "brokerId": 1}
    assert _effects(off, consumeEnable=True, retryQueueNums=1, brokerId=0) == {}


def test_members_that_broadcast_are_told_of() -> None:
    assert "its members broadcast" in _effects(model=BROADCASTING, consumeBroadcastEnable=False)["BROADCAST_OFF"]
    assert "has none now" in _effects(model="CLUSTERING", consumeBroadcastEnable=False)["BROADCAST_OFF"]


def test_a_retry_topic_that_is_there_already_is_not_made_wider() -> None:
    assert _effects(queues=4, retryQueueNums=4) == {}
    text = _effects(queues=1, retryQueueNums=4)["RETRY_TOPIC_NARROW"]
    assert "%RETRY%G has 1 queue," in text
    assert "queues 0 to 3" in text
    assert "from 1 on" in text


def test_a_new_group_is_held_against_the_defaults() -> None:
    target = {**_BEFORE, "consumeEnable": False}
    found = list(describe_effects("G", None, target, message_model=None, retry_queue_count=None))
    assert [item.code for item in found] == ["CONSUME_OFF"]
