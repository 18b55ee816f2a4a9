"""Which queues exist, and which of them consumers can read."""

from __future__ import annotations

from collections.abc import Mapping

from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import QueueData, TopicRoute
from rmqctl.text.words import agreeing, counted


def is_unreadable(mq: MessageQueue, route: TopicRoute | None) -> bool:
    """Tell whether a queue that producers write to is unreadable: its id is not below readQueueNums.

    A topic's permission is ignored: it can be granted again at any time, and does not depend on the queue.
    """
    data = _data_of(mq, route)
    return data is not None and mq.queue_id >= data.read_queue_count


def describe_unreadable(topic: str, message_count: int, queue_count: int, end: int) -> str:
    """Return a sentence on a topic's messages in queues that no consumer can read; `end` is the last queue id + 1."""
    messages, queues = counted(message_count, "message"), counted(queue_count, "queue")
    return (
        f"{messages} of {topic} {agreeing(message_count, 'is')} in {queues} that no consumer can read until "
        f"readQueueNums is {end}."
    )


def describe_all_unreadable(unreadable: Mapping[MessageQueue, int]) -> list[str]:
    """Return a sentence per topic about unread messages in queues that no consumer can read."""
    by_topic: dict[str, list[tuple[int, int]]] = {}
    for mq, count in unreadable.items():
        by_topic.setdefault(mq.topic, []).append((mq.queue_id, count))
    return [
        describe_unreadable(topic, sum(count for _, count in queues), len(queues), max(queues)[0] + 1)
        for topic, queues in by_topic.items()
    ]


def unreadable_words(unreadable: Mapping[MessageQueue, int], lead: str = ", and ") -> str:
    """Return what to add, after `lead`, to a lag, which does not count these messages; empty without any."""
    if not unreadable:
        return ""
    messages, queues = counted(sum(unreadable.values()), "message"), counted(len(unreadable), "queue")
    return f"{lead}{messages} in {queues} that no consumer can read"


def exists(mq: MessageQueue, route: TopicRoute | None) -> bool:
    """Tell whether a broker has a queue, by the topic's route; None means that the topic does not exist.

    A static topic's queues are not those of its route, so all of them count as existing.
    """
    if route is not None and route.is_static:
        return True
    data = _data_of(mq, route)
    return data is not None and mq.queue_id < max(data.read_queue_count, data.write_queue_count)


def _data_of(mq: MessageQueue, route: TopicRoute | None) -> QueueData | None:
    if route is None or route.is_static:
        return None
    return next((data for data in route.queue_data if data.broker_name == mq.broker_name), None)
