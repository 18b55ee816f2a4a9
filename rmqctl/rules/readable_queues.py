"""Which queues exist, and which of them consumers can read."""

from __future__ import annotations

from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import QueueData, TopicRoute

from .words import agreeing, counted


def is_unreadable(mq: MessageQueue, route: TopicRoute | None) -> bool:
    """Tell a queue that producers write to and no consumer can read: its id is not below readQueueNums.

    What a topic's permission forbids can be allowed again at any time, and does not depend on the queue.
    """
    data = _data_of(mq, route)
    return data is not None and mq.queue_id >= data.read_queue_count


def describe_unreadable(topic: str, message_count: int, queue_count: int, end: int) -> str:
    """Return the sentence about messages of a topic in queues that no consumer can read; `end` is one past the last."""
    messages, queues = counted(message_count, "message"), counted(queue_count, "queue")
    return (
        f"{messages} of {topic} {agreeing(message_count, 'is')} in {queues} that no consumer can read before "
        f"readQueueNums is {end}."
    )


def exists(mq: MessageQueue, route: TopicRoute | None) -> bool:
    """Tell whether a broker has a queue, by the topic's route; None is the route of a topic that does not exist.

    The queues of a static topic are not those of its route.
    """
    if route is not None and route.is_static:
        return True
    data = _data_of(mq, route)
    return data is not None and mq.queue_id < max(data.read_queue_count, data.write_queue_count)


def _data_of(mq: MessageQueue, route: TopicRoute | None) -> QueueData | None:
    if route is None or route.is_static:
        return None
    return next((data for data in route.queue_data if data.broker_name == mq.broker_name), None)
