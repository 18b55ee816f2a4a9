from __future__ import annotations

import pytest

from rmqctl.admin.topics.queues import chosen_queues
from rmqctl.errors import UsageError
from rmqctl.model.route import BrokerData, QueueData, TopicRoute


@pytest.mark.parametrize(
    ("topic", "data", "hint"),
    [
        (
            "T",
            QueueData("broker-a", 4, 4, False, True, 2),
            (
                "Allow reads with rmqctl topic update T --perm rw, "
                "or find single messages by id or key with rmqctl message get."
            ),
        ),
        (
            "%DLQ%G",
            QueueData("broker-a", 1, 1, False, True, 2),
            "Make it readable with rmqctl dlq show G --fix-permission, which can be undone.",
        ),
        ("T", QueueData("broker-a", 0, 4, True, True, 6), "Raise its readQueueNums, which is 0."),
    ],
)
def test_a_topic_that_can_not_be_read_says_what_to_do(topic: str, data: QueueData, hint: str) -> None:
    with pytest.raises(UsageError, match="has no readable queue") as caught:
        chosen_queues(TopicRoute(topic, (data,), (BrokerData("C", "broker-a", {0: "10.0.0.1:10911"}),)), ())
    assert caught.value.hint == hint
