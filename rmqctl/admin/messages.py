"""Messages: reading a queue from one offset to another, without a trace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

from msgspec import Struct

from rmqctl.client.core import Client
from rmqctl.errors import RemoteProtocolError, RmqctlError
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol import headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.message import StoredMessage, iter_messages

PULL_ANSWERS = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


class Expression(Struct, frozen=True):
    """What the broker filters by (ExpressionType): tags by their hashes, or SQL92."""

    text: str = "*"
    kind: str = "TAG"


class FoundMessage(Struct, frozen=True):
    """One message and where it stands. `message` is None, and `error` says why, for one that can't be read."""

    mq: MessageQueue
    queue_offset: int
    message: StoredMessage | None
    error: RmqctlError | None = None


# Told of a message that can't be read, by its offset; and of the offset up to which a queue has been read.
OnUnreadable = Callable[[int, RmqctlError], None]
OnPosition = Callable[[int], None]

ALL = Expression()


def pull_request(
    mq: MessageQueue, queue_offset: int, expression: Expression, count: int, *, hold_ms: int = 0
) -> Command:
    """Return the request for up to `count` messages from an offset on, held for news at the queue's end."""
    return headers.pull_without_trace(
        mq.topic,
        mq.queue_id,
        queue_offset,
        max_count=count,
        expression=expression.text,
        expression_type=expression.kind,
        hold_ms=hold_ms,
    )


async def pull_queue(
    client: Client,
    address: str,
    mq: MessageQueue,
    first_offset: int,
    end_offset: int,
    *,
    batch_count: int = 32,
    expression: Expression = ALL,
    ahead: bool = False,
    on_unreadable: OnUnreadable | None = None,
    on_position: OnPosition | None = None,
) -> AsyncGenerator[list[StoredMessage]]:
    """Yield the messages of a queue from first_offset up to, not including, end_offset, a list for each pull.

    `ahead`: the next pull is on its way while the last one is worked on. It pays for a queue that is read alone; where
    several are, the others' pulls are on their way. Offsets that were deleted meanwhile are passed over; the queue's
    end ends it early. Raises what Client.ask() raises, and without on_unreadable RemoteProtocolError for a message that
    can't be read. Close it (aclosing) when it is left early.
    """

    def ask(queue_offset: int) -> Coroutine[Any, Any, Command]:
        request = pull_request(mq, queue_offset, expression, batch_count)
        return client.ask(address, request, accept=PULL_ANSWERS)

    queue_offset = first_offset
    asked: asyncio.Task[Command] | None = None
    try:
        while queue_offset < end_offset:
            answer = await (asked or ask(queue_offset))
            next_offset = headers.int_field(answer, "nextBeginOffset")
            is_more = queue_offset < next_offset < end_offset
            asked = asyncio.ensure_future(ask(next_offset)) if ahead and is_more else None
            if answer.code == ResponseCode.SUCCESS:
                try:
                    messages = list(iter_messages(answer.body))
                except RemoteProtocolError:
                    if on_unreadable is None:
                        raise
                    span = (queue_offset, min(next_offset, end_offset))
                    messages = await pull_one_by_one(client, address, mq, span, expression, on_unreadable)
                if next_offset > end_offset:
                    messages = [message for message in messages if message.queue_offset < end_offset]
                if messages:
                    yield messages
            if on_position is not None:
                on_position(max(queue_offset, min(next_offset, end_offset)))
            if not is_more:
                return
            queue_offset = next_offset
    finally:
        if asked is not None:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)


async def fetch_one(
    client: Client, address: str, mq: MessageQueue, queue_offset: int, *, on_unreadable: OnUnreadable | None = None
) -> StoredMessage | None:
    """Return the message at an offset, None where there is none any more. Raises what pull_queue() raises."""
    pulls = pull_queue(client, address, mq, queue_offset, queue_offset + 1, batch_count=1, on_unreadable=on_unreadable)
    async with aclosing(pulls):
        async for messages in pulls:
            if messages[0].queue_offset == queue_offset:
                return messages[0]
    return None


async def pull_one_by_one(
    client: Client,
    address: str,
    mq: MessageQueue,
    span: tuple[int, int],
    expression: Expression,
    on_unreadable: OnUnreadable,
) -> list[StoredMessage]:
    """Read a span whose answer could not be decoded message by message, so that only the unreadable one is missing."""
    messages: list[StoredMessage] = []
    queue_offset, end_offset = span
    while queue_offset < end_offset:
        answer = await client.ask(address, pull_request(mq, queue_offset, expression, 1), accept=PULL_ANSWERS)
        next_offset = headers.int_field(answer, "nextBeginOffset")
        if answer.code == ResponseCode.SUCCESS:
            try:
                messages += iter_messages(answer.body)
            except RemoteProtocolError as error:
                # It is the one message that was asked for; the broker may have passed over others to find it.
                on_unreadable(max(queue_offset, next_offset - 1), error)
        if next_offset <= queue_offset:
            break
        queue_offset = next_offset
    return messages
