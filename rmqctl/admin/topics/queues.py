"""Choose queues of a topic to read messages from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from rmqctl.admin.results import not_found
from rmqctl.client.core import Client
from rmqctl.client.partial_answers import find_silent_servers
from rmqctl.errors import NotFoundError, UsageError
from rmqctl.model.names import DLQ_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import TopicRoute
from rmqctl.model.topic import WRITE
from rmqctl.rules.cluster_memory import not_registered
from rmqctl.text.names import closest


class QueueChoice(Struct, frozen=True):
    """Queues of one broker that were requested, as `broker-a:0`, `broker-a:0-3` or `broker-a`."""

    broker_name: str
    first_id: int = 0
    last_id: int = (1 << 31) - 1

    def __str__(self) -> str:
        # Without ids it means all queues of the broker: no broker has that many.
        return self.broker_name if self.last_id >= 1 << 30 else f"{self.broker_name}:{self.first_id}"

    def has(self, mq: MessageQueue) -> bool:
        """Return whether a queue is one of these."""
        return mq.broker_name == self.broker_name and self.first_id <= mq.queue_id <= self.last_id


def parse_queue_choice(text: str) -> QueueChoice:
    """Parse `BROKER`, `BROKER:ID` or `BROKER:ID-ID`. Raises ValueError with a message for users."""
    match = re.fullmatch(r"([^:\s]+)(?::(\d{1,9})(?:-(\d{1,9}))?)?", text.strip(), re.ASCII)
    if match is None:
        raise ValueError(f"invalid queue {text!r}: write broker-a:0, broker-a:0-3 or broker-a")
    if match[2] is None:
        return QueueChoice(match[1])
    first_id = int(match[2])
    last_id = int(match[3]) if match[3] is not None else first_id
    if last_id < first_id:
        raise ValueError(f"invalid queue {text!r}: {last_id} is less than {first_id}")
    return QueueChoice(match[1], first_id, last_id)


async def find_route(client: Client, topic: str) -> TopicRoute | None:
    """Return a topic's route, None when the name servers do not know the topic."""
    try:
        return await client.route(topic)
    except NotFoundError:
        return None


async def fetch_route(client: Client, topic: str) -> TopicRoute:
    """Return a topic's route.

    Raises NotFoundError with similar names; if a missing broker or a silent name server may have the topic, its error.
    """
    try:
        route = await client.route(topic)
    except NotFoundError:
        unread = await find_silent_servers(client, topic)
        like = () if unread else closest(topic, await client.topic_names())
        raise not_found(NotFoundError("Topic", topic, suggestions=like), unread) from None
    if not route.queue_data and route.missing:
        error = not_registered(route.brokers[0], client.clock.now_ms())
        names = ", ".join(data.broker_name for data in route.missing)
        raise error.reworded(f"Topic {topic} is on {names}: {error.reason}.")
    return route


def chosen_queues(route: TopicRoute, choices: Sequence[QueueChoice]) -> list[MessageQueue]:
    """Return the chosen readable queues, all without a choice; includes those of missing brokers.

    Raises UsageError for a queue that does not exist.
    """
    queues = (*route.readable_queues(), *route.missing_queues())
    if not queues:
        raise UsageError(f"Topic {route.topic} has no readable queue.", hint=opening_hint(route))
    for choice in choices:
        if not any(choice.has(mq) for mq in queues):
            every = (*route.queue_data, *route.missing)
            there = ", ".join(f"{data.broker_name}:0-{data.read_queue_count - 1}" for data in every)
            raise UsageError(f"Topic {route.topic} has no readable queue {choice}.", hint=f"Use queues of: {there}.")
    return [mq for mq in queues if not choices or any(choice.has(mq) for choice in choices)]


def opening_hint(route: TopicRoute) -> str:
    """Return the hint for a topic without a readable queue."""
    if route.topic.startswith(DLQ_PREFIX):
        group = route.topic.removeprefix(DLQ_PREFIX)
        return f"Make it readable with rmqctl dlq show {group} --fix-permission, which can be undone."
    closed = next((data for data in route.queue_data if not data.is_readable), None)
    if closed is None:
        return "Raise its readQueueNums, which is 0."
    perm = "rw" if closed.perm & WRITE else "r"
    return (
        f"Allow reads with rmqctl topic update {route.topic} --perm {perm}, "
        "or find single messages by id or key with rmqctl message get."
    )
