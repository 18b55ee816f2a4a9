"""Messages: reading a queue from one offset to another, without a trace."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, NamedTuple

from msgspec import Struct

from rmqctl.client.core import Client
from rmqctl.errors import RemoteProtocolError, RmqctlError
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol import headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.message import StoredMessage, iter_messages
from rmqctl.rules.waiting import Wait

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
    """One message and where it is stored. `message` is None, and `error` says why, for one that can't be read.

    `wait` is that of a message which is there only until it is due.
    """

    mq: MessageQueue
    queue_offset: int
    message: StoredMessage | None
    error: RmqctlError | None = None
    wait: Wait | None = None

    @property
    def meant_for(self) -> MessageQueue:
        """The queue that consumers read it from, now or when it is due."""
        if self.wait is None:
            return self.mq
        return MessageQueue(self.wait.topic, self.mq.broker_name, self.wait.queue_id or 0)


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

    def ask(queue_offset: int, count: int) -> Coroutine[Any, Any, Command]:
        return client.ask(address, pull_request(mq, queue_offset, expression, count), accept=PULL_ANSWERS)

    most_ahead = (_MOST_AHEAD if expression == ALL else 1) if ahead else 0
    pulls = _Pulls(ask, batch_count, end_offset, most_ahead)
    queue_offset = first_offset
    try:
        while queue_offset < end_offset:
            answer, next_offset = await pulls.answer(queue_offset)
            is_more = queue_offset < next_offset < end_offset
            if most_ahead and is_more:
                pulls.ask_from(next_offset)
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
        await pulls.aclose()


class _Pull(NamedTuple):
    """One that is under way."""

    first_offset: int
    most_count: int
    answer: asyncio.Task[Command]


class _Pulls:
    """The pulls of one queue that are under way, by their offsets; `most` are at once.

    More than one begin where the one before probably ends. How many messages an answer has follows the answers:
    brokers return fewer messages when they read them from disk.
    """

    def __init__(
        self, ask: Callable[[int, int], Coroutine[Any, Any, Command]], batch_count: int, end_offset: int, most: int
    ) -> None:
        self._ask, self._batch_count, self._end_offset, self._most = ask, batch_count, end_offset, most
        self._asked: deque[_Pull] = deque()
        self._in_vain: list[_Pull] = []
        self._step, self._full_count = batch_count, 0

    def ask_from(self, queue_offset: int) -> None:
        """Have the next pulls from an offset on under way."""
        asked = self._asked
        if not asked or asked[0].first_offset > queue_offset:
            count = min(self._step, asked[0].first_offset - queue_offset) if asked else self._step
            asked.appendleft(self._pull(queue_offset, count))
        while len(asked) < self._most:
            queue_offset = asked[-1].first_offset + asked[-1].most_count
            if queue_offset >= self._end_offset:
                break
            asked.append(self._pull(queue_offset, self._step))

    async def answer(self, queue_offset: int) -> tuple[Command, int]:
        """Return the answer from an offset on, and where the next one begins."""
        self.ask_from(queue_offset)
        pull = self._asked.popleft()
        answer = await pull.answer
        next_offset = headers.int_field(answer, "nextBeginOffset")
        while self._asked and self._asked[0].first_offset < next_offset:
            self._in_vain.append(self._asked.popleft())
        if self._most > 1:
            self._expect(next_offset - queue_offset, pull.most_count)
        return answer, next_offset

    async def aclose(self) -> None:
        """Give up what is under way."""
        answers = [pull.answer for pull in (*self._in_vain, *self._asked)]
        for answer in answers:
            answer.cancel()
        await asyncio.gather(*answers, return_exceptions=True)

    def _pull(self, queue_offset: int, count: int) -> _Pull:
        return _Pull(queue_offset, count, asyncio.ensure_future(self._ask(queue_offset, count)))

    def _expect(self, came_count: int, asked_count: int) -> None:
        self._full_count = self._full_count + 1 if came_count >= asked_count else 0
        if not self._full_count:
            self._step = max(1, came_count)
        elif self._full_count % _FULL_ENOUGH == 0:
            self._step = min(2 * self._step, self._batch_count)


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


async def fetch_source_id(client: Client, address: str, mq: MessageQueue, queue_offset: int) -> int:
    """Return the id of the replica that a master sends consumers to, who read from an offset on; 0 is itself.

    Raises what Client.ask() raises.
    """
    answer = await client.ask(address, pull_request(mq, queue_offset, ALL, 1), accept=PULL_ANSWERS)
    return headers.int_field(answer, "suggestWhichBrokerId")


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
