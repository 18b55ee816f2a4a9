"""Up to where each queue is done: in memory, and at the brokers for all of a group (RemoteBrokerOffsetStore)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, RmqctlError, UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol import headers, writes
from rmqctl.protocol.codes import ResponseCode

# Offsets are stored every 5 s. Where that did not work for longer, as the process was stopped or a broker could not be
# reached, others may have consumed the queue meanwhile, and an offset of before would have all of that consumed again.
_SURE_S = 15.0


class OffsetStore(Protocol):
    """What is kept of a consumer's progress. Only persist() makes it last, and only fetch() looks there."""

    def update(self, mq: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """Note the offset up to which a queue is done; with increase_only a smaller one is passed over."""

    def read(self, mq: MessageQueue) -> int | None:
        """Return the offset in memory, None for none."""

    async def fetch(self, mq: MessageQueue) -> int | None:
        """Return the offset that is stored, None for none; memory stays as it is. Raises RmqctlError."""

    async def persist(self, mqs: Iterable[MessageQueue] | None = None) -> list[Failure]:
        """Store the offsets in memory of these queues, of all by default; return what could not be stored."""

    def forget(self, mq: MessageQueue) -> None:
        """Take a queue out of memory; what is stored of it stays."""

    def snapshot(self) -> dict[MessageQueue, int]:
        """Return a copy of all that is in memory."""


class MemoryOffsets:
    """The part of a store that is in memory."""

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

    def snapshot(self) -> dict[MessageQueue, int]:
        """See OffsetStore."""
        return dict(self._offsets)

    def _known(self, mqs: Iterable[MessageQueue] | None) -> list[MessageQueue]:
        return [mq for mq in (list(self._offsets) if mqs is None else dict.fromkeys(mqs)) if mq in self._offsets]


class BrokerOffsets(MemoryOffsets):
    """Offsets at the brokers, shared by a group. `address_of` leads to the master of a queue: slaves keep nothing.

    `held` are the queues whose broker took the last offset and did not store it, since a reset waits for whoever pulls.
    """

    def __init__(self, client: Client, group: str, address_of: Callable[[MessageQueue], str | None]) -> None:
        super().__init__()
        self.held: set[MessageQueue] = set()
        self._client = client
        self._group = group
        self._address_of = address_of
        # Two offsets of a queue that are under way at once could be stored in either order, and the older one would
        # undo a reset. Not one a broker: many queues that are dropped at once would wait for a silent one in turn.
        self._locks: defaultdict[MessageQueue, asyncio.Lock] = defaultdict(asyncio.Lock)
        # By broker and topic: done once an offset was stored there.
        self._begun: dict[tuple[str, str], asyncio.Future[UnreachableError | None]] = {}
        # Monotonic: when a queue's stored offset was last known to be ours.
        self._sure_at_s: dict[MessageQueue, float] = {}

    def update(self, mq: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """See OffsetStore."""
        super().update(mq, offset, increase_only=increase_only)
        if not increase_only:
            self._sure_at_s.pop(mq, None)  # a correction counts whatever is stored

    async def fetch(self, mq: MessageQueue) -> int | None:
        """Return the stored offset, None for none. Raises RmqctlError.

        As Java's clients ask, so that a small new queue answers 0: what was sent to it before anyone knew of it is not
        left out. 4.9 answers 0 for none always.
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
        self._note_sure(mq)
        return offset if offset >= 0 else None

    async def persist(self, mqs: Iterable[MessageQueue] | None = None) -> list[Failure]:
        """See OffsetStore. What a silent broker costs the others do not wait for."""
        by_broker: dict[str, list[MessageQueue]] = {}
        for mq in self._known(mqs):
            by_broker.setdefault(mq.broker_name, []).append(mq)
        failures = await asyncio.gather(*(self._persist_at(name, queues) for name, queues in sorted(by_broker.items())))
        return [failure for of_broker in failures for failure in of_broker]

    def forget(self, mq: MessageQueue) -> None:
        """See OffsetStore."""
        super().forget(mq)
        self.held.discard(mq)
        self._sure_at_s.pop(mq, None)

    def _note_sure(self, mq: MessageQueue) -> None:
        self._sure_at_s[mq] = self._client.clock.monotonic_s()

    async def _persist_at(self, broker_name: str, queues: Sequence[MessageQueue]) -> list[Failure]:
        errors = await asyncio.gather(*map(self._persist_one, queues))
        return [
            Failure(broker_name, f"offset of {mq.topic}:{mq.queue_id}", error)
            for mq, error in zip(queues, errors, strict=True)
            if error is not None
        ]

    async def _persist_one(self, mq: MessageQueue) -> RmqctlError | None:
        """Store what is in memory by now."""
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
                self._sure_at_s[mq] = sure_at_s
                return RmqctlError(f"{stored} is stored by now, by another member; here it was {known}.")
        offset = self._offsets.get(mq)
        if offset is None:
            return None
        command = writes.update_consumer_offset(self._group, mq.topic, mq.queue_id, offset)
        async with self._first_alone(mq):
            answer = await self._client.ask(self._require_address(mq), command)
        if mq in self._offsets:
            self._note_sure(mq)
        if mq not in self._offsets or answer.remark != writes.OFFSET_HELD:
            self.held.discard(mq)
        else:
            self.held.add(mq)
        return None

    @asynccontextmanager
    async def _first_alone(self, mq: MessageQueue) -> AsyncIterator[None]:
        """Let the first offset of a topic go to its broker before any other.

        Brokers make a table for the topic then, and of two that come at once one is lost, though both are answered with
        success (ConsumerOffsetManager.commitOffset). Where the first finds nobody, the others are not tried.
        """
        place = mq.broker_name, mq.topic
        first = self._begun.get(place)
        if first is not None:
            silence = await asyncio.shield(first)
            if silence is not None:
                raise silence
            yield
            return
        first = self._begun[place] = asyncio.get_running_loop().create_future()
        try:
            yield
        except BaseException as error:
            del self._begun[place]
            first.set_result(error if isinstance(error, UnreachableError) else None)
            raise
        first.set_result(None)

    def _require_address(self, mq: MessageQueue) -> str:
        address = self._address_of(mq)
        if address is None:
            raise UnreachableError(mq.broker_name, "its routes name no master of it")
        return address
