"""Read what a broker keeps from consumers for too long: delayed messages that are overdue, open half messages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing

from msgspec import Struct

from rmqctl.admin.brokers.probe import fetch_earliest_now_ms
from rmqctl.admin.brokers.rules.runtime_table import BrokerRuntime, read_runtime
from rmqctl.admin.topics.stats import fetch_queue_offsets
from rmqctl.client.core import Client
from rmqctl.errors import RemoteProtocolError
from rmqctl.model.names import DELAY_TOPIC, GIVEN_UP_TOPIC, HALF_TOPICS, TIMER_TOPIC
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.message_wait import (
    HeldBack,
    LateLevel,
    OpenHalf,
    OpenHalves,
    read_transaction,
    read_wait,
)

from .pull import fetch_one, pull_queue
from .wait_lookup import fetch_checked_offset, fetch_delays_ms

# Half messages are sampled: so many from each of so many places.
_SLICE, _SLICES = 16, 8


class _Spans(Struct, frozen=True):
    """The spans of offsets of half messages that are not checked to the end, and of those that were given up."""

    open_first: int
    open_end: int
    given_up_first: int
    given_up_end: int

    @property
    def count(self) -> int:
        """The number of messages in both spans."""
        return self.open_end - self.open_first + self.given_up_end - self.given_up_first


async def fetch_held_back(client: Client, broker: BrokerData) -> HeldBack:
    """Return what a master keeps from consumers, by its own clock, which is only asked if anything waits.

    Raises the errors of Client.ask(), UnreachableError for a broker without a master, and RemoteProtocolError for an
    unreadable message and a broker that does not report its time.
    """
    address = client.require_master(broker)
    runtime, queues, spans = await asyncio.gather(
        _fetch_runtime(client, address),
        fetch_queue_offsets(client, broker, DELAY_TOPIC),
        _fetch_spans(client, broker, address),
    )
    # A level that has never delivered a message is not in the broker's table.
    delivered = {each.level: each.delivered_offset for each in runtime.delay_levels}
    ends = {
        queue_id + 1: (max(delivered.get(queue_id + 1, 0), each.min_offset), each.max_offset)
        for queue_id, each in queues.items()
    }
    levels = {level: span for level, span in ends.items() if span[0] < span[1]}
    if not (levels or runtime.timer_read_behind_s or runtime.timer_offset_behind or spans.count):
        return HeldBack()
    now_ms = await fetch_earliest_now_ms(client, address)
    if now_ms is None:
        raise RemoteProtocolError(f"{address} does not report its time.")
    late, timers_ms, halves = await asyncio.gather(
        _fetch_late_levels(client, broker, address, levels, now_ms),
        _fetch_timers_overdue_ms(client, address, broker.broker_name, runtime, now_ms),
        _fetch_halves(client, broker.broker_name, address, spans, now_ms),
    )
    return HeldBack(late, timers_ms, halves)


async def _fetch_runtime(client: Client, address: str) -> BrokerRuntime:
    answer = await client.ask(address, headers.get_broker_runtime())
    return read_runtime(bodies.decode_key_values(answer.body))


async def _fetch_spans(client: Client, broker: BrokerData, address: str) -> _Spans:
    end, given_up_end, checked_offset = await asyncio.gather(
        _max_offset(client, address, HALF_TOPICS[0]),
        _max_offset(client, address, GIVEN_UP_TOPIC),
        fetch_checked_offset(client, broker),
    )
    given_up_first = 0
    if given_up_end:
        answer = await client.ask(address, headers.get_min_offset(GIVEN_UP_TOPIC, 0))
        given_up_first = headers.int_field(answer, "offset")
    return _Spans(min(end, checked_offset), end, min(given_up_end, given_up_first), given_up_end)


async def _fetch_late_levels(
    client: Client, broker: BrokerData, address: str, levels: Mapping[int, tuple[int, int]], now_ms: int
) -> tuple[LateLevel, ...]:
    delays_ms = await fetch_delays_ms(client, broker) if levels else []

    async def overdue_ms(level: int) -> int:
        queue = MessageQueue(DELAY_TOPIC, broker.broker_name, level - 1)
        first = await fetch_one(client, address, queue, levels[level][0])
        return 0 if first is None else now_ms - first.stored_at_ms - delays_ms[level - 1]

    known = sorted(level for level in levels if level <= len(delays_ms))
    overdue = await asyncio.gather(*(overdue_ms(level) for level in known))
    return tuple(
        LateLevel(level, levels[level][1] - levels[level][0], late_ms)
        for level, late_ms in zip(known, overdue, strict=True)
        if late_ms > 0
    )


async def _fetch_timers_overdue_ms(client: Client, address: str, name: str, runtime: BrokerRuntime, now_ms: int) -> int:
    """Return the lateness of the timer wheel, or of the first message that is not in the wheel yet."""
    behind_ms = 1000 * (runtime.timer_read_behind_s or 0)
    if not runtime.timer_offset_behind:
        return behind_ms
    queue = MessageQueue(TIMER_TOPIC, name, 0)
    first_offset = await _max_offset(client, address, queue.topic) - runtime.timer_offset_behind
    first = await fetch_one(client, address, queue, max(0, first_offset))
    wait = None if first is None else read_wait(queue.topic, 0, first.stored_at_ms, first.properties, ())
    return behind_ms if wait is None or wait.due_at_ms is None else max(behind_ms, now_ms - wait.due_at_ms)


async def _fetch_halves(client: Client, name: str, address: str, spans: _Spans, now_ms: int) -> OpenHalves:
    given_up_age_ms = None
    if spans.given_up_end > spans.given_up_first:
        queue = MessageQueue(GIVEN_UP_TOPIC, name, 0)
        last = await fetch_one(client, address, queue, spans.given_up_end - 1)
        given_up_age_ms = None if last is None else now_ms - last.stored_at_ms
    halves = MessageQueue(HALF_TOPICS[0], name, 0)
    sample = await _sample(client, address, halves, spans.open_first, spans.open_end)
    read = [(each, read_transaction(halves.topic, each.queue_offset, each.properties, 0)) for each in sample]
    is_unchecked = bool(read) and not read[0][1].check_count
    return OpenHalves(
        most_count=spans.open_end - spans.open_first,
        read_count=len(read),
        checked=tuple(
            OpenHalf(found.topic, found.producer_group, now_ms - each.born_at_ms, found.check_count)
            for each, found in read
            if found.check_count
        ),
        unchecked_ms=max(0, now_ms - read[0][0].stored_at_ms) if is_unchecked else 0,
        given_up_count=spans.given_up_end - spans.given_up_first,
        given_up_age_ms=given_up_age_ms,
    )


async def _sample(
    client: Client, address: str, mq: MessageQueue, first_offset: int, end_offset: int
) -> list[StoredMessage]:
    """Return messages from the whole span of a queue, in order: all of a short one."""
    step = max(_SLICE, -(-(end_offset - first_offset) // _SLICES))

    async def read(start: int) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        pulls = pull_queue(client, address, mq, start, min(end_offset, start + _SLICE), batch_count=_SLICE)
        async with aclosing(pulls):
            async for messages in pulls:
                found += messages
        return found

    slices = await asyncio.gather(*(read(start) for start in range(first_offset, end_offset, step)))
    return [each for found in slices for each in found]


async def _max_offset(client: Client, address: str, topic: str) -> int:
    answer = await client.ask(address, headers.get_max_offset(topic, 0))
    return headers.int_field(answer, "offset")
