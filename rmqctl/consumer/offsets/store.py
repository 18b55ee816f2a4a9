"""The offset up to which each queue is done, in memory and at the brokers (RemoteBrokerOffsetStore)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Protocol

from rmqctl.client.core import Client
from rmqctl.consumer.routes import require_master
from rmqctl.errors import BrokerError, RmqctlError, UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.queue import MessageQueue, queues_by_broker
from rmqctl.protocol import headers, writes
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command

# Offsets are stored every 5 s. If that failed for longer, because the process was stopped or a broker was unreachable,
# other members may have consumed the queue meanwhile. Storing an old offset would redeliver those messages.
_SURE_S = 15.0


class OffsetStore(Protocol):
    """The store of a consumer's progress. Only persist() writes to permanent storage; only fetch() reads from it."""

    def update(self, mq: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """Note the offset up to which a queue is done; with increase_only, ignore a smaller one."""

    def read(self, mq: MessageQueue) -> int | None:
        """Return the offset in memory, or None."""

    async def fetch(self, mq: MessageQueue) -> int | None:
        """Return the stored offset, or None; do not change memory. Raises RmqctlError."""

    async def persist(self, mqs: Iterable[MessageQueue] | None = None) -> list[Failure]:
        """Store the offsets in memory, of all or these queues; return the failures."""

    async def store(self, mq: MessageQueue, offset: int) -> None:
        """Store the offset of a queue that is not in memory. Raises RmqctlError."""

    def forget(self, mq: MessageQueue) -> None:
        """Remove a queue from memory; its stored offset stays."""

    def trust(self, mq: MessageQueue) -> None:
        """Note that no other member has stored an offset of a queue until now."""

    def doubt(self, mq: MessageQueue) -> None:
        """Have the stored offset of a queue compared before the next one is stored."""

    def snapshot(self) -> dict[MessageQueue, int]:
        """Return a copy of all offsets in memory."""


class MemoryOffsets:
    """The in-memory part of a store."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def update(self, mq: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """See OffsetStore."""
        if not increase_only or offset > self._offsets.get(mq, -1):
            self._offsets[mq] = offset

    def read(self, mq: MessageQueue) -> int | None:
        """See OffsetStore."""
        return self._offsets.get(mq)

    def forget(self, mq: MessageQueue) -> None:
        """See OffsetStore."""
        self._offsets.pop(mq, None)

    def trust(self, mq: MessageQueue) -> None:
        """See OffsetStore."""

    def doubt(self, mq: MessageQueue) -> None:
        """See OffsetStore."""

    def snapshot(self) -> dict[MessageQueue, int]:
        """See OffsetStore."""
        return dict(self._offsets)

    def _known(self, mqs: Iterable[MessageQueue] | None) -> list[MessageQueue]:
        return [mq for mq in (list(self._offsets) if mqs is None else dict.fromkeys(mqs)) if mq in self._offsets]


class BrokerOffsets(MemoryOffsets):
    """Offsets at the brokers, shared by a group. `address_of` returns the master of a queue: slaves store no offsets.

    `held` are the queues whose broker accepted the last offset without storing it, because a reset waits for a pull.
    """

    def __init__(self, client: Client, group: str, address_of: Callable[[MessageQueue], str | None]) -> None:
        super().__init__()
        self.held: set[MessageQueue] = set()
        self._client = client
        self._group = group
        self._address_of = address_of
        # Two concurrent offsets of a queue could be stored in either order, and the older one would undo a reset. Not
        # one lock per broker: many queues that are dropped together would wait in turn for a silent broker.
        self._locks: defaultdict[MessageQueue, asyncio.Lock] = defaultdict(asyncio.Lock)
        # By broker and topic: done once the first offset is stored there.
        self._begun: dict[tuple[str, str], asyncio.Future[BaseException | None]] = {}
        # Monotonic: when a queue's stored offset was last known to be ours.
        self._sure_at_s: dict[MessageQueue, float] = {}

    def update(self, mq: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """See OffsetStore."""
        super().update(mq, offset, increase_only=increase_only)
        if not increase_only:
            self._sure_at_s.pop(mq, None)  # a correction applies whatever is stored

    async def fetch(self, mq: MessageQueue) -> int | None:
        """Return the stored offset, or None. Raises RmqctlError.

        It sends the request of Java's clients, so that the answer for a small new queue is 0: messages that were sent
        before any member knew the queue are then consumed. 4.9 always answers 0 for a missing offset.
        """
        command = headers.query_consumer_offset(self._group, mq.topic, mq.queue_id, zero_when_new=True)
        try:
            answer = await self._client.ask(self._require_address(mq), command)
        except BrokerError as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            offset = -1
        else:
            offset = headers.int_field(answer, "offset")
        return offset if offset >= 0 else None

    async def persist(self, mqs: Iterable[MessageQueue] | None = None) -> list[Failure]:
        """See OffsetStore. A silent broker does not delay the others."""
        by_broker = queues_by_broker(self._known(mqs))
        failures = await asyncio.gather(*(self._persist_at(name, queues) for name, queues in sorted(by_broker.items())))
        return [failure for of_broker in failures for failure in of_broker]

    def forget(self, mq: MessageQueue) -> None:
        """See OffsetStore."""
        super().forget(mq)
        self.held.discard(mq)
        self._sure_at_s.pop(mq, None)

    def trust(self, mq: MessageQueue) -> None:
        """See OffsetStore."""
        self._sure_at_s[mq] = self._client.clock.monotonic_s()

    def doubt(self, mq: MessageQueue) -> None:
        """See OffsetStore. A correction applies whatever is stored."""
        if mq in self._sure_at_s:
            self._sure_at_s[mq] = -inf

    async def _persist_at(self, broker_name: str, queues: Sequence[MessageQueue]) -> list[Failure]:
        errors = await asyncio.gather(*map(self._persist_one, queues))
        return [
            Failure(broker_name, f"offset of {mq.topic}:{mq.queue_id}", error)
            for mq, error in zip(queues, errors, strict=True)
            if error is not None
        ]

    async def _persist_one(self, mq: MessageQueue) -> RmqctlError | None:
        """Store the current offset in memory."""
        async with self._locks[mq]:
            try:
                return await self._store(mq)
            except RmqctlError as error:
                return error

    async def _store(self, mq: MessageQueue) -> RmqctlError | None:
        sure_at_s = self._sure_at_s.get(mq)
        if sure_at_s is not None and self._client.clock.monotonic_s() - sure_at_s > _SURE_S:
            stored = await self.fetch(mq)
            known = self._offsets.get(mq)
            if known is not None and stored is not None and stored > known:
                return RmqctlError(f"Another member has stored {stored} meanwhile; this member is at {known}.")
        offset = self._offsets.get(mq)
        if offset is None:
            return None
        answer = await self._write(mq, offset)
        if mq in self._offsets:
            self.trust(mq)
        if mq not in self._offsets or answer.remark != writes.OFFSET_HELD:
            self.held.discard(mq)
        else:
            self.held.add(mq)
        return None

    async def store(self, mq: MessageQueue, offset: int) -> None:
        """See OffsetStore."""
        async with self._locks[mq]:
            await self._write(mq, offset)

    async def _write(self, mq: MessageQueue, offset: int) -> Command:
        command = writes.update_consumer_offset(self._group, mq.topic, mq.queue_id, offset)
        async with self._first_alone(mq):
            return await self._client.ask(self._require_address(mq), command)

    @asynccontextmanager
    async def _first_alone(self, mq: MessageQueue) -> AsyncIterator[None]:
        """Send the first offset of a topic to its broker before any other.

        Brokers then create a table for the topic. Of two concurrent first offsets one is lost, although both get a
        success (ConsumerOffsetManager.commitOffset). If one fails, the next goes alone; none does to a silent broker.
        """
        place = mq.broker_name, mq.topic
        while (first := self._begun.get(place)) is not None:
            error = await asyncio.shield(first)
            if error is None:
                yield
                return
            if isinstance(error, UnreachableError):
                raise error
        first = self._begun[place] = asyncio.get_running_loop().create_future()
        try:
            yield
        except BaseException as error:
            del self._begun[place]
            first.set_result(error)
            raise
        first.set_result(None)

    def _require_address(self, mq: MessageQueue) -> str:
        return require_master(self._address_of(mq), mq.broker_name)
