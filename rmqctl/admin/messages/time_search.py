"""Find the exact first and last messages of a span of time, although the broker's own search rounds.

A binary search is correct only if store times rise with the offsets. So some more messages are checked. If one is
older than one before it, the parts of the queue that may contain the answer are read.
"""

from __future__ import annotations

from contextlib import aclosing
from itertools import pairwise
from typing import NamedTuple

from rmqctl.admin.results import all_or_failed, ask_all
from rmqctl.client.core import Client
from rmqctl.errors import RemoteProtocolError
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol import headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.message import StoredMessage, iter_messages
from rmqctl.rules.store_times import TimeOrder, TimeTarget, evenly, is_rising, may_hold, near_first, widest_drop

from .pull import ALL, PULL_ANSWERS, pull_queue, pull_request

# Messages that are checked between an answer and the queue's end; all of them in one pull if there are no more.
_LOOK_COUNT, _PULL_COUNT = 8, 32
# If a queue is out of order, this many messages all over it are checked. Of the gaps that may contain the answer, those
# up to _STRETCH_COUNT messages are read, and larger ones are sampled. In total that costs no more pulls than reading
# MOST_READ_COUNT messages.
_MORE_COUNT, _STRETCH_COUNT, MOST_READ_COUNT = 64, 1_000, 10_000
# The store time of a message that does not exist: later than all.
_NEVER_MS = (1 << 63) - 1


class FirstSince(NamedTuple):
    """The first message stored at a time or later, None when all are older; and the order of the queue."""

    message: StoredMessage | None
    order: TimeOrder


class OffsetSpan(NamedTuple):
    """The offsets that contain a span of time, from first_offset up to, not including, end_offset."""

    first_offset: int
    end_offset: int
    order: TimeOrder = TimeOrder.RISING


async def fetch_message_at(client: Client, address: str, mq: MessageQueue, queue_offset: int) -> StoredMessage | None:
    """Return the message at an offset, or the next one after it; None when there is none.

    Deleted messages are skipped. Raises the errors of Client.ask(), and RemoteProtocolError for an unreadable message.
    """
    while True:
        answer = await client.ask(address, pull_request(mq, queue_offset, ALL, 1), accept=PULL_ANSWERS)
        if answer.code == ResponseCode.SUCCESS:
            found = [message for message in iter_messages(answer.body) if message.queue_offset >= queue_offset]
            if found:
                return found[0]
        next_offset = headers.int_field(answer, "nextBeginOffset")
        if next_offset <= queue_offset:
            return None
        queue_offset = next_offset


async def find_first_since(
    client: Client, address: str, mq: MessageQueue, at_ms: int, min_offset: int, max_offset: int
) -> FirstSince:
    """Return the first message between these offsets that was stored at `at_ms` or later.

    HALVED: its predecessor is older, but an earlier message may match too. Raises the errors of fetch_message_at().
    """
    queue = _Queue(client, address, mq, min_offset, max_offset)
    found = await queue.halve(at_ms)
    await queue.look(max_offset if found is None else found.queue_offset, min_offset)
    if is_rising(queue.seen):
        return FirstSince(found, TimeOrder.RISING)
    try:
        first_offset = await queue.read(TimeTarget(at_ms))
        if first_offset is not None and (found is None or first_offset < found.queue_offset):
            found = await queue.message_at(first_offset)
    except (_TooMuchError, RemoteProtocolError):
        return FirstSince(found, TimeOrder.HALVED)
    return FirstSince(found, TimeOrder.READ)


async def find_end(
    client: Client, address: str, mq: MessageQueue, at_ms: int, min_offset: int, max_offset: int
) -> OffsetSpan:
    """Return the offsets up to the last message stored before `at_ms`. Raises the errors of fetch_message_at()."""
    queue = _Queue(client, address, mq, min_offset, max_offset)
    found = await queue.halve(at_ms)
    end_offset = max_offset if found is None else found.queue_offset
    return await queue.cut(OffsetSpan(min_offset, end_offset), None, at_ms)


async def fetch_cut(
    client: Client, address: str, mq: MessageQueue, bounds: tuple[int, int], *,
    since_ms: int | None = None, until_ms: int | None = None,
) -> OffsetSpan:  # fmt: skip
    """Return the offsets that contain all messages stored from since_ms to until_ms, between the bounds of a queue.

    They may include one more message at each end. 4.9 answers a search by time with any message of that ms, else with
    the nearer neighbour, so the search uses 1 ms before and 1 ms after. It works with unreadable messages too.
    """
    min_offset, max_offset = bounds
    first_offset, end_offset = bounds
    if since_ms is not None and since_ms > 0:
        found = await client.ask(address, headers.search_offset(mq.topic, mq.queue_id, since_ms - 1))
        first_offset = max(min_offset, min(headers.int_field(found, "offset"), max_offset))
    if until_ms is not None:
        found = await client.ask(address, headers.search_offset(mq.topic, mq.queue_id, until_ms + 1))
        end_offset = max(first_offset, min(max_offset, headers.int_field(found, "offset") + 1))
    queue = _Queue(client, address, mq, min_offset, max_offset)
    return await queue.cut(OffsetSpan(first_offset, end_offset), since_ms, None if until_ms is None else until_ms + 1)


class _TooMuchError(Exception):
    """The search would have to read more messages than allowed."""


class _Queue:
    """A queue between two offsets; `seen` are store times by offset, of the message there or the next one after it.

    Messages that arrive later, after its end, are ignored.
    """

    def __init__(self, client: Client, address: str, mq: MessageQueue, min_offset: int, max_offset: int) -> None:
        self._client, self._address, self._mq = client, address, mq
        self._min_offset, self._max_offset = min_offset, max_offset
        self._left_count = MOST_READ_COUNT
        self.seen: dict[int, int] = {}
        self._delays_ms: dict[int, int] = {}

    async def message_at(self, queue_offset: int) -> StoredMessage | None:
        """Return the message at an offset or the next one after it, and note its time."""
        message = await fetch_message_at(self._client, self._address, self._mq, queue_offset)
        if message is not None and message.queue_offset >= self._max_offset:
            message = None
        if message is None:
            self.seen[queue_offset] = _NEVER_MS
        else:
            self.seen[queue_offset] = message.stored_at_ms
            self._delays_ms[queue_offset] = message.stored_at_ms - message.born_at_ms
        return message

    async def halve(self, at_ms: int) -> StoredMessage | None:
        """Return a message stored at a time or later whose predecessor is older; if times rise, there is only one.

        Returns None when the last message is older. Starts from the broker's search (SEARCH_OFFSET_BY_TIMESTAMP): 4.9
        answers any message of that ms, else the nearer neighbour.
        """
        low, high = self._min_offset, self._max_offset
        if low >= high:
            return None
        search = headers.search_offset(self._mq.topic, self._mq.queue_id, max(0, at_ms))
        answer = await self._client.ask(self._address, search)
        probe = max(low, min(headers.int_field(answer, "offset"), high - 1))
        # Messages below `low` are older; `found` is the first from `high` on that is not.
        found, step = None, 1
        is_low_seen = is_high_seen = False
        while low < high:
            message = await self.message_at(probe)
            if message is None or message.queue_offset >= high:
                high, is_high_seen = probe, True
            elif message.stored_at_ms >= at_ms:
                found, high, is_high_seen = message, probe, True
            else:
                low, is_low_seen = message.queue_offset + 1, True
            if is_low_seen and is_high_seen:
                probe = (low + high) // 2
            else:
                # Most guesses are off by at most one: try near offsets first, then more distant ones.
                probe = low + step - 1 if is_low_seen else high - step
                probe, step = max(low, min(probe, high - 1)), step * 2
        return found

    async def look(self, near: int, far: int) -> None:
        """Note the times of some messages between an answer and an end of the queue; skip unreadable ones."""
        if self._min_offset >= self._max_offset:
            return
        near = max(self._min_offset, min(near, self._max_offset - 1))
        offsets = [at for at in (near, *near_first(near, far, _LOOK_COUNT)) if at not in self.seen]
        try:
            if offsets and abs(far - near) < _PULL_COUNT:
                self.seen |= await self._pull(min(near, far), max(near, far) + 1)
            else:
                all_or_failed(await ask_all(offsets, self.message_at))
                await self._close_in()
        except RemoteProtocolError:
            pass

    async def _close_in(self) -> None:
        """Check both sides of the offset where a clock seems to have been set back, if there is one."""
        delays_ms = self._delays_ms
        drop = widest_drop(delays_ms)
        while drop is not None and (middle := sum(drop) // 2) not in drop:
            await self.message_at(middle)
            drop = widest_drop({at: delays_ms[at] for at in (drop[0], middle, drop[1]) if at in delays_ms}, least_ms=1)

    async def cut(self, cut: OffsetSpan, since_ms: int | None, before_ms: int | None) -> OffsetSpan:
        """Return the cut of a search by time, widened to messages that it misses when times do not rise."""
        if since_ms is not None:
            await self.look(cut.first_offset, self._min_offset)
        if before_ms is not None:
            await self.look(cut.end_offset - 1, self._max_offset - 1)
        if is_rising(self.seen):
            return cut
        first_offset, end_offset = cut.first_offset, cut.end_offset
        try:
            if since_ms is not None and (first := await self.read(TimeTarget(since_ms))) is not None:
                first_offset = min(first_offset, first)
            if before_ms is not None and (last := await self.read(TimeTarget(before_ms, is_last=True))) is not None:
                end_offset = max(end_offset, last + 1)
        except (_TooMuchError, RemoteProtocolError):
            return OffsetSpan(first_offset, end_offset, TimeOrder.HALVED)
        return OffsetSpan(first_offset, end_offset, TimeOrder.READ)

    async def read(self, wanted: TimeTarget) -> int | None:
        """Return the offset of the wanted message, None when none matches; `seen` shows where to read.

        Raises _TooMuchError, and the errors of pull_queue().
        """
        first, last = self._min_offset, self._max_offset - 1
        looks = {first, *evenly(first, last, _MORE_COUNT), last}
        await self._look_at(sorted(looks - self.seen.keys()))
        offsets = sorted(self.seen, reverse=wanted.is_last)
        if wanted.fits(self.seen[offsets[0]]):
            return offsets[0]
        return await self._read_between(offsets, wanted)

    async def _read_between(self, offsets: list[int], wanted: TimeTarget) -> int | None:
        """Return the offset of the wanted message after the first of these, which does not match, up to the last."""
        for before, after in pairwise(offsets):
            first_offset, end_offset = min(before, after) + 1, max(before, after)
            if first_offset < end_offset and may_hold(wanted, self.seen[before], self.seen[after]):
                if end_offset - first_offset <= _STRETCH_COUNT:
                    self._spend(end_offset - first_offset)
                    times = await self._pull(first_offset, end_offset)
                    fitting = [at for at, stored_at_ms in times.items() if wanted.fits(stored_at_ms)]
                    if fitting:
                        return fitting[-1 if wanted.is_last else 0]
                else:
                    inner = evenly(before, after, _LOOK_COUNT)
                    await self._look_at(inner)
                    found = await self._read_between([before, *inner, after], wanted)
                    if found is not None:
                        return found
                    continue
            if wanted.fits(self.seen[after]):
                return after
        return None

    async def _look_at(self, offsets: list[int]) -> None:
        self._spend(len(offsets) * _PULL_COUNT)
        all_or_failed(await ask_all(offsets, self.message_at))

    async def _pull(self, first_offset: int, end_offset: int) -> dict[int, int]:
        """Return the store times of the messages between two offsets, in order."""
        pulls = pull_queue(self._client, self._address, self._mq, first_offset, end_offset, batch_count=_PULL_COUNT)
        async with aclosing(pulls):
            return {each.queue_offset: each.stored_at_ms async for messages in pulls for each in messages}

    def _spend(self, count: int) -> None:
        self._left_count -= count
        if self._left_count < 0:
            raise _TooMuchError
