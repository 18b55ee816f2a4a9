"""Follow a topic: read new messages of all its queues as they arrive, without joining a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing

from rmqctl.admin.results import all_failed
from rmqctl.admin.topics.queues import QueueChoice, chosen_queues, fetch_route
from rmqctl.client.core import Client
from rmqctl.errors import NotAuthorisedError, RemoteProtocolError, RmqctlError, UnreachableError
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import TopicRoute
from rmqctl.net.clock import pause, wait_for
from rmqctl.net.tasks import stop_tasks
from rmqctl.protocol import headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.message import StoredMessage, iter_messages
from rmqctl.rules.store_times import TimeOrder, describe_orders

from .filter import MessageFilter
from .pull import PULL_ANSWERS, Expression, FoundMessage, pull_one_by_one, pull_queue, pull_request
from .search import newest
from .spans import QueueSpan, fetch_spans
from .time_search import fetch_cut

# How long brokers hold a pull at the end of a queue; they only check held pulls every 5 s.
_HOLD_MS = 10_000
_HELD_S = 15.0
# The pause between two pulls from a broker that does not hold pulls (longPollingEnable=false), and from a silent one.
_IDLE_S = 0.2
_PULL_COUNT = 32
_SILENT_S = 1.0
# Java clients refresh their routes at this interval.
_ROUTE_S = 30.0


# Finds the offset to start from.
_Start = Callable[[MessageQueue], Awaitable[int]]


class MessageTail:
    """Follows queues. `report` is called with a sentence when a broker stops answering and when it answers again."""

    def __init__(
        self,
        client: Client,
        topic: str,
        wanted: MessageFilter,
        report: Callable[[str], None],
        *,
        choices: Sequence[QueueChoice] = (),
        expression: Expression,
    ) -> None:
        self._client = client
        self._topic = topic
        self._wanted = wanted
        self._report = report
        self._choices = choices
        self._expression = expression
        self._addresses: dict[str, str] = {}
        # Queues that cannot be read at the moment, and brokers for which this was reported.
        self._silent: set[MessageQueue] = set()
        self._reported: set[str] = set()
        self._following: dict[MessageQueue, asyncio.Task[None]] = {}
        self._since_ms: int | None = None
        self._is_from_end = False
        self._started_ms = client.clock.now_ms()
        # The end of each queue at first, and a time: messages before that end are only shown if stored at the time or
        # later; later messages are shown whatever the broker's clock says.
        self._wanted_of_old: dict[MessageQueue, tuple[int, int]] = {}
        # Queues whose broker refuses reads, until the first queue could be read.
        self._refused: dict[MessageQueue, NotAuthorisedError] = {}
        self._was_read = False
        # Bounded: slow printing slows down the pulls. An error ends the run.
        self._out: asyncio.Queue[list[FoundMessage] | Exception] = asyncio.Queue(maxsize=16)

    async def run(
        self, *, since_ms: int | None, is_from_end: bool, last_count: int
    ) -> AsyncGenerator[list[FoundMessage]]:
        """Yield messages as they arrive, until the client's deadline, if it has one.

        Starts at the end, after the last `last_count` messages of all queues together, or at a time (None: at the
        beginning). Raises NotFoundError, and the brokers' error when none answers at first or all refuse reads.
        """
        self._since_ms, self._is_from_end = since_ms, is_from_end
        route = await fetch_route(self._client, self._topic)
        queues = chosen_queues(route, self._choices)
        spans, failures = await fetch_spans(self._client, route, queues, since_ms=since_ms)
        if not spans:
            raise all_failed(failure.error for failure in failures)
        self._note_addresses(route)
        if since_ms is not None:
            self._wanted_of_old = {span.mq: (span.max_offset, since_ms) for span in spans}
            self._tell_orders({span.mq: span.order for span in spans})
        late = sorted(set(queues) - {span.mq for span in spans})
        for mq in late:
            error = next(failure.error for failure in failures if failure.broker_name == mq.broker_name)
            self._lost(mq, error)
        if last_count and (last := newest(await self._last_of_each(spans, last_count), last_count)):
            yield last
        for span in spans:
            self._follow(span.mq, span.max_offset if is_from_end else span.first_offset)
        for mq in late:
            self._follow(mq, self._where_asked)
        watching = asyncio.ensure_future(self._watch_route())
        try:
            while True:
                try:
                    came = await wait_for(self._client.clock, self._out.get(), self._client.deadline.remaining_s())
                except TimeoutError:
                    return
                if isinstance(came, Exception):
                    raise came
                yield came
        finally:
            await stop_tasks([watching, *self._following.values()])

    async def _last_of_each(self, spans: Sequence[QueueSpan], count: int) -> list[FoundMessage]:
        async def read(span: QueueSpan) -> list[FoundMessage]:
            found: list[FoundMessage] = []
            first_offset = max(span.min_offset, span.max_offset - count)

            def unreadable(queue_offset: int, error: RmqctlError) -> None:
                found.append(FoundMessage(span.mq, queue_offset, None, error))

            pulls = pull_queue(
                self._client, span.address, span.mq, first_offset, span.max_offset, on_unreadable=unreadable
            )
            try:
                async with aclosing(pulls):
                    async for messages in pulls:
                        found += self._matching(span.mq, messages)
            except RmqctlError as error:
                self._lost(span.mq, error)
            return found

        return [found for part in await asyncio.gather(*map(read, spans)) for found in part]

    def _note_addresses(self, route: TopicRoute) -> None:
        for broker in route.brokers:
            if broker.read_addresses:
                self._addresses[broker.broker_name] = broker.read_addresses[0]

    def _follow(self, mq: MessageQueue, start: int | _Start) -> None:
        self._following[mq] = asyncio.ensure_future(self._follow_or_fail(mq, start))

    async def _follow_or_fail(self, mq: MessageQueue, start: int | _Start) -> None:
        """Follow a queue, and pass an error on to run(): any error that is not retried is a bug."""
        try:
            await self._follow_queue(mq, start)
        except Exception as error:  # noqa: BLE001 -- raised again by run()
            await self._out.put(error)

    async def _follow_queue(self, mq: MessageQueue, start: int | _Start) -> None:
        """Read one queue for ever, from an offset, or from the one found when its broker first answers.

        Raises NotAuthorisedError when no queue may be read.
        """
        while True:
            try:
                queue_offset = start if isinstance(start, int) else await start(mq)
                start = queue_offset
                next_offset, found = await self._pull(mq, queue_offset)
            except RmqctlError as error:
                if self._client.deadline.remaining_s() == 0:
                    return
                self._require_right(mq, error)
                self._lost(mq, error)
                await pause(self._client.clock, _SILENT_S)
                continue
            self._was_read = True
            self._back(mq)
            if found is None:
                await pause(self._client.clock, _IDLE_S)
            elif found:
                await self._out.put(found)
            start = next_offset

    async def _beginning(self, mq: MessageQueue) -> int:
        return await self._ask_offset(headers.get_min_offset(mq.topic, mq.queue_id), mq)

    async def _where_asked(self, mq: MessageQueue) -> int:
        """Return the start offset of a queue whose broker did not answer at first."""
        if self._is_from_end:
            return await self._ask_offset(headers.get_max_offset(mq.topic, mq.queue_id), mq)
        return await self._beginning(mq) if self._since_ms is None else await self._stored_since(mq, self._since_ms)

    async def _since_start(self, mq: MessageQueue) -> int:
        """Return the start offset of a queue on a broker that was not known at first: the broker may be old."""
        return await (self._stored_since(mq, self._started_ms) if self._is_from_end else self._where_asked(mq))

    async def _stored_since(self, mq: MessageQueue, since_ms: int) -> int:
        lowest = await self._beginning(mq)
        highest = await self._ask_offset(headers.get_max_offset(mq.topic, mq.queue_id), mq)
        cut = await fetch_cut(self._client, self._address(mq), mq, (lowest, highest), since_ms=since_ms)
        self._wanted_of_old[mq] = (highest, since_ms)
        self._tell_orders({mq: cut.order})
        return cut.first_offset

    def _tell_orders(self, orders: Mapping[MessageQueue, TimeOrder]) -> None:
        for sentence in describe_orders(orders):
            self._report(sentence)

    async def _ask_offset(self, request: Command, mq: MessageQueue) -> int:
        return headers.int_field(await self._client.ask(self._address(mq), request), "offset")

    def _address(self, mq: MessageQueue) -> str:
        if mq.broker_name not in self._addresses:
            raise UnreachableError(mq.broker_name, "the name server does not list its address")
        return self._addresses[mq.broker_name]

    async def _pull(self, mq: MessageQueue, queue_offset: int) -> tuple[int, list[FoundMessage] | None]:
        """Return the next offset and the matching messages, None at the end of the queue."""
        request = pull_request(mq, queue_offset, self._expression, _PULL_COUNT, hold_ms=_HOLD_MS)
        answer = await self._client.ask(self._address(mq), request, accept=PULL_ANSWERS, held_s=_HELD_S)
        next_offset = headers.int_field(answer, "nextBeginOffset")
        if answer.code != ResponseCode.SUCCESS:
            is_moved = next_offset != queue_offset
            if is_moved and answer.code == ResponseCode.PULL_OFFSET_MOVED:
                self._report(_gap(mq, queue_offset, next_offset))
            return next_offset, [] if is_moved else None
        try:
            return next_offset, self._matching(mq, list(iter_messages(answer.body)))
        except RemoteProtocolError:
            return next_offset, await self._pull_slowly(mq, queue_offset, next_offset)

    async def _pull_slowly(self, mq: MessageQueue, first_offset: int, end_offset: int) -> list[FoundMessage]:
        """Read a span that contains an unreadable message."""
        found: list[FoundMessage] = []

        def unreadable(queue_offset: int, error: RmqctlError) -> None:
            found.append(FoundMessage(mq, queue_offset, None, error))

        address, span = self._address(mq), (first_offset, end_offset)
        messages = await pull_one_by_one(self._client, address, mq, span, self._expression, unreadable)
        found += self._matching(mq, messages)
        return sorted(found, key=lambda each: each.queue_offset)

    def _matching(self, mq: MessageQueue, messages: list[StoredMessage]) -> list[FoundMessage]:
        found = []
        for message in messages:
            try:
                is_match = self._is_in_time(mq, message) and bool(self._wanted.select([message]))
            except RemoteProtocolError:
                is_match = True  # shown with its error
            if is_match:
                found.append(FoundMessage(mq, message.queue_offset, message))
        return found

    def _is_in_time(self, mq: MessageQueue, message: StoredMessage) -> bool:
        """Return whether a message is in the requested time; a search by time may start too early."""
        end_offset, since_ms = self._wanted_of_old.get(mq, (0, 0))
        return message.queue_offset >= end_offset or message.stored_at_ms >= since_ms

    def _require_right(self, mq: MessageQueue, error: RmqctlError) -> None:
        """Raise when every queue is refused and none was ever read: waiting would not help."""
        if isinstance(error, NotAuthorisedError) and not self._was_read:
            self._refused[mq] = error
            if self._refused.keys() >= self._following.keys():
                raise all_failed(self._refused.values())

    def _lost(self, mq: MessageQueue, error: RmqctlError) -> None:
        self._silent.add(mq)
        if mq.broker_name not in self._reported:
            self._reported.add(mq.broker_name)
            self._report(f"{mq.broker_name} cannot be read, retrying: {error.sentence}")

    def _back(self, mq: MessageQueue) -> None:
        """Note that a queue was read; its broker is back when all of its queues are."""
        self._silent.discard(mq)
        if mq.broker_name in self._reported and not any(each.broker_name == mq.broker_name for each in self._silent):
            self._reported.discard(mq.broker_name)
            self._report(f"{mq.broker_name} answers again.")

    async def _watch_route(self) -> None:
        """Watch for new queues, which are read from their beginning, new brokers, and new addresses.

        Name servers of 5.x forget a broker that is down, so a "new" broker may have days of old messages.
        """
        while True:
            await pause(self._client.clock, _ROUTE_S)
            try:
                route = await self._client.fresh_route(self._topic)
                self._note_addresses(route)
                queues = chosen_queues(route, self._choices)
            except RmqctlError:
                continue  # the known queues are still followed
            known = {mq.broker_name for mq in self._following}
            for mq in queues:
                if mq not in self._following:
                    self._report(f"{mq.broker_name} has a new queue {mq.queue_id}.")
                    self._follow(mq, self._beginning if mq.broker_name in known else self._since_start)


def _gap(mq: MessageQueue, queue_offset: int, next_offset: int) -> str:
    where = f"{mq.broker_name}:{mq.queue_id}"
    if next_offset > queue_offset:
        return f"{where}: offsets {queue_offset} to {next_offset - 1} were deleted before they were read."
    return (
        f"{where}: the broker lost its newest messages and continues at offset {next_offset} instead of {queue_offset}."
    )
