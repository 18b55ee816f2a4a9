"""Read a broker's records of pops, and acknowledge popped messages."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing

from msgspec import Struct

from rmqctl.admin.brokers.probe import measure_clock
from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, NotAuthorisedError
from rmqctl.model.names import TIMER_TOPIC
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol import headers, writes
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.message_wait import REAL_QUEUE_ID, REAL_TOPIC
from rmqctl.rules.pop_checkpoints import REVIVE_PREFIX, PopHindrance, PopRecords

from .pull import pull_queue

# The longest invisible time is 2 h for clients (ConsumeMessagePopConcurrentlyService) and 12 h for proxies.
_LONGEST_MS = 12 * 3_600_000
# On a busy broker only this many of the newest records are read, which takes some seconds.
MOST_RECORDS = 200_000


class PopLog(Struct, frozen=True):
    """A broker's records of a group's pops, and its clock just before they were read.

    `since_ms`: with more than MOST_RECORDS, only records stored since then were read; None when all were.
    """

    records: PopRecords
    now_ms: int
    since_ms: int | None = None


def find_hindrance(settings: Mapping[str, str], *, is_orderly: bool, older_than_ms: int) -> PopHindrance | None:
    """Return why a broker's settings hide messages that were popped that long ago, None when they do not."""
    if settings.get("popConsumerKVServiceEnable") == "true":
        return PopHindrance.KV_SERVICE
    if is_orderly:
        return PopHindrance.IN_ORDER
    if settings.get("enablePopBufferMerge") == "true" and older_than_ms < _buffered_ms(settings):
        return PopHindrance.IN_MEMORY
    return None


def _buffered_ms(settings: Mapping[str, str]) -> int:
    """Return how long a broker may keep check-points in memory (PopBufferMergeService), by its settings."""
    names = (("popCkStayBufferTime", 10_000), ("popCkStayBufferTimeOut", 3_000))
    return sum(int(text) if (text := settings.get(name, "")).isdecimal() else usual for name, usual in names)


async def read_pop_log(
    client: Client, address: str, broker_name: str, group: str, since_ms: int | None = None
) -> PopLog:  # fmt: skip
    """Return a master's records of a group's pops since a time by its clock, by default 12 h ago.

    Raises the errors of Client.ask(), and RemoteProtocolError for an unreadable record.
    """
    now_ms = client.clock.now_ms() + await _skew_ms(client, address)
    records = PopRecords(group, broker_name)
    mq = MessageQueue(TIMER_TOPIC, broker_name, 0)
    end = headers.int_field(await client.ask(address, headers.get_max_offset(mq.topic, mq.queue_id)), "offset")
    begin_ms = now_ms - _LONGEST_MS if since_ms is None else since_ms
    found = await client.ask(address, headers.search_offset(mq.topic, mq.queue_id, begin_ms))
    first = max(0, headers.int_field(found, "offset"))
    is_cut = end - first > MOST_RECORDS
    first_ms: int | None = None
    async with aclosing(
        pull_queue(client, address, mq, max(first, end - MOST_RECORDS), end, ahead=True)
    ) as pulls:  # fmt: skip
        async for messages in pulls:
            first_ms = messages[0].stored_at_ms if first_ms is None else first_ms
            for message in messages:
                _add(records, message)
    return PopLog(records, now_ms, first_ms if is_cut else None)


async def _skew_ms(client: Client, address: str) -> int:
    """Return how far a broker's clock is ahead of ours; 0 when the account is not allowed to read it."""
    try:
        skew = await measure_clock(client, address)
    except (BrokerError, NotAuthorisedError):
        return 0
    return 0 if skew is None else skew.middle_ms


def _add(records: PopRecords, message: StoredMessage) -> None:
    properties = message.properties
    if not properties.get(REAL_TOPIC, "").startswith(REVIVE_PREFIX):
        return  # an application's timer
    try:
        records.add(message.tags, int(properties.get(REAL_QUEUE_ID, "")), bytes(message.body))
    except ValueError:
        return  # a broker ignores it as well


async def acknowledge_popped(
    client: Client, address: str, group: str, mq: MessageQueue, queue_offset: int, handle: str, *, timeout_s: float
) -> None:  # fmt: skip
    """Acknowledge one popped message; an expired handle has no effect. Raises the errors of Client.ask()."""
    command = writes.acknowledge_popped(group, mq.topic, mq.queue_id, queue_offset, handle)
    await client.ask(address, command, timeout_s=timeout_s)
