"""Read a queue from one offset to another, read-only."""

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
from rmqctl.model.route import BrokerData
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.message import StoredMessage, iter_messages
from rmqctl.rules.message_wait import Transaction, Wait

PULL_ANSWERS = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


class Expression(Struct, frozen=True):
    """The broker's filter (ExpressionType): tags by their hashes, or SQL92."""

    text: str = "*"
    kind: str = "TAG"


class FoundMessage(Struct, frozen=True):
    """One message and where it is stored. For an unreadable one, `error` is set instead of `message`.

    `wait` describes a message that is stored there only until it is due, `transaction` a half message.
    """

    mq: MessageQueue
    queue_offset: int
    message: StoredMessage | None
    error: RmqctlError | None = None
    wait: Wait | None = None
    transaction: Transaction | None = None

    @property
    def meant_for(self) -> MessageQueue:
        """The queue from which consumers read it, now or when it is due or committed."""
        later = self.wait or self.transaction
        return self.mq if later is None else MessageQueue(later.topic, self.mq.broker_name, later.queue_id or 0)


# Called with the offset of an unreadable message; called with the offset up to which a queue has been read.
OnUnreadable = Callable[[int, RmqctlError], None]
OnPosition = Callable[[int], None]

ALL = Expression()
# Concurrent pulls of one queue.
_MOST_AHEAD = 4
# After this many full answers in a row, pulls ask for more messages.
_FULL_ENOUGH = 16


def pull_request(
    mq: MessageQueue, queue_offset: int, expression: Expression, count: int, *, hold_ms: int = 0
) -> Command:
    """Return the request for up to `count` messages from an offset on; the broker holds it `hold_ms` at the end."""
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
    """Yield the messages of a queue from first_offset up to, not including, end_offset; one list per pull.

    `ahead`: send the next pulls while the last answer is processed; without a filter (ALL) several at a time, each from
    where the one before probably ends. This pays off for a queue that is read alone; several queues overlap anyway.
    Offsets that were deleted meanwhile are skipped; stops early at the queue's end. Raises the errors of Client.ask(),
    and without on_unreadable RemoteProtocolError for an unreadable message. Use aclosing() when leaving it early.
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
    """A pull that has been sent."""

    first_offset: int
    most_count: int
    answer: asyncio.Task[Command]


class _Pulls:
    """The pulls of one queue that have been sent, by offset; at most `most` at a time.

    Each starts where the one before probably ends. The expected number of messages follows the answers: brokers return
    fewer messages when they read them from disk.
    """

    def __init__(
        self, ask: Callable[[int, int], Coroutine[Any, Any, Command]], batch_count: int, end_offset: int, most: int
    ) -> None:
        self._ask, self._batch_count, self._end_offset, self._most = ask, batch_count, end_offset, most
        self._asked: deque[_Pull] = deque()
        self._in_vain: list[_Pull] = []
        self._step, self._full_count = batch_count, 0

    def ask_from(self, queue_offset: int) -> None:
        """Send the next pulls from an offset on."""
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
        """Return the answer for an offset, and the next offset."""
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
        """Cancel the pulls that have been sent."""
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
    """Return the message at an offset, None when it no longer exists. Raises the errors of pull_queue()."""
    pulls = pull_queue(client, address, mq, queue_offset, queue_offset + 1, batch_count=1, on_unreadable=on_unreadable)
    async with aclosing(pulls):
        async for messages in pulls:
            if messages[0].queue_offset == queue_offset:
                return messages[0]
    return None


async def fetch_source_id(client: Client, address: str, mq: MessageQueue, queue_offset: int) -> int:
    """Return the id of the replica that a master suggests to consumers that read from an offset; 0 is the master.

    Raises the errors of Client.ask().
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
    """Read a span with an undecodable answer message by message, so that only unreadable ones are missing."""
    messages: list[StoredMessage] = []
    queue_offset, end_offset = span
    while queue_offset < end_offset:
        answer = await client.ask(address, pull_request(mq, queue_offset, expression, 1), accept=PULL_ANSWERS)
        next_offset = headers.int_field(answer, "nextBeginOffset")
        if answer.code == ResponseCode.SUCCESS:
            try:
                messages += iter_messages(answer.body)
            except RemoteProtocolError as error:
                # The pull asked for one message; the broker may have skipped others to find it.
                on_unreadable(max(queue_offset, next_offset - 1), error)
        if next_offset <= queue_offset:
            break
        queue_offset = next_offset
    return messages


async def fetch_tag_codes(
    client: Client, broker: BrokerData, mq: MessageQueue, queue_offset: int, count: int
) -> tuple[int, ...]:
    """Return the tag hashes of up to `count` messages from an offset on; empty when the offset does not exist.

    The consume queue has them, so no message is read. Raises the errors of Client.ask_broker().
    """
    command = headers.query_consume_queue(mq.topic, mq.queue_id, queue_offset, count)
    answer = await client.ask_broker(broker, command)
    return bodies.decode_tag_codes(answer.command.body) if answer.command.body else ()
