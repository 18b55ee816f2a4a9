from __future__ import annotations

from typing import Any

import pytest

from rmqctl.rules.retry_places import RetryHindrance, RetryPlace, blocks_retries


@pytest.mark.parametrize(
    ("place", "hindrance"),
    [
        ({}, None),
        ({"is_writable": True, "is_group_known": True, "retry_queue_count": 1, "is_topic_writable": True}, None),
        ({"has_master": False}, RetryHindrance.NO_MASTER),
        ({"is_group_known": False}, None),
        ({"is_group_known": False, "makes_groups": False}, RetryHindrance.GROUP_UNKNOWN),
        ({"is_group_known": False, "makes_groups": True}, None),
        ({"is_writable": False, "retry_queue_count": 0}, RetryHindrance.BROKER_NOT_WRITABLE),
        ({"retry_queue_count": 0, "is_topic_writable": False}, RetryHindrance.NO_RETRY_QUEUES),
        ({"is_topic_writable": False}, RetryHindrance.RETRY_TOPIC_NOT_WRITABLE),
    ],
)
def test_what_keeps_a_broker_from_storing_what_is_sent_back(
    place: dict[str, Any], hindrance: RetryHindrance | None
) -> None:
    assert RetryPlace(**place).hindrance is hindrance


@pytest.mark.parametrize(
    ("a", "b", "hindrance"),
    [
        ({"is_writable": False}, {}, RetryHindrance.BROKER_NOT_WRITABLE),
        # The client sends a new message to another broker.
        ({"is_writable": False}, {"is_topic_writable": True}, None),
        ({"is_writable": False}, {"is_topic_writable": True, "is_writable": False}, RetryHindrance.BROKER_NOT_WRITABLE),
        ({"is_writable": False}, {"is_topic_writable": True, "has_master": False}, RetryHindrance.BROKER_NOT_WRITABLE),
        # It is lost, and nothing waits for it.
        ({"retry_queue_count": 0}, {}, None),
        ({}, {"is_writable": False}, None),
    ],
)
def test_what_keeps_a_client_from_getting_rid_of_a_failed_message(
    a: dict[str, Any], b: dict[str, Any], hindrance: RetryHindrance | None
) -> None:
    places = {"broker-a": RetryPlace(**a), "broker-b": RetryPlace(**b)}
    assert blocks_retries(places, "broker-a") is hindrance
    assert blocks_retries({}, "broker-a") is None
