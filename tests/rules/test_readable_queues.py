from __future__ import annotations

import pytest
from msgspec.structs import replace

from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import QueueData, TopicRoute
from rmqctl.rules.readable_queues import exists, is_unreadable

_ROUTE = TopicRoute("T", (QueueData("broker-a", 3, 5, is_readable=True, is_writable=True),), ())


@pytest.mark.parametrize(
    ("queue_id", "unreadable", "there"), [(0, False, True), (2, False, True), (3, True, True), (5, True, False)]
)
def test_queues_between_read_and_write_are_there_and_nobody_can_read_them(
    queue_id: int, unreadable: bool, there: bool
) -> None:
    mq = MessageQueue("T", "broker-a", queue_id)
    assert (is_unreadable(mq, _ROUTE), exists(mq, _ROUTE)) == (unreadable, there)
    static = replace(_ROUTE, is_static=True)
    assert (is_unreadable(mq, static), exists(mq, static)) == (False, True)
    assert (is_unreadable(mq, None), exists(mq, None)) == (False, False)


def test_a_broker_that_the_route_does_not_name_has_no_queue() -> None:
    mq = MessageQueue("T", "broker-b", 0)
    assert (is_unreadable(mq, _ROUTE), exists(mq, _ROUTE)) == (False, False)
