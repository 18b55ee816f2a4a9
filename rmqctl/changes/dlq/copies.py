"""Looks for copies of dead letters whose sending was not answered: on their target, by the mark that they carry."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import NamedTuple

from msgspec import Struct

from rmqctl.admin.messages.pull import pull_queue
from rmqctl.admin.results import ask_all
from rmqctl.admin.topics.queues import fetch_route
from rmqctl.changes.dlq.rules.replay import MARK, mark_of
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import pause
from rmqctl.producer.producer import master_of
from rmqctl.protocol import headers

from .ledger import LedgerRow

# A broker that answers has stored earlier sends after this time: it drops requests that wait longer.
_IN_FLIGHT_S = 5.0


class FoundCopy(NamedTuple):
    """A copy on a target: its mark, its offset, and how often it was delivered in vain."""

    mark: str
    queue_offset: int
    reconsume_times: int


class FoundCopies(Struct, frozen=True):
    """What was found: `stored` are rows and the offsets of their copies; `open` are unknown. Other rows have no copy.

    `error` is that of the first queue that could not be read to its end.
    """

    stored: tuple[tuple[LedgerRow, int], ...] = ()
    open: tuple[LedgerRow, ...] = ()
    error: RmqctlError | None = None


async def find_copies(client: Client, ledger_id: str, rows: Sequence[LedgerRow]) -> FoundCopies:
    """Read each queue that rows were sent to, from the first possible offset of a copy to its end.

    Errors of brokers are not raised; their rows are `open`.
    """
    by_queue: dict[MessageQueue, list[LedgerRow]] = {}
    for row in rows:
        by_queue.setdefault(MessageQueue(row.to_topic, row.to_broker, row.to_queue), []).append(row)
    answers = await ask_all(
        by_queue, lambda mq: read_copies(client, ledger_id, mq, min(row.from_offset for row in by_queue[mq]))
    )
    stored: list[tuple[LedgerRow, int]] = []
    still_open: list[LedgerRow] = []
    for mq, copies in answers.ok.items():
        found = {copy.mark: copy.queue_offset for copy in copies}
        for row in by_queue[mq]:
            offset = found.get(mark_of(ledger_id, row.broker_name, row.queue_id, row.queue_offset))
            if offset is not None:
                stored.append((row, offset))
    for mq in answers.failed:
        still_open += by_queue[mq]
    error = next(iter(answers.failed.values()), None)
    return FoundCopies(tuple(stored), tuple(still_open), error)


async def find_late_copies(client: Client, ledger_id: str, rows: Sequence[LedgerRow]) -> FoundCopies:
    """Return what find_copies() finds when another process has just sent these rows, and may have ended meanwhile."""
    copies = await find_copies(client, ledger_id, rows)
    if len(copies.stored) + len(copies.open) < len(rows):
        # A broker that was stopped answers reads as soon as it resumes, and may store earlier sends only later.
        await pause(client.clock, _IN_FLIGHT_S)
        copies = await find_copies(client, ledger_id, rows)
    return copies


async def read_copies(client: Client, ledger_id: str, mq: MessageQueue, first_offset: int) -> list[FoundCopy]:
    """Return a ledger's copies in a queue from an offset on.

    Only the master is asked: a slave's copy of the queue can be old. Raises RmqctlError if not all can be read.
    """
    route = await fetch_route(client, mq.topic)
    address = master_of(route, mq.broker_name)
    lowest, highest = await asyncio.gather(
        client.ask(address, headers.get_min_offset(mq.topic, mq.queue_id)),
        client.ask(address, headers.get_max_offset(mq.topic, mq.queue_id)),
    )
    min_offset, end = headers.int_field(lowest, "offset"), headers.int_field(highest, "offset")
    if min_offset > first_offset:
        raise RmqctlError(f"{mq} now starts at offset {min_offset}: copies from {first_offset} on may be deleted.")
    wanted, found = ledger_id.encode(), []
    position = first_offset

    def note(queue_offset: int) -> None:
        nonlocal position
        position = queue_offset

    async with aclosing(pull_queue(client, address, mq, first_offset, end, on_position=note)) as pulls:
        async for messages in pulls:
            for message in messages:
                if wanted in message.record:
                    mark = message.properties.get(MARK, "")
                    if mark.startswith(f"{ledger_id} "):
                        reconsume_times = message.fixed_fields().reconsume_times
                        found.append(FoundCopy(mark, message.queue_offset, reconsume_times))
    if position < end:
        raise RmqctlError(f"{mq} could only be read up to offset {position}, not to its end {end}.")
    return found
