"""How a task reads: ranges of queues from their brokers, as Arrow batches of about 1 MB."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence

import pyarrow as pa
from msgspec import Struct

from rmqctl.admin.messages.pull import PULL_ANSWERS, Expression, pull_one_by_one, pull_request
from rmqctl.client.core import Client
from rmqctl.errors import RemoteProtocolError, RmqctlError, UnreachableError
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import pause
from rmqctl.protocol import headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.message import StoredMessage, iter_messages
from rmqctl.rules.message_filters.tags import has_tag

from .hints import with_hints
from .message_rows import Run, to_batch
from .ranges import QueueRange
from .retained_queues import LostRange, losses_as_error
from .task_access import TaskAccess

_LOG = logging.getLogger(__name__)

# Brokers return 32 messages or 256 KiB per response, from disk 8 messages or 64 KiB (maxTransferCountOnMessageInDisk).
_PULL_COUNT = 32
# Requests in flight. Several can be for one queue, when its next offsets are known before the responses.
_AHEAD = 8
# Spark processes batches of this size fastest: smaller ones cost calls, larger ones cache misses.
_BATCH_COUNT, _BATCH_BYTES = 1_000, 1 << 20
# How long to wait before asking a broker again that does not answer; the timeout limits the retries.
_AGAIN_S = 1.0


class Task(Struct, frozen=True):
    """What one task reads; there is one per partition."""

    access: TaskAccess
    ranges: tuple[QueueRange, ...]
    columns: tuple[str, ...]
    expression: Expression = Expression()
    tags: frozenset[str] = frozenset()
    fail_on_data_loss: bool = True


class _Window(Struct):
    """The offsets of a queue that one request asks for."""

    range: QueueRange
    first_offset: int
    end_offset: int


def read_batches(task: Task) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a task's ranges, queue by queue in their order.

    Raises the brokers' errors, and with fail_on_data_loss RmqctlError naming the missing offsets.
    """
    _freeze()
    loop = asyncio.new_event_loop()
    batches = _read(task)
    try:
        while True:
            try:
                with with_hints():
                    batch = loop.run_until_complete(anext(batches))
            except StopAsyncIteration:
                return
            yield batch
    finally:
        loop.run_until_complete(batches.aclose())
        loop.close()


@functools.cache
def _freeze() -> None:
    """Exclude imported objects from the garbage collection of Spark's worker after each task; once per process."""
    gc.freeze()


async def _read(task: Task) -> AsyncGenerator[pa.RecordBatch]:
    runs: list[Run] = []
    count = size_bytes = 0
    async with await task.access.connect() as client:
        reader = _Reader(client, task)
        async for run in reader.run():
            runs.append(run)
            count += len(run[1])
            size_bytes += sum(len(message.record) for message in run[1])
            if count >= _BATCH_COUNT or size_bytes >= _BATCH_BYTES:
                yield to_batch(runs, task.columns, is_strict=task.fail_on_data_loss)
                runs, count, size_bytes = [], 0, 0
        if runs:
            yield to_batch(runs, task.columns, is_strict=task.fail_on_data_loss)


class _Reader:
    def __init__(self, client: Client, task: Task) -> None:
        self._client = client
        self._task = task
        self._is_filtered = task.expression.text != "*"
        # New addresses of brokers that moved since the read was planned, by their old ones.
        self._moved: dict[str, str] = {}
        # The offset up to which a queue's messages are known to be missing.
        self._lost_until: dict[MessageQueue, int] = {}
        self._asked: deque[tuple[_Window, asyncio.Task[Command]]] = deque()
        self._step = _PULL_COUNT

    async def run(self) -> AsyncGenerator[Run]:
        """Yield messages, those of one response at a time."""
        ahead = self._windows()
        try:
            while True:
                while len(self._asked) < _AHEAD and (window := next(ahead, None)) is not None:
                    self._asked.append((window, asyncio.ensure_future(self._ask(window))))
                if not self._asked:
                    return
                window, asking = self._asked[0]
                answer = await asking
                self._asked.popleft()
                messages, next_offset = await self._take(window, answer)
                if next_offset < window.end_offset:
                    rest = _Window(window.range, next_offset, window.end_offset)
                    self._asked.appendleft((rest, asyncio.ensure_future(self._ask(rest))))
                if self._task.tags:
                    # Brokers compare hashes, which different tags can share.
                    messages = [message for message in messages if has_tag(self._task.tags, message.tags)]
                if messages:
                    yield window.range.mq, messages
        finally:
            for _, asking in self._asked:
                asking.cancel()
            await asyncio.gather(*(asking for _, asking in self._asked), return_exceptions=True)

    def _windows(self) -> Iterator[_Window]:
        for each in self._task.ranges:
            first_offset = each.first_offset
            while first_offset < each.end_offset:
                end_offset = min(first_offset + self._step, each.end_offset)
                yield _Window(each, first_offset, end_offset)
                first_offset = max(end_offset, self._lost_until.get(each.mq, 0))

    async def _ask(self, window: _Window) -> Command:
        """Pull, and retry while the broker is unreachable or asks for it; its address may have changed meanwhile."""
        client = self._client
        count = _PULL_COUNT if self._is_filtered else min(_PULL_COUNT, window.end_offset - window.first_offset)
        request = pull_request(window.range.mq, window.first_offset, self._task.expression, count)
        give_up_s = client.clock.monotonic_s() + self._task.access.timeout_s
        while True:
            address = self._moved.get(window.range.address, window.range.address)
            try:
                answer = await client.ask(address, request, accept=PULL_ANSWERS)
            except UnreachableError:
                if client.clock.monotonic_s() >= give_up_s:
                    raise
                await self._look_up(window.range)
            else:
                is_moving = headers.int_field(answer, "nextBeginOffset") > window.first_offset
                if is_moving or answer.code != ResponseCode.PULL_RETRY_IMMEDIATELY:
                    return answer
                if client.clock.monotonic_s() >= give_up_s:
                    where = f"{window.range.mq} offset {window.first_offset}"
                    raise RmqctlError(f"Cannot read {where}: its broker only answers to try again.")
            await pause(client.clock, _AGAIN_S)

    async def _look_up(self, of: QueueRange) -> None:
        try:
            route = await self._client.fresh_route(of.mq.topic)
        except RmqctlError:
            return
        for broker in route.brokers:
            if broker.broker_name == of.mq.broker_name and of.address not in broker.read_addresses:
                self._moved[of.address] = next(iter(broker.read_addresses), of.address)

    async def _take(self, window: _Window, answer: Command) -> tuple[list[StoredMessage], int]:
        """Return the messages of a response that are in the window, and the next offset."""
        next_offset = headers.int_field(answer, "nextBeginOffset")
        messages: list[StoredMessage] = []
        if answer.code == ResponseCode.SUCCESS:
            messages = await self._messages(window, answer, next_offset)
            if next_offset > window.end_offset or (messages and messages[0].queue_offset < window.first_offset):
                first_offset, end_offset = window.first_offset, window.end_offset
                messages = [each for each in messages if first_offset <= each.queue_offset < end_offset]
            if next_offset >= window.end_offset:
                self._step = min(_PULL_COUNT, 2 * self._step)
            else:
                self._step = max(1, len(messages))
        is_there = answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
        if self._is_filtered:
            # A broker that filters searches until it has found enough, also past the window.
            self._step = max(1, next_offset - window.first_offset)
            lost = [] if is_there else [(window.first_offset, max(next_offset, window.first_offset))]
        else:
            lost = _missing(window, messages, next_offset)
        if next_offset <= window.first_offset:
            # A queue that was deleted and recreated, or one that ends before its planned end.
            lost, next_offset = [(window.first_offset, window.range.end_offset)], window.range.end_offset
        for first_offset, end_offset in lost:
            self._lose(window.range, first_offset, min(end_offset, window.range.end_offset), is_there=is_there)
        return messages, next_offset

    async def _messages(self, window: _Window, answer: Command, next_offset: int) -> list[StoredMessage]:
        try:
            return list(iter_messages(answer.body))
        except RemoteProtocolError as error:
            mq, first_offset = window.range.mq, window.first_offset
            if self._task.fail_on_data_loss:
                raise error.reworded(f"Cannot read {mq} from offset {first_offset}: {error.sentence}") from None
            address = self._moved.get(window.range.address, window.range.address)
            span = (first_offset, min(next_offset, window.end_offset))
            return await pull_one_by_one(
                self._client, address, mq, span, self._task.expression,
                lambda queue_offset, why: _LOG.warning("Skipping %s offset %s: %s", mq, queue_offset, why),
            )  # fmt: skip

    def _lose(self, of: QueueRange, first_offset: int, end_offset: int, *, is_there: bool) -> None:
        # The answers to windows that were asked for at the same time can name the same offsets.
        first_offset = max(first_offset, self._lost_until.get(of.mq, 0))
        if first_offset >= end_offset:
            return
        error = losses_as_error([
            LostRange(of.mq, first_offset, end_offset, "the broker skipped them" if is_there else "they do not exist")
        ])  # fmt: skip
        if self._task.fail_on_data_loss:
            raise error
        _LOG.warning("%s", error.sentence)
        self._lost_until[of.mq] = end_offset


def _missing(window: _Window, messages: Sequence[StoredMessage], next_offset: int) -> list[tuple[int, int]]:
    """Return the offset ranges that a response skips: without a filter, every offset has a message."""
    expected = window.first_offset
    if len(messages) == min(next_offset, window.end_offset) - expected:
        return []
    found = []
    for message in messages:
        if message.queue_offset > expected:
            found.append((expected, message.queue_offset))
        expected = message.queue_offset + 1
    if next_offset > expected:
        found.append((expected, next_offset))
    return found
