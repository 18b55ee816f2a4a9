"""Offsets that brokers store for a group, with "none" told from 0."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rmqctl.client.core import Client
from rmqctl.errors import BrokerError
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Broker
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.versions import V5_0_0


async def fetch_stored_offsets(
    client: Client, broker: Broker, group: str, queues: Sequence[MessageQueue], *, version: int | None = None
) -> dict[MessageQueue, int | None]:
    """Return the stored offset of each queue at one broker, None for none.

    5.x tells queue by queue (QUERY_CONSUMER_OFFSET); 4.9 answers 0 for none as well, so its whole table is read
    instead. `version` is the broker's when it is known before. Raises what Client.ask_broker() raises.
    """
    if version is not None and version < V5_0_0:
        return await _from_table(client, broker, group, queues)
    answers = await asyncio.gather(*(_ask(client, broker, group, mq) for mq in queues))
    if any(offset == 0 and answered_by < V5_0_0 for offset, answered_by in answers):
        return await _from_table(client, broker, group, queues)
    return {mq: offset for mq, (offset, _) in zip(queues, answers, strict=True)}


async def _ask(client: Client, broker: Broker, group: str, mq: MessageQueue) -> tuple[int | None, int]:
    """Return one stored offset, and the version of the broker that told it."""
    try:
        answer = await client.ask_broker(broker, headers.query_consumer_offset(group, mq.topic, mq.queue_id))
    except BrokerError as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return None, V5_0_0
        raise
    return _none_below_zero(headers.int_field(answer.command, "offset")), answer.command.version


async def _from_table(
    client: Client, broker: Broker, group: str, queues: Sequence[MessageQueue]
) -> dict[MessageQueue, int | None]:
    answer = await client.ask_broker(broker, headers.get_all_consumer_offsets())
    table = bodies.decode_consumer_offsets(answer.command.body).groups.get(group, {})
    return {mq: _none_below_zero(table.get(mq.topic, {}).get(mq.queue_id)) for mq in queues}


async def fetch_group_table(
    client: Client, address: str, broker_name: str, group: str
) -> dict[MessageQueue, int | None]:
    """Return all that a broker stores of a group, None for none, also of topics that are gone.

    Raises what Client.ask() raises; no slave is asked, whose copy can be old.
    """
    answer = await client.ask(address, headers.get_all_consumer_offsets())
    table = bodies.decode_consumer_offsets(answer.body).groups.get(group, {})
    return {
        MessageQueue(topic, broker_name, queue_id): _none_below_zero(offset)
        for topic, queues in table.items()
        for queue_id, offset in queues.items()
    }


def _none_below_zero(offset: int | None) -> int | None:
    """Return a stored offset; clients take one below 0 for none (RemoteBrokerOffsetStore), and brokers store any."""
    return offset if offset is not None and offset >= 0 else None
