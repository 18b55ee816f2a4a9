"""Read entries of a consume queue: the tag hashes of messages, without the messages."""

from __future__ import annotations

from rmqctl.client.core import Client
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Broker
from rmqctl.protocol import bodies, headers


async def fetch_tag_codes(
    client: Client, broker: Broker, mq: MessageQueue, queue_offset: int, count: int
) -> tuple[int, ...]:
    """Return the tag hashes of up to `count` messages from an offset on; empty when the offset does not exist.

    Raises the errors of Client.ask_broker().
    """
    command = headers.query_consume_queue(mq.topic, mq.queue_id, queue_offset, count)
    answer = await client.ask_broker(broker, command)
    return bodies.decode_tag_codes(answer.command.body) if answer.command.body else ()
