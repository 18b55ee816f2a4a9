"""What stands around the parts of a consumer in tests: messages, and those who hear what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from rmqctl.consumer.batch import Batch
from rmqctl.consumer.concurrent_consumption import ConcurrentConsumption
from rmqctl.consumer.count_limit import CountLimit
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.errors import RmqctlError, UnreachableError
from rmqctl.model.consumption import ConsumeResult, ConsumeStatus
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.properties import encode_properties
from rmqctl.protocol.record import encode_record

SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER
MQ = MessageQueue("T", "broker-a", 0)
_HOST = (bytes([127, 0, 0, 1]), 10911)


def message(
    offset: int, body: bytes = b"m", *, topic: str = "T", sys_flag: int = 0, reconsume_times: int = 0, **properties: str
) -> StoredMessage:
    """Return a message as a broker returns it; its place in the log is its offset."""
    encoded = encode_properties(properties).encode()
    return damaged_message(offset, body, topic, sys_flag, encoded, reconsume_times=reconsume_times)


def damaged_message(
    offset: int,
    body: bytes = b"m",
    topic: str = "T",
    sys_flag: int = 0,
    properties: bytes = b"",
    *,
    cut: int = 0,
    reconsume_times: int = 0,
) -> StoredMessage:
    """Return a message whose properties are said to be longer than they are, by `cut` bytes."""
    record = encode_record(
        topic=topic.encode(), queue_id=0, queue_offset=offset, commit_log_offset=offset, flag=0, sys_flag=sys_flag,
        born_at_ms=0, born_host=_HOST, stored_at_ms=0, store_host=_HOST, reconsume_times=reconsume_times,
        prepared_transaction_offset=0, body=body, properties=properties,
    )  # fmt: skip
    if cut:
        record = record[: -2 - len(properties)] + (len(properties) + cut).to_bytes(2, "big") + properties
    return StoredMessage.decode(record)


def messages(*offsets: int) -> list[StoredMessage]:
    """Return a message at each offset."""
    return [message(offset) for offset in offsets]


def offsets(found: Sequence[StoredMessage]) -> list[int]:
    """Return where messages stand."""
    return [each.queue_offset for each in found]


class Broker:
    """Takes messages back, as often as it is told to: `refusals` is how many it refuses first, None for all."""

    def __init__(self, refusals: int | None = 0) -> None:
        self.refusals = refusals
        self.taken: list[tuple[int, int]] = []
        self.asked_count = 0
        # A message waits for this, when it is not set.
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self, message: StoredMessage, level: int, *, broker_name: str | None = None) -> None:
        assert broker_name == "broker-a"
        self.asked_count += 1
        await self.open.wait()
        if self.refusals is None or self.refusals:
            self.refusals = None if self.refusals is None else self.refusals - 1
            raise UnreachableError("broker-a", "it is away")
        self.taken.append((message.queue_offset, level))


class Watching:
    """Hears what a consumption tells."""

    def __init__(self) -> None:
        self.counts: list[tuple[str, int, int]] = []
        self.spent_ms = 0.0
        self.batch_count = 0
        self.results: list[tuple[ConsumeResult, list[int]]] = []
        self.errors: list[BaseException | None] = []
        self.not_taken: list[list[int]] = []
        self.blocked_queues: list[ProcessQueue] = []
        self.suspensions: list[tuple[int, float]] = []
        self.expired_offsets: list[list[int]] = []
        self.labels: dict[ConsumeResult, int] = {}
        self.late_offsets: list[list[int]] = []
        self.bugs: list[tuple[str, BaseException]] = []
        self.given_up_offsets: list[int] = []
        # How many workers hang, each time that all do, and 0 when one came back.
        self.hanging: list[int] = []
        self.has_room = asyncio.Event()

    def consumed(self, topic: str, ok_count: int, failed_count: int, spent_ms: float, batch_count: int = 1) -> None:
        self.batch_count += batch_count
        self.counts.append((topic, ok_count, failed_count))
        self.spent_ms += spent_ms

    def sent_back(self, mq: MessageQueue, message: StoredMessage, level: int) -> None:
        """See ConsumeObserver."""

    def unblocked(self, process_queue: ProcessQueue) -> None:
        """See ConsumeObserver."""

    def failed(self, batch: Batch, failed: Sequence[StoredMessage], result: ConsumeResult) -> None:
        self.results.append((result, offsets(batch.messages)))
        self.errors.append(batch.error)

    def came_back(self, result: ConsumeResult, batch_count: int) -> None:
        self.labels[result] = self.labels.get(result, 0) + batch_count

    def came_late(self, batch: Batch) -> None:
        self.late_offsets.append(offsets(batch.messages))

    def all_hang(self, worker_count: int) -> None:
        self.hanging.append(worker_count)

    def one_is_free(self) -> None:
        self.hanging.append(0)
        self.has_room.set()

    def given_up(self, batch: Batch, message: StoredMessage, error: RmqctlError) -> None:
        self.given_up_offsets.append(message.queue_offset)

    def not_sent_back(self, batch: Batch, error: RmqctlError) -> None:
        self.not_taken.append(offsets(batch.messages))

    def blocked(self, process_queue: ProcessQueue, error: RmqctlError) -> None:
        self.blocked_queues.append(process_queue)

    def suspended(self, batch: Batch, result: ConsumeResult, *, dead_count: int, pause_s: float) -> None:
        self.results.append((result, offsets(batch.messages)))
        self.suspensions.append((dead_count, pause_s))

    def not_buried(self, process_queue: ProcessQueue, error: RmqctlError) -> None:
        self.blocked_queues.append(process_queue)

    def broke(self, what: str, error: BaseException) -> None:
        self.bugs.append((what, error))

    def expired(self, batch: Batch) -> None:
        self.expired_offsets.append(offsets(batch.messages))


class Consuming:
    """A consumption of one queue, on a virtual clock, with what it says; made within an event loop."""

    def __init__(
        self, listener: Callable[[Sequence[StoredMessage], Batch], Any], *, broker: Broker | None = None,
        limit: CountLimit | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        self.clock = VirtualClock()
        self.broker = broker or Broker()
        self.watching = Watching()
        self.queue = ProcessQueue(MQ)
        self.acknowledged: list[int] = []
        self.consumption = ConcurrentConsumption(
            ConsumerSettings(group="G", **settings), listener, self.clock, send_back=self.broker,
            acknowledge=lambda _, offset: self.acknowledged.append(offset), watcher=self.watching, limit=limit,
        )  # fmt: skip

    def put(self, *places: int) -> list[StoredMessage]:
        """Have messages consumed, as a pull does."""
        found = messages(*places)
        self.queue.put(found)
        self.consumption.submit(self.queue, found)
        return found

    async def settle(self, seconds: float = 0.0) -> None:
        """Let that much time pass, and what follows from it happen."""
        await self.clock.advance(seconds)
        await self.clock.await_idle()

    @property
    def left(self) -> list[int]:
        """What is not acknowledged."""
        first = self.queue.first_offset
        return [] if first is None else [first, self.queue.count]
