"""Messages: reading a queue from one offset to another, without a trace."""

from __future__ import annotations

from collections.abc import AsyncIterator

from rmqctl.client.core import Client
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol import headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.message import StoredMessage, iter_messages

_ANSWERS = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


async def pull_queue(
    client: Client, address: str, mq: MessageQueue, first_offset: int, end_offset: int, *, batch_count: int = 32
) -> AsyncIterator[list[StoredMessage]]:
    """Yield the messages of a queue from first_offset up to, not including, end_offset, a list for each pull.

    Offsets that were deleted meanwhile are passed over; the queue's end ends it early. Raises what Client.ask() raises.
    """
    queue_offset = first_offset
    while queue_offset < end_offset:
        request = headers.pull_without_trace(mq.topic, mq.queue_id, queue_offset, max_count=batch_count)
        answer = await client.ask(address, request, accept=_ANSWERS)
        next_offset = headers.int_field(answer, "nextBeginOffset")
        if answer.code == ResponseCode.SUCCESS:
            messages = list(iter_messages(answer.body))
            if next_offset > end_offset:
                messages = [message for message in messages if message.queue_offset < end_offset]
            if messages:
                yield messages
        if next_offset <= queue_offset:
            return
        queue_offset = next_offset
