"""Whether a group has consumed everything that was stored when a member joined."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rmqctl.admin.topics.stats import fetch_queue_offsets
from rmqctl.client.stored_offsets import fetch_stored_offsets
from rmqctl.errors import NotFoundError, RmqctlError
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.text.words import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqctl.consumer.core import ConsumerCore
    from rmqctl.model.route import BrokerData


class CaughtUp:
    """The queues whose messages at the start are not consumed yet, by this member or another one.

    Queues of its retry topic count too: retries that were due at the start. A queue is done once the group's stored
    offset has reached its end at the start; of a broadcasting group, this member's offset.
    """

    def __init__(self, consumer: ConsumerCore, topics: Sequence[str], *, is_broadcasting: bool) -> None:
        self._consumer = consumer
        self._is_broadcasting = is_broadcasting
        self._topics = [*topics] if is_broadcasting else [*topics, RETRY_PREFIX + consumer.settings.group]
        self._ends: dict[MessageQueue, int] = {}
        self._seen: set[MessageQueue] = set()
        # Whether everything was asked for.
        self._is_known = False
        self._brokers: dict[str, BrokerData] = {}
        # Topics, and topics at brokers, whose ends could not be read.
        self._unread: dict[str, RmqctlError] = {}
        # Brokers that do not return the group's offsets.
        self._unasked: dict[str, RmqctlError] = {}

    async def begin(self) -> None:
        """Read the ends of all queues. Ends that are known stay as they are."""
        self._is_known = False
        self._unread.clear()
        await asyncio.gather(*map(self._read_topic, self._topics))
        self._is_known = True

    async def _read_topic(self, topic: str) -> None:
        try:
            route = await self._consumer.client.fresh_route(topic)
        except NotFoundError as error:
            if not topic.startswith(RETRY_PREFIX):
                self._unread[topic] = error
            return
        except RmqctlError as error:
            self._unread[topic] = error
            return
        readable = set(route.readable_queues())
        await asyncio.gather(*(self._read_ends(topic, broker, readable) for broker in route.brokers))

    async def _read_ends(self, topic: str, broker: BrokerData, readable: set[MessageQueue]) -> None:
        name = broker.broker_name
        self._brokers[name] = broker
        try:
            offsets = await fetch_queue_offsets(self._consumer.client, broker, topic)
        except RmqctlError as error:
            self._unread[f"{topic} at {name}"] = error
            return
        for queue_id, found in offsets.items():
            mq = MessageQueue(topic, name, queue_id)
            if mq in readable and mq not in self._seen and found.max_offset > found.min_offset:
                self._ends[mq] = found.max_offset
                self._seen.add(mq)

    async def look(self) -> bool:
        """Return whether all queues are done."""
        if self._unread:
            await self.begin()
        own = {mq: self._consumer.offsets.read(mq) for mq in self._consumer.process_queues()}
        known = {mq: offset for mq, offset in own.items() if mq in self._ends and offset is not None}
        if self._unread or any(offset < self._ends[mq] for mq, offset in known.items()):
            return False
        if self._is_broadcasting:
            return self._ends.keys() <= known.keys()
        await self._consumer.holding.persist(list(own))
        return await self.look_once()

    async def look_once(self) -> bool:
        """Return whether all queues are done, as far as their offsets are stored now."""
        if self._is_broadcasting:
            offsets = self._consumer.offsets.snapshot()
            self._ends = {mq: end for mq, end in self._ends.items() if offsets.get(mq, -1) < end}
        else:
            for name in {mq.broker_name for mq in self._ends}:
                await self._look_at(self._brokers[name])
        return self._is_known and not (self._ends or self._unread)

    async def _look_at(self, broker: BrokerData) -> None:
        """Drop the queues of a broker that are done."""
        queues = sorted(mq for mq in self._ends if mq.broker_name == broker.broker_name)
        stored: Mapping[MessageQueue, int | None]
        try:
            stored = await fetch_stored_offsets(self._consumer.client, broker, self._consumer.settings.group, queues)
        except RmqctlError as error:
            self._unasked[broker.broker_name] = error
            return
        self._unasked.pop(broker.broker_name, None)
        for mq in queues:
            offset = stored.get(mq)
            if offset is not None and offset >= self._ends[mq]:
                del self._ends[mq]

    def unknown(self) -> set[str]:
        """Return sentences about what could not be read, and is asked for again."""
        ends = {f"The end of {what} is unknown: {error.sentence}" for what, error in self._unread.items()}
        offsets = {f"The group's offsets at {name} are unknown: {e.sentence}" for name, e in self._unasked.items()}
        return ends | offsets

    def left(self) -> str:
        """Return in words what is not done, or could not be seen."""
        queues = [f"{mq} before {end}" for mq, end in sorted(self._ends.items())]
        unread = [f"{what} ({error.sentence.rstrip('.')})" for what, error in sorted(self._unread.items())]
        return listed([*queues, *(f"the end of {each} is unknown" for each in unread)], 20)
