"""Write offsets: on a broker, by the broker's own reset, or by a push to the clients. Each asks a master once."""

from __future__ import annotations

from contextlib import suppress

from rmqctl.client.core import Client
from rmqctl.errors import BrokerError
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol import bodies, writes


async def store_offset(client: Client, address: str, group: str, mq: MessageQueue, offset: int) -> bool:
    """Store an offset. Return False when the broker ignores it because a reset of the queue is pending (5.x).

    Raises BrokerError for a group or topic that 5.x does not know. May reach the broker twice, which does no harm.
    """
    answer = await client.ask(address, writes.update_consumer_offset(group, mq.topic, mq.queue_id, offset))
    return answer.remark != writes.OFFSET_HELD


async def reset_offset(client: Client, address: str, group: str, mq: MessageQueue, offset: int) -> None:
    """Make a broker that resets offsets itself store one, and send the next client that pulls there.

    Raises BrokerError for an offset that the queue no longer has. May reach the broker twice, which does no harm.
    """
    await client.ask(address, writes.reset_offset(group, mq.topic, mq.queue_id, offset))


async def require_may_reset(client: Client, address: str, group: str, mq: MessageQueue) -> None:
    """Raise NotAuthorisedError if this account may not have a broker reset a queue itself. Changes nothing."""
    with suppress(BrokerError):
        await client.ask(address, writes.ask_for_reset(group, mq.topic, mq.queue_id))


async def push_stored_offsets(
    client: Client, address: str, group: str, topic: str, *, for_cpp: bool
) -> dict[MessageQueue, int]:
    """Make a broker push its stored offsets for a topic to the clients of a group; return the pushed offsets.

    Each push stops the clients for 10 s, so it is never sent twice. Raises BrokerError when no client is connected, or
    a queue has no stored offset.
    """
    command = writes.push_stored_offsets(group, topic, for_cpp=for_cpp)
    answer = await client.ask(address, command, may_repeat=False)
    return bodies.decode_reset_offsets(answer.body)
