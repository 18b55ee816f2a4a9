"""Read the offsets that brokers store for a group, and distinguish "none" from 0."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct

from rmqctl.client.core import Client
from rmqctl.errors import BrokerError
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.versions import V5_0_0


async def fetch_stored_offsets(
    client: Client, broker: BrokerData, group: str, queues: Sequence[MessageQueue], *, version: int | None = None
) -> dict[MessageQueue, int | None]:
    """Return the stored offset of each queue on one broker, None without one.

    Queues that only a slave reports to have none are left out: the master may have one.

    5.x is asked queue by queue (QUERY_CONSUMER_OFFSET); 4.9 also answers 0 without an offset, so its whole table is
    read instead. `version` is the broker's, if already known. Raises the errors of Client.ask_broker().
    """
    found = await _ask_all(client, broker, group, queues, version)
    is_copy = broker.broker_name in client.silent_masters
    return {mq: offset for mq, offset in found.items() if offset is not None or not is_copy}


async def _ask_all(
    client: Client, broker: BrokerData, group: str, queues: Sequence[MessageQueue], version: int | None
) -> dict[MessageQueue, int | None]:
    if version is not None and version < V5_0_0:
        return await _from_table(client, broker, group, queues)
    answers = await asyncio.gather(*(_ask(client, broker, group, mq) for mq in queues))
    if any(offset == 0 and answered_by < V5_0_0 for offset, answered_by in answers):
        return await _from_table(client, broker, group, queues)
    return {mq: offset for mq, (offset, _) in zip(queues, answers, strict=True)}


async def _ask(client: Client, broker: BrokerData, group: str, mq: MessageQueue) -> tuple[int | None, int]:
    """Return one stored offset, and the version of the broker."""
    try:
        answer = await client.ask_broker(broker, headers.query_consumer_offset(group, mq.topic, mq.queue_id))
    except BrokerError as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return None, V5_0_0
        raise
    offset = headers.int_field(answer.command, "offset")
    # Below 0 means none, as in the table (decode_consumer_offsets).
    return offset if offset >= 0 else None, answer.command.version


async def _from_table(
    client: Client, broker: BrokerData, group: str, queues: Sequence[MessageQueue]
) -> dict[MessageQueue, int | None]:
    answer = await client.ask_broker(broker, headers.get_all_consumer_offsets())
    table = bodies.decode_consumer_offsets(answer.command.body).groups.get(group, {})
    return {mq: table.get(mq.topic, {}).get(mq.queue_id) for mq in queues}


class StoredGroup(Struct, frozen=True):
    """All offsets that a broker stores for a group, also for topics that no longer exist.

    `is_kept`: the broker has entries for the group, possibly only entries without an offset.
    """

    offsets: Mapping[MessageQueue, int]
    is_kept: bool


async def fetch_group_table(client: Client, broker: BrokerData, group: str) -> StoredGroup:
    """Return what a broker's master stores for a group; a slave's copy can be old.

    Raises the errors of Client.ask(), and UnreachableError for a broker without a master.
    """
    answer = await client.ask(client.require_master(broker), headers.get_all_consumer_offsets())
    stored = bodies.decode_consumer_offsets(answer.body)
    offsets = by_queue(broker.broker_name, stored.groups.get(group, {}))
    return StoredGroup(offsets, bool(offsets) or group in stored.emptied)


def by_queue(broker_name: str, offsets: Mapping[str, Mapping[int, int]]) -> dict[MessageQueue, int]:
    """Return one group's stored offsets on a broker by queue; `offsets` are by topic and queue id."""
    return {
        MessageQueue(topic, broker_name, queue_id): offset
        for topic, queues in offsets.items()
        for queue_id, offset in queues.items()
    }
