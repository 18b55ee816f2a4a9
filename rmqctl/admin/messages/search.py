"""Find messages by reading queues concurrently, in the order of store times, with bounded memory."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing

from rmqctl.admin.results import all_failed, ask_all
from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, RemoteProtocolError, RmqctlError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import TopicRoute
from rmqctl.protocol import headers
from rmqctl.protocol.codes import ResponseCode

from .filter import MessageFilter
from .pull import ALL, Expression, FoundMessage, pull_queue
from .spans import QueueSpan

# When this many matches of one queue wait for older ones of other queues, its reading pauses.
_WAITING_COUNT = 256
# With fewer queues than this, one pull per queue does not keep a broker busy.
_FEW = 4


async def check_sql(client: Client, route: TopicRoute, sql: str) -> list[Failure]:
    """Check an SQL92 expression on the brokers; return failures for those that do not filter by SQL at all.

    Without the check, a broker treats an invalid expression like none, and every message would match. Raises UsageError
    for an expression that cannot be parsed, and the brokers' error when none can filter.
    """
    request = headers.check_expression(route.topic, sql)
    answers = await ask_all(route.brokers, lambda broker: client.ask_broker(broker, request))
    failures = []
    for broker, error in answers.failed.items():
        if isinstance(error, BrokerError) and error.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
            says = " ".join((error.remark or "").split()).partition(" Was expecting")[0].rpartition("Exception: ")[2]
            raise UsageError(f"Invalid --sql expression {sql!r}: {says.rstrip('.') or 'no reason given'}.")
        if isinstance(error, BrokerError):
            error = error.reworded(
                f"{broker.broker_name} does not filter by SQL: {error.remark or error.name}.",
                hint="Set enablePropertyFilter=true on the brokers, or use --tag, --property or --contains.",
            )
        failures.append(Failure(broker.broker_name, "messages by SQL", error))
    if not answers.ok:
        raise all_failed(failure.error for failure in failures)
    return failures


class _Lane:
    """The state of reading one queue. `horizon_ms`: all messages stored earlier have been read.

    The horizon and the times of waiting messages never decrease, although a broker's clock may be set back. Otherwise a
    message beyond the horizon of its own queue would wait for ever.
    """

    def __init__(self, span: QueueSpan) -> None:
        self.span = span
        self.position = span.first_offset
        self.horizon_ms: float = -math.inf
        self.waiting: deque[tuple[float, FoundMessage]] = deque()
        self.found_count = 0
        self.is_done = False
        self.room = asyncio.Event()

    def add(self, found: Sequence[FoundMessage]) -> None:
        """Add matches in the order of their offsets; an unreadable one gets the time of the one before it."""
        self.found_count += len(found)
        at_ms = self.horizon_ms
        for each in found:
            at_ms = max(at_ms, each.message.stored_at_ms) if each.message is not None else at_ms
            self.waiting.append((at_ms, each))
        self.horizon_ms = at_ms

    def take(self, until_ms: float) -> list[tuple[float, FoundMessage]]:
        """Remove and return the matches that were stored at a time or earlier."""
        taken = []
        while self.waiting and self.waiting[0][0] <= until_ms:
            taken.append(self.waiting.popleft())
        if len(self.waiting) < _WAITING_COUNT:
            self.room.set()
        return taken


class MessageSearch:
    """Reads spans of queues concurrently and yields the matching messages, oldest first.

    Messages of one queue stay in the order of their offsets; queues are merged by store time, by the brokers' clocks.
    `failures` is complete after run(); `is_cut` is whether the limit ended the search.
    """

    def __init__(
        self,
        client: Client,
        spans: Sequence[QueueSpan],
        wanted: MessageFilter,
        *,
        expression: Expression = ALL,
        limit: int | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._expression = expression
        self._limit = limit
        self._on_progress = on_progress
        self._lanes = [_Lane(span) for span in spans]
        self._news = asyncio.Event()
        self._holds_back = False  # whether matches were waiting for older ones at the last check
        self.failures: list[Failure] = []
        # Messages that the broker deleted meanwhile, as first offset and the one after the last; only without a filter.
        self.gaps: list[tuple[MessageQueue, int, int]] = []
        self.is_cut = False
        # Queues with a message that is older than one before it.
        self.unordered: set[MessageQueue] = set()
        # The number of offsets that have been read or skipped so far.
        self.read_count = 0
        self.total_count = sum(span.end_offset - span.first_offset for span in spans)

    async def run(self) -> AsyncGenerator[list[FoundMessage]]:
        """Yield matches in batches. Raises the brokers' error when no queue can be read at all."""
        tasks = [asyncio.ensure_future(self._read(lane)) for lane in self._lanes]
        left = self._limit
        try:
            while True:
                batch = self._ready()
                if left is not None and len(batch) >= left:
                    self.is_cut = len(batch) > left or not all(lane.is_done for lane in self._lanes)
                    if left:
                        yield batch[:left]
                    return
                if batch:
                    left = None if left is None else left - len(batch)
                    yield batch
                elif all(lane.is_done for lane in self._lanes):
                    break
                else:
                    await self._news.wait()
                    self._news.clear()
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        bugs = [bug for bug in results if isinstance(bug, Exception)]
        if bugs:
            raise bugs[0]
        if self._lanes and len(self.failures) == len(self._lanes) and not self.read_count:
            raise all_failed(failure.error for failure in self.failures)

    def _ready(self) -> list[FoundMessage]:
        """Return the matches for which no queue can still have older ones."""
        horizon_ms = min((lane.horizon_ms for lane in self._lanes if not lane.is_done), default=math.inf)
        taken = [pair for lane in self._lanes for pair in lane.take(horizon_ms)]
        self._holds_back = any(lane.waiting for lane in self._lanes)
        taken.sort(key=lambda pair: (pair[0], pair[1].mq, pair[1].queue_offset))
        return [found for _, found in taken]

    async def _read(self, lane: _Lane) -> None:
        span, wanted = lane.span, self._wanted

        broken: list[FoundMessage] = []
        # The offsets that arrived since the last position.
        came: list[int] = []

        def unreadable(queue_offset: int, error: RmqctlError) -> None:
            broken.append(FoundMessage(span.mq, queue_offset, None, error))
            came.append(queue_offset)

        def position(queue_offset: int) -> None:
            self.read_count += queue_offset - lane.position
            if self._expression == ALL and len(came) < queue_offset - lane.position:
                self.gaps += ((span.mq, *gap) for gap in _gaps(lane.position, came, queue_offset))
            came.clear()
            lane.position = queue_offset
            if broken:
                lane.add(broken)
                broken.clear()
            if self._on_progress is not None:
                self._on_progress(self.read_count, self.total_count)

        pulls = pull_queue(
            self._client, span.address, span.mq, span.first_offset, span.end_offset,
            expression=self._expression, ahead=len(self._lanes) < _FEW, on_unreadable=unreadable,
            on_position=position,
        )  # fmt: skip
        try:
            async with aclosing(pulls):
                async for messages in pulls:
                    came += [message.queue_offset for message in messages]
                    first_ms, last_ms = messages[0].stored_at_ms, messages[-1].stored_at_ms
                    if first_ms < lane.horizon_ms or last_ms < first_ms:
                        self.unordered.add(span.mq)
                    try:
                        matching = wanted.select(messages)
                    except RemoteProtocolError:
                        matching = wanted.select_with_unreadable(messages)
                    if matching or broken:
                        found = [FoundMessage(span.mq, message.queue_offset, message) for message in matching]
                        lane.add(sorted([*found, *broken], key=_offset_of))
                        broken.clear()
                    lane.horizon_ms = max(lane.horizon_ms, last_ms)
                    if self._limit is not None and lane.found_count > self._limit:
                        lane.horizon_ms = math.inf  # its first matches already fill the limit
                        break
                    if lane.waiting or self._holds_back:
                        self._news.set()
                        if len(lane.waiting) >= _WAITING_COUNT:
                            lane.room.clear()
                            await lane.room.wait()
                else:
                    if lane.position < span.end_offset:
                        raise RmqctlError(
                            f"{span.mq} was only read up to offset {lane.position}, not to its end {span.end_offset}."
                        )
        except RmqctlError as error:
            self.failures.append(Failure(span.mq.broker_name, f"messages of queue {span.mq.queue_id}", error))
        finally:
            lane.is_done = True
            self._news.set()


def _offset_of(found: FoundMessage) -> int:
    return found.queue_offset


def _gaps(first: int, offsets: Sequence[int], end: int) -> Iterator[tuple[int, int]]:
    """Yield the gaps between these offsets, as (first, end)."""
    for offset in (*sorted(offsets), end):
        if first < offset:
            yield first, offset
        first = max(first, offset + 1)


def newest(found: Sequence[FoundMessage], count: int) -> list[FoundMessage]:
    """Return the last messages of several queues by store time, the oldest first."""
    ordered = sorted(found, key=lambda item: (item.message.stored_at_ms if item.message else 0, item.mq))
    return ordered[-count:] if count else []
