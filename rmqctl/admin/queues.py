"""Find the queues of a topic to read messages from, and the offsets of each for a span of time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from msgspec import Struct

from rmqctl.client.core import Client
from rmqctl.client.partial_answers import find_untold
from rmqctl.errors import NotFoundError, RmqctlError, UnreachableError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.names import DLQ_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Broker, TopicRoute
from rmqctl.model.topic import READ
from rmqctl.protocol import headers
from rmqctl.rules.cluster_memory import not_registered
from rmqctl.rules.store_times import TimeOrder
from rmqctl.text.names import closest

from .results import ask_all, not_found
from .time_search import MOST_READ_COUNT, fetch_cut


class QueueSpan(Struct, frozen=True):
    """The offsets of one queue to read, from first_offset up to, not including, end_offset.

    `address` is the replica that answered; `min_offset` and `max_offset` are its bounds. `order` describes the store
    times of the queue when a span of time was requested.
    """

    mq: MessageQueue
    address: str
    first_offset: int
    end_offset: int
    min_offset: int
    max_offset: int
    order: TimeOrder = TimeOrder.RISING


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
        untold = await find_untold(client, topic)
        like = () if untold else closest(topic, await client.topic_names())
        raise not_found(NotFoundError("Topic", topic, suggestions=like), untold) from None
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
    clusters = {broker.broker_name: broker.cluster for broker in route.brokers}
    where = f"-c {clusters[closed.broker_name]} " if closed.broker_name in clusters else ""
    return (
        f"Allow reads with mqadmin updateTopicPerm {where}-t {route.topic} -p {closed.perm | READ}, "
        "or find single messages by id or key with rmqctl message get."
    )


async def fetch_spans(
    client: Client,
    route: TopicRoute,
    queues: Sequence[MessageQueue],
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> tuple[list[QueueSpan], list[Failure]]:
    """Return the spans that contain all messages stored from since_ms to until_ms, and the failures by queue.

    A span may be too wide, so its reader must check store times. A span that may be too narrow also has a failure.
    """
    brokers = {broker.broker_name: broker for broker in route.brokers}

    async def ask(mq: MessageQueue) -> QueueSpan:
        broker = brokers.get(mq.broker_name)
        if broker is None:
            raise UnreachableError(mq.broker_name, "the name server does not list its address")
        return await fetch_span(client, broker, mq, since_ms, until_ms)

    answers = await ask_all(queues, ask)
    failures = [
        Failure(mq.broker_name, f"messages of queue {mq.queue_id}", error) for mq, error in answers.failed.items()
    ]
    failures += [
        Failure(mq.broker_name, f"all messages of that time in queue {mq.queue_id}", _too_narrow())
        for mq, span in answers.ok.items()
        if span.order is TimeOrder.HALVED
    ]
    return list(answers.ok.values()), failures


def _too_narrow() -> RmqctlError:
    return RmqctlError(
        f"Store times go back in this queue, so messages of that time may be missing. To find all of them, more than "
        f"{MOST_READ_COUNT:,} messages or an unreadable one must be read.",
        hint="Omit the time to read the whole queue.",
    )


async def fetch_span(
    client: Client, broker: Broker, mq: MessageQueue, since_ms: int | None = None, until_ms: int | None = None
) -> QueueSpan:
    """Return one queue's span, the whole queue without times. Raises the errors of Client.ask_broker()."""
    lowest, highest = await asyncio.gather(
        client.ask_broker(broker, headers.get_min_offset(mq.topic, mq.queue_id)),
        client.ask_broker(broker, headers.get_max_offset(mq.topic, mq.queue_id)),
    )
    min_offset = headers.int_field(lowest.command, "offset")
    max_offset = headers.int_field(highest.command, "offset")
    cut = await fetch_cut(client, highest.address, mq, (min_offset, max_offset), since_ms=since_ms, until_ms=until_ms)
    return QueueSpan(mq, highest.address, cut.first_offset, cut.end_offset, min_offset, max_offset, cut.order)
