"""Finding messages by reading queues: all at once, in the order of store times, in bounded memory."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing

from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, RemoteProtocolError, RmqctlError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import TopicRoute
from rmqctl.protocol import headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.message import StoredMessage

from .message_filter import MessageFilter
from .messages import ALL, Expression, FoundMessage, pull_queue
from .queues import QueueSpan
from .results import all_failed, ask_all

# Matches of one queue that wait for older ones of other queues; then its reading pauses.
_WAITING_COUNT = 256
# So few queues don't keep a broker busy by a pull each.
_FEW = 4


async def check_sql(client: Client, route: TopicRoute, sql: str) -> list[Failure]:
    """Make sure that brokers understand an SQL92 expression; return those that don't filter by SQL at all.

    A broker pulls with a wrong expression as with none: everything would look like a match.
    Raises UsageError for an expression that can't be parsed, and the brokers' error when none can filter.
    """
    request = headers.check_expression(route.topic, sql)
    answers = await ask_all(route.brokers, lambda broker: client.ask_broker(broker, request))
    failures = []
    for broker, error in answers.failed.items():
        if isinstance(error, BrokerError) and error.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
            says = " ".join((error.remark or "").split()).partition(" Was expecting")[0].rpartition("Exception: ")[2]
            raise UsageError(f"--sql: the brokers can't parse {sql!r}: {says.rstrip('.') or 'no reason given'}.")
        if isinstance(error, BrokerError):
            error = error.reworded(
                f"{broker.broker_name} does not filter by SQL: {error.remark or error.name}.",
                hint="Brokers do with enablePropertyFilter=true; --tag, --property and --contains need no setting.",
            )
        failures.append(Failure(broker.broker_name, "messages by SQL", error))
    if not answers.ok:
        raise all_failed(failure.error for failure in failures)
    return failures


class _Lane:
    """One queue's reading. `horizon_ms`: everything stored before it has been read.

    Neither it nor the times of what waits ever go back, though a broker's clock may: a message that waits beyond the
    horizon of its own queue would wait for good.
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
        """Take in matches in the order of their offsets. One that can't be read stands where its neighbour does."""
        self.found_count += len(found)
        at_ms = self.horizon_ms
        for each in found:
            at_ms = max(at_ms, each.message.stored_at_ms) if each.message is not None else at_ms
            self.waiting.append((at_ms, each))
        self.horizon_ms = at_ms

    def take(self, until_ms: float) -> list[tuple[float, FoundMessage]]:
        """Hand over what is not younger than a time."""
        taken = []
        while self.waiting and self.waiting[0][0] <= until_ms:
            taken.append(self.waiting.popleft())
        if len(self.waiting) < _WAITING_COUNT:
            self.room.set()
        return taken


class MessageSearch:
    """Reads spans of queues side by side and gives out what matches, the oldest first.

    Messages of one queue keep its order; between queues store times decide, as the brokers' clocks have them. What
    could not be read is in `failures` afterwards; `is_cut` says that the limit ended it.
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
        self._holds_back = False  # whether matches waited for older ones when it was looked last
        self.failures: list[Failure] = []
        # What the broker deleted while it was read: first offset, and the one behind the last. Only of all messages.
        self.gaps: list[tuple[MessageQueue, int, int]] = []
        self.is_cut = False
        # Queues of which a message was read that is older than one before it.
        self.unordered: set[MessageQueue] = set()
        # How many offsets have been read or passed over so far.
        self.read_count = 0
        self.total_count = sum(span.end_offset - span.first_offset for span in spans)

    async def run(self) -> AsyncGenerator[list[FoundMessage]]:
        """Yield matches, some at a time. Raises the brokers' error when no queue can be read at all."""
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
        """Take what no queue can have anything older to."""
        horizon_ms = min((lane.horizon_ms for lane in self._lanes if not lane.is_done), default=math.inf)
        taken = [pair for lane in self._lanes for pair in lane.take(horizon_ms)]
        self._holds_back = any(lane.waiting for lane in self._lanes)
        taken.sort(key=lambda pair: (pair[0], pair[1].mq, pair[1].queue_offset))
        return [found for _, found in taken]

    async def _read(self, lane: _Lane) -> None:
        span, wanted = lane.span, self._wanted

        broken: list[FoundMessage] = []
        # The offsets that came since the last position.
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
                        matching = _readable(wanted, messages)
                    if matching or broken:
                        found = [FoundMessage(span.mq, message.queue_offset, message) for message in matching]
                        lane.add(sorted([*found, *broken], key=_offset_of))
                        broken.clear()
                    lane.horizon_ms = max(lane.horizon_ms, last_ms)
                    if self._limit is not None and lane.found_count > self._limit:
                        lane.horizon_ms = math.inf  # the first of these fill the limit already
                        break
                    if lane.waiting or self._holds_back:
                        self._news.set()
                        if len(lane.waiting) >= _WAITING_COUNT:
                            lane.room.clear()
                            await lane.room.wait()
                else:
                    if lane.position < span.end_offset:
                        raise RmqctlError(
                            f"{span.mq} could be read to offset {lane.position} only, not to its end {span.end_offset}."
                        )
        except RmqctlError as error:
            self.failures.append(Failure(span.mq.broker_name, f"messages of queue {span.mq.queue_id}", error))
        finally:
            lane.is_done = True
            self._news.set()


def _offset_of(found: FoundMessage) -> int:
    return found.queue_offset


def _gaps(first: int, offsets: Sequence[int], end: int) -> Iterator[tuple[int, int]]:
    """Yield what is missing between these offsets."""
    for offset in (*sorted(offsets), end):
        if first < offset:
            yield first, offset
        first = max(first, offset + 1)


def _readable(wanted: MessageFilter, messages: list[StoredMessage]) -> list[StoredMessage]:
    """Return those that match, and those that can't be read as well: they are shown with their error."""
    matching = []
    for message in messages:
        try:
            matching += wanted.select([message])
        except RemoteProtocolError:
            matching.append(message)
    return matching


def newest(found: Sequence[FoundMessage], count: int) -> list[FoundMessage]:
    """Return the last messages of several queues by store time, the oldest first."""
    ordered = sorted(found, key=lambda item: (item.message.stored_at_ms if item.message else 0, item.mq))
    return ordered[-count:] if count else []
