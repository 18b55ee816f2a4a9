"""Divides messages among requests and queues."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.queue import MessageQueue

from .ledger import LedgerRow
from .requests import ReplayChunk, ReplayItem, ReplayRequest, make_chunks
from .source import DeadLetter
from .targets import TargetQueues


class Placement(Struct):
    """Lanes of requests: those of a lane are sent one after the other, lanes concurrently; `firsts` before `others`.

    `left` are the items that no queue accepts, `errors` say why.
    """

    firsts: list[list[ReplayRequest]] = field(default_factory=list)
    others: list[list[ReplayRequest]] = field(default_factory=list)
    left: list[ReplayItem] = field(default_factory=list)
    errors: list[RmqctlError] = field(default_factory=list)

    def rows(self) -> list[LedgerRow]:
        """Return the ledger rows of all requests."""
        return [row for lane in (*self.firsts, *self.others) for request in lane for row in request.rows]


class Placer:
    """Chooses a queue for each request: the next one, or the queue of the messages' sharding key.

    `proven` are topics and brokers that have stored a message. 4.9 does not check the right to send batches
    (PlainAccessResource.parse): if a broker has stored nothing for a topic yet, one message is sent alone.
    """

    def __init__(self, client: Client, targets: TargetQueues) -> None:
        self.proven: set[tuple[str, str]] = set()
        self._client = client
        self._targets = targets
        self._placed_count = 0  # each request is sent to the next queue

    async def place(self, items: Sequence[ReplayItem]) -> Placement:
        """Divide items among requests and queues."""
        by_topic: dict[str, list[ReplayItem]] = {}
        for item in items:
            by_topic.setdefault(item.topic, []).append(item)
        placed = Placement()
        for topic, part in by_topic.items():
            try:
                queues = await self._targets.queues(topic)
            except RmqctlError as error:
                placed.errors.append(error)
                placed.left += part
                continue
            self._place_free(placed, topic, [item for item in part if item.lane is None], queues)
            await self._place_keyed(placed, [item for item in part if item.lane is not None])
        return placed

    def row(self, letter: DeadLetter, mq: MessageQueue, from_offset: int) -> LedgerRow:
        """Return the ledger row of a dead letter."""
        return LedgerRow(
            letter.broker_name, letter.queue_id, letter.queue_offset, letter.message_id, letter.mark, *mq,
            self._client.clock.now_ms(), from_offset,
        )  # fmt: skip

    def _place_free(
        self, placed: Placement, topic: str, items: Sequence[ReplayItem], queues: Sequence[tuple[MessageQueue, str]]
    ) -> None:
        firsts: dict[tuple[str, str], ReplayRequest] = {}
        for chunk in make_chunks(topic, items):
            self._placed_count += 1
            request = self._request(*queues[self._placed_count % len(queues)], chunk)
            if chunk.parts is not None and request.place not in self.proven | firsts.keys():
                firsts[request.place], request = request.split_first()
            placed.others.append([request])
        placed.firsts += ([first] for first in firsts.values())

    async def _place_keyed(self, placed: Placement, items: Sequence[ReplayItem]) -> None:
        """Make a lane for each sharding key. Its messages are sent one by one: a batch could be refused for another."""
        lanes: dict[tuple[str, str], list[ReplayItem]] = {}
        for item in items:
            if item.lane is not None:
                lanes.setdefault(item.lane, []).append(item)
        for (topic, key), part in lanes.items():
            try:
                mq, address = await self._targets.queue_of_key(topic, key)
            except RmqctlError as error:
                placed.errors.append(error)
                placed.left += part
                continue
            placed.others.append([self._request(mq, address, ReplayChunk([item])) for item in part])

    def _request(self, mq: MessageQueue, address: str, chunk: ReplayChunk) -> ReplayRequest:
        end = self._targets.ends[mq]
        return ReplayRequest(mq, address, chunk, [self.row(item.letter, mq, end) for item in chunk.items])
