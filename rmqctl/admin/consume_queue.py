"""Entries of a queue's index: the tag hashes of messages, without the messages."""

from __future__ import annotations

from rmqctl.client.core import Client
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Broker
from rmqctl.protocol import bodies, headers


async def fetch_tag_codes(
    client: Client, broker: Broker, mq: MessageQueue, queue_offset: int, count: int
) -> tuple[int, ...]:
    """Return the tag hashes of up to `count` messages from an offset on; none where the broker has no such offset.

    Raises what Client.ask_broker() raises.
    """
    command = headers.query_consume_queue(mq.topic, mq.queue_id, queue_offset, count)
    answer = await client.ask_broker(broker, command)
    return bodies.decode_tag_codes(answer.command.body) if answer.command.body else ()
