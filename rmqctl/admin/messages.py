"""Messages: reading a queue from one offset to another, without a trace."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

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
# Pulls of one queue that are under way.
_MOST_AHEAD = 4
# So many answers in a row with all that was asked for: more is asked for.
_FULL_ENOUGH = 16


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

    `ahead`: the next pulls are on their way while the last one is worked on; of all messages (ALL) some at once, from
    where each one probably ends. It pays for a queue that is read alone; where several are, the others' pulls are on
    their way. Offsets that were deleted meanwhile are passed over; the queue's end ends it early. Raises what
    Client.ask() raises, and without on_unreadable RemoteProtocolError for a message that can't be read. Close it
    (aclosing) when it is left early.
    """
    most_ahead = (_MOST_AHEAD if expression == ALL else 1) if ahead else 0
    # By the offsets that they begin at.
    asked: deque[tuple[int, int, asyncio.Task[Command]]] = deque()
    in_vain: list[asyncio.Task[Command]] = []
    # How many messages an answer probably has. Brokers give fewer of what is no longer in memory.
    step, full_count = batch_count, 0

    def ask(queue_offset: int, count: int) -> tuple[int, int, asyncio.Task[Command]]:
        request = pull_request(mq, queue_offset, expression, count)
        return queue_offset, count, asyncio.ensure_future(client.ask(address, request, accept=PULL_ANSWERS))

    def ask_from(queue_offset: int) -> None:
        """Have the next pulls from an offset on under way."""
        if not asked or asked[0][0] > queue_offset:
            asked.appendleft(ask(queue_offset, min(step, asked[0][0] - queue_offset) if asked else step))
        while len(asked) < most_ahead and (guess := sum(asked[-1][:2])) < end_offset:
            asked.append(ask(guess, step))

    queue_offset = first_offset
    try:
        while queue_offset < end_offset:
            ask_from(queue_offset)
            _, count, pull = asked.popleft()
            answer = await pull
            next_offset = headers.int_field(answer, "nextBeginOffset")
            is_more = queue_offset < next_offset < end_offset
            while asked and asked[0][0] < next_offset:
                in_vain.append(asked.popleft()[2])
            if most_ahead > 1:
                full_count = full_count + 1 if next_offset - queue_offset >= count else 0
                if not full_count:
                    step = max(1, next_offset - queue_offset)
                elif full_count % _FULL_ENOUGH == 0:
                    step = min(2 * step, batch_count)
            if most_ahead and is_more:
                ask_from(next_offset)
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
        in_vain += [pull for *_, pull in asked]
        for pull in in_vain:
            pull.cancel()
        await asyncio.gather(*in_vain, return_exceptions=True)


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
