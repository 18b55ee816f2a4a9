"""Find the offsets of queues for a span of time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError, UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData, TopicRoute
from rmqctl.protocol import headers
from rmqctl.rules.store_times import TimeOrder

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
    client: Client, broker: BrokerData, mq: MessageQueue, since_ms: int | None = None, until_ms: int | None = None
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
