"""The offset at which a newly taken queue starts: consumer/rules/start_position.py with the brokers' answers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from msgspec import Struct

from rmqctl.client.core import Client
from rmqctl.client.stored_offsets import fetch_stored_offsets
from rmqctl.consumer.routes import Routes, require_master
from rmqctl.consumer.rules.start_position import AskMaxOffset, AskOffsetAt, position_from_answer, start_position
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.errors import BrokerError, RmqctlError, UnreachableError
from rmqctl.model.group import CLUSTERING
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol import headers
from rmqctl.protocol.command import Command

from .store import OffsetStore

# The default of DefaultMQPushConsumer.consumeTimestamp.
_SINCE_MS = 30 * 60 * 1000


class Start(Struct, frozen=True):
    """Where a queue starts; `is_chosen` if consume_from decided that, not a stored offset or the broker."""

    offset: int
    is_chosen: bool


class TopicStart(Struct):
    """The queues of a topic before this member joined, and their offsets then, None for none.

    Queues of brokers in `errors` are not in `stored`. `has_members`: the group had other members, whose progress may
    not be stored yet.
    """

    queues: frozenset[MessageQueue]
    stored: dict[MessageQueue, int | None]
    errors: dict[str, RmqctlError]
    has_members: bool

    @property
    def stored_count(self) -> int:
        """Number of queues known to have an offset."""
        return sum(offset is not None for offset in self.stored.values())

    @property
    def is_new(self) -> bool:
        """Whether the group has nothing in the topic, as far as brokers answered."""
        return not self.stored_count and not self.has_members


class StartOffsets:
    """Finds where queues start, as Java's clients do, except for a group that is new to a topic.

    Brokers answer 0 for a queue without an offset whose first message still exists, so that queues that are added
    later lose nothing. They do that for a new group too, and Java's clients then start at 0 whatever they are set to.
    Here consume_from counts, for the queues that a topic had when this member joined, if the group had no offset in any
    of them, and no member.
    """

    def __init__(self, client: Client, settings: ConsumerSettings, offsets: OffsetStore, routes: Routes) -> None:
        self._client = client
        self._settings = settings
        self._offsets = offsets
        self._routes = routes
        self._since_ms = 0
        # By topic.
        self.found: dict[str, TopicStart] = {}
        # Queues of a topic on one broker are taken together, and 4.9 is asked for its whole table each time.
        self._asking: dict[tuple[str, str], asyncio.Future[Mapping[MessageQueue, int | None]]] = {}

    async def look(self, topics: Collection[str], *, has_members: bool) -> None:
        """Look up the offsets of topics, before this member joins. Failures go to `found`."""
        given_ms = self._settings.consume_timestamp_ms
        self._since_ms = self._client.clock.now_ms() - _SINCE_MS if given_ms is None else given_ms
        if self._settings.message_model == CLUSTERING:
            await asyncio.gather(*(self._look(topic, has_members) for topic in topics))

    async def begin(self) -> None:
        """Store the starts of all queues where the group is new, so that it starts there whichever member takes them.

        Of members that start together, the later ones would otherwise find a group that has some offsets.
        """
        new = [found for found in self.found.values() if found.is_new and not found.errors]
        await asyncio.gather(*(self._begin(mq) for found in new for mq in found.queues))

    async def _begin(self, mq: MessageQueue) -> None:
        try:
            start = await self._choose(mq, None)
            await self._offsets.store(mq, start.offset)
        except RmqctlError:
            pass  # the queue is found without an offset when it is taken

    async def _look(self, topic: str, has_members: bool) -> None:
        route = self._routes.route(topic)
        if route is not None:
            self.found[topic] = TopicStart(frozenset(route.readable_queues()), {}, {}, has_members)
            await self._ask(topic, {mq.broker_name for mq in self.found[topic].queues})

    async def _ask(self, topic: str, broker_names: Collection[str]) -> None:
        found = self.found[topic]
        names = sorted(broker_names)
        answers = await asyncio.gather(*(self._stored_at(topic, name) for name in names), return_exceptions=True)
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, RmqctlError):
                found.errors[name] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.errors.pop(name, None)
                found.stored.update(answer)

    async def _stored_at(self, topic: str, broker_name: str) -> Mapping[MessageQueue, int | None]:
        """Return the offsets at a broker now; equal questions at one time are asked once. Raises RmqctlError."""
        key = topic, broker_name
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.ensure_future(self._fetch(topic, broker_name))
            asking.add_done_callback(lambda _: self._asking.pop(key, None))
        return await asyncio.shield(asking)

    async def _fetch(self, topic: str, broker_name: str) -> Mapping[MessageQueue, int | None]:
        broker = next((each for each in self._routes.brokers() if each.broker_name == broker_name), None)
        if broker is None:
            raise UnreachableError(broker_name, "no route has an address of its master")
        queues = sorted(mq for mq in self.found[topic].queues if mq.broker_name == broker_name)
        return await fetch_stored_offsets(self._client, broker, self._settings.group, queues)

    async def _is_new(self, mq: MessageQueue) -> bool:
        """Return whether the group had no offset in the topic when this member joined. Raises RmqctlError if unknown.

        A broker that refuses to say decides by itself, as for Java's clients; one that is gone had no queue to take.
        """
        found = self.found.get(mq.topic)
        if found is None or mq not in found.queues or not found.is_new:
            return False
        gone = found.errors.keys() - {broker.broker_name for broker in self._routes.brokers()}
        unknown = {name for name, error in found.errors.items() if not isinstance(error, BrokerError)} - gone
        if unknown:
            await self._ask(mq.topic, unknown)
        left = [error for name, error in found.errors.items() if name not in gone]
        for error in left:
            if not isinstance(error, BrokerError):
                raise error.reworded(f"It is unknown whether the group has offsets: {error.sentence}")
        return found.is_new and not left

    async def find(self, mq: MessageQueue) -> Start:
        """Return the start. Raises RmqctlError when it cannot be determined; the queue must then not be taken."""
        stored = await self._offsets.fetch(mq)
        if stored == 0 and not self._is_retry(mq) and await self._is_new(mq):
            # Another member may have stored a real 0.
            stored = (await self._stored_at(mq.topic, mq.broker_name)).get(mq)
        return await self._choose(mq, stored)

    def _is_retry(self, mq: MessageQueue) -> bool:
        return mq.topic == RETRY_PREFIX + self._settings.group

    async def _choose(self, mq: MessageQueue, stored: int | None) -> Start:
        is_chosen = stored is None and not self._is_retry(mq)
        start = start_position(
            stored, self._settings.consume_from, is_retry_topic=self._is_retry(mq), since_ms=self._since_ms
        )
        match start:
            case AskMaxOffset():
                start = await self._ask_offset(mq, headers.get_max_offset(mq.topic, mq.queue_id))
            case AskOffsetAt(at_ms):
                start = await self._ask_offset(mq, headers.search_offset(mq.topic, mq.queue_id, at_ms))
        return Start(position_from_answer(start), is_chosen)

    async def nearest(self, mq: MessageQueue, offset: int) -> int:
        """Return the offset of a queue that is nearest to a given one. Raises RmqctlError."""
        first = await self._ask_offset(mq, headers.get_min_offset(mq.topic, mq.queue_id))
        end = await self._ask_offset(mq, headers.get_max_offset(mq.topic, mq.queue_id))
        return min(max(offset, first), end)

    async def at(self, mq: MessageQueue, at_ms: int) -> int:
        """Return the offset of the first message of a queue that was stored at a time, or later. Raises RmqctlError."""
        return position_from_answer(await self._ask_offset(mq, headers.search_offset(mq.topic, mq.queue_id, at_ms)))

    async def _ask_offset(self, mq: MessageQueue, request: Command) -> int:
        address = require_master(self._routes.address(mq.broker_name), mq.broker_name)
        return headers.int_field(await self._client.ask(address, request), "offset")
