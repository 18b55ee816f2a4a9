"""From options to the offsets of each queue: resolved once, on the driver, so that all tasks use the same ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from rmqctl.admin.messages.spans import QueueSpan, fetch_span
from rmqctl.admin.messages.time_search import find_end, find_first_since
from rmqctl.admin.results import Answers, all_failed, all_or_failed, ask_all
from rmqctl.admin.topics.queues import chosen_queues, fetch_route
from rmqctl.client.core import Client
from rmqctl.client.stored_offsets import fetch_stored_offsets
from rmqctl.errors import NotRegisteredError, RmqctlError, UnreachableError, UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.cluster_memory import topics_of_missing
from rmqctl.rules.store_times import TimeOrder, describe_orders
from rmqctl.text.names import one_of

from .options import EARLIEST, LATEST, Bound, ReadPosition, TopicChoice
from .ranges import queue_of

_LOG = logging.getLogger(__name__)


class LostRange(NamedTuple):
    """Requested offsets that do not exist."""

    mq: MessageQueue
    first_offset: int
    end_offset: int
    why: str


OnLoss = Callable[[LostRange], None]


class RetainedQueues(Struct, frozen=True):
    """What brokers retain of the topics; `unreached` are the queues of brokers that did not answer, with the reason.

    A broker that is not registered has the queues that rmqctl remembers on this machine.
    """

    spans: Mapping[MessageQueue, QueueSpan]
    unreached: Mapping[MessageQueue, UnreachableError] = {}

    def edge(self, *, latest: bool) -> dict[MessageQueue, int]:
        """Return the first or the last offset of each queue."""
        return {mq: span.max_offset if latest else span.min_offset for mq, span in self.spans.items()}


async def fetch_retained_queues(client: Client, choice: TopicChoice) -> RetainedQueues:
    """Fetch the first and last offsets of the chosen queues.

    A pattern is matched with the topics that any name server knows, and with remembered ones of missing brokers. Raises
    NotFoundError for a topic, UsageError for a queue that does not exist, the errors with which brokers refuse, and
    UnreachableError when none of them answers.
    """
    topics = choice.names
    if choice.pattern is not None:
        missing = (await client.cluster()).missing
        names = {*await client.topic_names(), *topics_of_missing(client.expectation, missing)}
        topics = tuple(sorted(filter(choice.has, names)))

    async def ask(topic: str) -> Answers[MessageQueue, QueueSpan]:
        try:
            route = await fetch_route(client, topic)
        except NotRegisteredError:
            route = await client.route(topic)
        brokers = {broker.broker_name: broker for broker in route.brokers}

        async def ask_span(mq: MessageQueue) -> QueueSpan:
            if mq.broker_name not in brokers:
                raise UnreachableError(mq.broker_name, "the name server does not list its address")
            return await fetch_span(client, brokers[mq.broker_name], mq)

        return await ask_all(chosen_queues(route, choice.queues.get(topic, ())), ask_span)

    answers = all_or_failed(await ask_all(topics, ask)).values()
    spans = {mq: span for answer in answers for mq, span in answer.ok.items()}
    unreached: dict[MessageQueue, UnreachableError] = {}
    for mq, error in ((mq, error) for answer in answers for mq, error in answer.failed.items()):
        if not isinstance(error, UnreachableError):
            raise error
        unreached[mq] = error
    if unreached and not spans:
        raise all_failed(unreached.values())
    return RetainedQueues(spans, unreached)


async def fetch_read_offsets(
    client: Client, found: RetainedQueues, place: ReadPosition, group: str | None, *, is_start: bool, on_loss: OnLoss
) -> dict[MessageQueue, int]:
    """Return the offset of each queue for a place.

    For a time, a start is the first message stored at that time or later; an end is after the last message stored
    before it. Both are equal while store times rise. Where they go back, messages in between can have other times. For
    a queue without a committed offset of the group, it is the first offset. Offsets outside of what a broker retains
    are reported to on_loss, and moved to the nearer end.

    Raises UsageError for queues that do not exist, and the errors of Client.ask().
    """
    if place.at_ms is not None:
        return await _at_time(client, found, place.at_ms, is_start=is_start)
    if place.offsets is not None:
        return _numbers(found, place.offsets, is_start=is_start, on_loss=on_loss)
    if place.bound is Bound.GROUP and group is not None:
        return await _of_group(client, found, group, on_loss)
    return found.edge(latest=place.bound is Bound.LATEST)


async def _at_time(client: Client, found: RetainedQueues, at_ms: int, *, is_start: bool) -> dict[MessageQueue, int]:
    orders: dict[MessageQueue, TimeOrder] = {}

    async def search(span: QueueSpan) -> int:
        where = (client, span.address, span.mq, at_ms, span.min_offset, span.max_offset)
        if not is_start:
            _, offset, orders[span.mq] = await find_end(*where)
            return offset
        first, orders[span.mq] = await find_first_since(*where)
        return span.max_offset if first is None else first.queue_offset

    placed = dict(zip(found.spans, await asyncio.gather(*map(search, found.spans.values())), strict=True))
    for sentence in describe_orders(orders):
        _LOG.warning("%s", sentence)
    return placed


async def _of_group(client: Client, found: RetainedQueues, group: str, on_loss: OnLoss) -> dict[MessageQueue, int]:
    stored: dict[MessageQueue, int | None] = {}
    for topic in dict.fromkeys(mq.topic for mq in found.spans):
        route = await client.route(topic)
        for broker in route.brokers:
            queues = [mq for mq in found.spans if (mq.topic, mq.broker_name) == (topic, broker.broker_name)]
            stored.update(await fetch_stored_offsets(client, broker, group, queues))
    for mq in found.spans.keys() - stored.keys():
        if (silence := client.silent_masters.get(mq.broker_name)) is not None:
            raise silence
    return {
        mq: span.min_offset if (offset := stored.get(mq)) is None else _within(span, offset, on_loss)
        for mq, span in found.spans.items()
    }


def _numbers(
    found: RetainedQueues, given: Mapping[str, Mapping[str, int]], *, is_start: bool, on_loss: OnLoss
) -> dict[MessageQueue, int]:
    placed = found.edge(latest=not is_start)
    for topic, queues in given.items():
        for name, offset in queues.items():
            mq = queue_of(topic, name)
            span = found.spans.get(mq)
            if mq in found.unreached:
                continue
            if span is None:
                there = (f"{mq.broker_name}:{mq.queue_id}" for mq in sorted(found.spans) if mq.topic == topic)
                raise UsageError(f"Topic {topic} has no readable queue {name}.", hint=one_of(there))
            if offset in (EARLIEST, LATEST):
                placed[mq] = span.min_offset if offset == EARLIEST else span.max_offset
            else:
                placed[mq] = _within(span, offset, on_loss)
    return placed


def _within(span: QueueSpan, offset: int, on_loss: OnLoss) -> int:
    if offset < span.min_offset:
        on_loss(LostRange(span.mq, offset, span.min_offset, "the broker has deleted them"))
    elif offset > span.max_offset:
        on_loss(LostRange(span.mq, span.max_offset, offset, "the queue ends before them"))
    return max(span.min_offset, min(offset, span.max_offset))


def losses_as_error(losses: Sequence[LostRange]) -> RmqctlError:
    """Return the error for offsets that were deleted or never existed."""
    shown = "; ".join(f"{mq} {first} to {end - 1} ({why})" for mq, first, end, why in losses[:5])
    rest = f"; and {len(losses) - 5} more" if len(losses) > 5 else ""
    count = sum(end - first for _, first, end, _ in losses)
    return RmqctlError(
        f"Cannot read {count:,} offset{'' if count == 1 else 's'}: {shown}{rest}.",
        hint="Set failOnDataLoss=false to read only the messages that brokers retain.",
    )
