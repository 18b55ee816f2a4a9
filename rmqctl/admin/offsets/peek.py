"""Read the messages around a group's committed offsets: the last consumed and the next ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.groups.names import require_group
from rmqctl.admin.messages.pull import FoundMessage, pull_queue
from rmqctl.admin.messages.spans import QueueSpan, fetch_spans
from rmqctl.admin.results import all_failed, ask_all
from rmqctl.admin.topics.queues import QueueChoice, chosen_queues, fetch_route
from rmqctl.client.core import Client
from rmqctl.client.partial_answers import slave_failures
from rmqctl.client.stored_offsets import fetch_stored_offsets
from rmqctl.errors import RmqctlError, UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.queue import MessageQueue, queues_by_broker
from rmqctl.model.route import TopicRoute


class PeekedQueue(Struct, frozen=True):
    """One queue: the group's committed offset, None without one, and the messages around it."""

    span: QueueSpan
    consumer_offset: int | None
    found: tuple[FoundMessage, ...]


class Peek(Struct, frozen=True):
    """All queues that could be read, sorted, and the failures."""

    queues: tuple[PeekedQueue, ...]
    failures: tuple[Failure, ...]


async def peek_group(
    client: Client, group: str, topic: str, choices: Sequence[QueueChoice], before_count: int, after_count: int
) -> Peek:
    """Return messages around the group's committed offset of each queue, from before_count before to after_count after.

    Raises NotFoundError for a group or topic that does not exist, and the brokers' error when none answers.
    """
    route = await fetch_route(client, topic)
    queues = chosen_queues(route, choices)
    (spans, failures), (offsets, offset_failures) = await asyncio.gather(
        fetch_spans(client, route, queues), _fetch_offsets(client, route, group, queues)
    )
    if not offsets or not spans:
        raise all_failed(failure.error for failure in (*offset_failures, *failures, *slave_failures(client)))
    if all(offset is None for offset in offsets.values()):
        failed = {failure.broker_name or "": failure.error for failure in offset_failures}
        # Brokers without the topic may know the group.
        every = (await fetch_cluster(client)).brokers
        brokers = {broker.broker_name: broker for broker in every if broker.broker_name not in failed}
        await require_group(client, group, brokers, failed)
    known = [span for span in spans if span.mq in offsets]
    peeked = await ask_all(known, lambda span: _peek_queue(client, span, offsets[span.mq], before_count, after_count))
    failures += [
        Failure(span.mq.broker_name, f"messages of queue {span.mq.queue_id}", error)
        for span, error in peeked.failed.items()
    ]
    return Peek(
        queues=tuple(sorted(peeked.ok.values(), key=lambda queue: queue.span.mq)),
        failures=(*offset_failures, *failures, *slave_failures(client)),
    )


async def _fetch_offsets(
    client: Client, route: TopicRoute, group: str, queues: Sequence[MessageQueue]
) -> tuple[dict[MessageQueue, int | None], list[Failure]]:
    """Return the stored offset of each queue, None without one."""
    brokers = {broker.broker_name: broker for broker in route.brokers}
    by_broker = queues_by_broker(queues)

    async def ask(name: str) -> dict[MessageQueue, int | None]:
        broker = brokers.get(name)
        if broker is None:
            raise UnreachableError(name, "the name server does not list its address")
        return await fetch_stored_offsets(client, broker, group, by_broker[name])

    answers = await ask_all(by_broker, ask)
    offsets = {mq: offset for found in answers.ok.values() for mq, offset in found.items()}
    return offsets, [Failure(name, "stored offsets", error) for name, error in answers.failed.items()]


async def _peek_queue(
    client: Client, span: QueueSpan, consumer_offset: int | None, before_count: int, after_count: int
) -> PeekedQueue:
    if consumer_offset is None:
        return PeekedQueue(span, None, ())
    found: list[FoundMessage] = []

    def unreadable(queue_offset: int, error: RmqctlError) -> None:
        found.append(FoundMessage(span.mq, queue_offset, None, error))

    # When the message at the committed offset was deleted, the group continues with the first remaining one.
    next_offset = max(consumer_offset, span.min_offset)
    first_offset = max(span.min_offset, min(consumer_offset, span.max_offset) - before_count)
    end_offset = min(span.max_offset, next_offset + 1 + after_count)
    async with aclosing(
        pull_queue(client, span.address, span.mq, first_offset, end_offset, on_unreadable=unreadable)
    ) as pulls:
        async for messages in pulls:
            found += [FoundMessage(span.mq, message.queue_offset, message) for message in messages]
    return PeekedQueue(span, consumer_offset, tuple(sorted(found, key=lambda each: each.queue_offset)))
