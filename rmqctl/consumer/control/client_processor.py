"""Requests of brokers to a consumer: rebalance, reset offsets, report its state (ClientRemotingProcessor)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Mapping
from typing import Any, Protocol

from rmqctl.client.core import Client
from rmqctl.client.link import Handler
from rmqctl.consumer.batch import AnyListener
from rmqctl.consumer.counters import Counters
from rmqctl.consumer.offsets.store import OffsetStore
from rmqctl.consumer.orderly_line import QueueLine
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.consumer.stacks import stacks
from rmqctl.errors import RmqctlError
from rmqctl.model.group import Subscription
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import pause
from rmqctl.net.tasks import start_task, stop_tasks
from rmqctl.protocol import bodies
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.java_dumps import dumps
from rmqctl.rules.head_notes import Head

from .direct_consumption import consume_directly, make_batch
from .running_info import ConsumerState, HeldQueue, encode_running_info

# The pause between dropping the queues and setting their offsets (MQClientInstance.resetOffset).
RESET_WAIT_S = 10.0
_SURE_LOOK_S = 0.1


class ControlledConsumer(Protocol):
    """The consumer, as its control needs it."""

    client: Client
    settings: ConsumerSettings
    client_id: str
    listener: AnyListener
    offsets: OffsetStore
    counters: Counters

    @property
    def started_at_ms(self) -> int:
        """When the consumer joined, epoch ms."""

    def subscriptions(self) -> Mapping[str, Subscription]:
        """Return the subscriptions, by topic."""

    def process_queues(self) -> Mapping[MessageQueue, ProcessQueue]:
        """Return the held queues."""

    def heads(self) -> Mapping[MessageQueue, Head]:
        """Return the first message in flight of each queue whose listener is processing it now."""

    def look(self) -> None:
        """Find out whether this process has just been stopped: its queues are then held back until they are checked."""

    def suspend(self) -> None:
        """Stop pulling until unsuspend() has been called as often as this method."""

    def unsuspend(self) -> None:
        """Undo one suspend()."""

    def line(self, mq: MessageQueue) -> QueueLine | None:
        """Return how far a queue of an orderly consumer is; None for a concurrent one."""

    async def drop(self, mq: MessageQueue) -> bool:
        """Store the offset of a queue that is in memory, and give up the queue."""

    def rebalance_soon(self) -> None:
        """Rebalance as soon as allowed."""

    def forget_duplicates(self, mq: MessageQueue) -> None:
        """Have messages of a queue consumed again, because its offset was moved back."""


class ClientProcessor:
    """Answers brokers for a consumer. Give `handlers` to its Client, and call `attach()` once the consumer exists.

    `strategy` is the name of the strategy. Resets run one after the other, each for at least `reset_wait_s`. `report`
    receives a sentence about the result of each.
    """

    def __init__(
        self, *, strategy: str, reset_wait_s: float = RESET_WAIT_S, report: Callable[[str], None] = lambda _: None
    ) -> None:
        self._strategy = strategy
        self._reset_wait_s = reset_wait_s
        self._report = report
        self._consumer: ControlledConsumer | None = None
        self._resetting = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.handlers: Mapping[int, Handler] = {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._notified,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._tell_offsets,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._tell_running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume,
        }

    def attach(self, consumer: ControlledConsumer) -> None:
        """Answer for this consumer from now on, until aclose()."""
        self._consumer = consumer

    async def aclose(self) -> None:
        """Stop running work: queues of a running reset keep their old offsets."""
        self._consumer = None
        await stop_tasks(self._tasks)

    def _speaker(self, command: Command, field: str) -> ControlledConsumer | None:
        """Return the consumer if it belongs to the group of the request, else None."""
        consumer = self._consumer
        is_meant = consumer is not None and command.ext_fields.get(field) == consumer.settings.group
        return consumer if is_meant else None

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start work that continues even if the connection ends, which cancels the handler."""
        return start_task(work, self._tasks)

    async def _notified(self, _: str, __: Command) -> None:
        """NOTIFY_CONSUMER_IDS_CHANGED, for any group, as in Java."""
        if self._consumer is not None:
            self._consumer.rebalance_soon()

    async def _reset(self, address: str, command: Command) -> None:
        """RESET_CONSUMER_CLIENT_OFFSET, which is never answered."""
        consumer = self._speaker(command, "group")
        if consumer is None:
            return
        topic = command.ext_fields.get("topic", "")
        try:
            table = bodies.decode_pushed_reset(command.body) if command.body else {}
        except RmqctlError as error:
            self._report(f"A reset of {topic} from {address} is ignored: {error.sentence}")
            return
        targets = {mq: offset for mq, offset in table.items() if mq.topic == topic}
        self._start(self._carry_out(consumer, topic, targets))

    async def _carry_out(self, consumer: ControlledConsumer, topic: str, targets: Mapping[MessageQueue, int]) -> None:
        """Reset offsets in the order of MQClientInstance.resetOffset, which pauses all topics meanwhile."""

        def held() -> list[MessageQueue]:
            """Return the queues that are held now: the broker pushes the queues of all members to each."""
            return [mq for mq in consumer.process_queues() if mq in targets]

        async with self._resetting:
            consumer.suspend()
            try:
                lost = await _find_lost(consumer, targets)
                for mq in held():
                    consumer.process_queues()[mq].drop()
                await pause(consumer.client.clock, self._reset_wait_s)
                mine = [mq for mq in held() if mq not in lost]
                for mq in mine:
                    consumer.forget_duplicates(mq)
                    consumer.process_queues()[mq].drop()
                    consumer.offsets.update(mq, targets[mq], increase_only=False)
                for failure in await consumer.offsets.persist(mine):
                    self._report(f"A reset of {topic} was not stored: {failure.what}: {failure.error.sentence}")
                await asyncio.gather(*(self._let_go(consumer, mq) for mq in mine))
            finally:
                consumer.unsuspend()
                consumer.rebalance_soon()
        done = ", ".join(f"{mq.broker_name}:{mq.queue_id} to {targets[mq]}" for mq in sorted(mine))
        self._report(f"A broker reset {topic}: {done or 'this member holds none of the queues'}.")

    async def _let_go(self, consumer: ControlledConsumer, mq: MessageQueue) -> None:
        try:
            is_dropped = await consumer.drop(mq)
        except RmqctlError as error:
            self._report(f"Cannot give up {mq} after its reset: {error.sentence}")
        else:
            if not is_dropped:
                self._report(f"Cannot give up {mq} yet after its reset.")

    async def _tell_offsets(self, _: str, command: Command) -> Command:
        """GET_CONSUMER_STATUS_FROM_CLIENT: return positions; none for another group, as in Java."""
        consumer, topic = self._speaker(command, "group"), command.ext_fields.get("topic", "")
        offsets = {} if consumer is None else _positions(consumer) | consumer.offsets.snapshot()
        table = {mq: offset for mq, offset in offsets.items() if not topic.strip() or mq.topic == topic}
        return Command(ResponseCode.SUCCESS, body=dumps({"consumerTable": {}, "messageQueueTable": table}))

    async def _tell_running_info(self, _: str, command: Command) -> Command:
        """GET_CONSUMER_RUNNING_INFO: return the state of the consumer."""
        consumer = self._speaker(command, "consumerGroup")
        if consumer is None:
            return _not_here(command)
        queues, topics = consumer.process_queues(), consumer.subscriptions()
        running = ConsumerState(
            settings=consumer.settings,
            client_id=consumer.client_id,
            started_at_ms=consumer.started_at_ms,
            name_servers=consumer.client.name_servers,
            strategy=self._strategy,
            listener=_name_of(consumer.listener),
            subscriptions=topics.values(),
            queues={mq: self._held(consumer, queues[mq], at) for mq, at in _positions(consumer).items()},
            statuses={topic: consumer.counters.status(topic) for topic in topics},
            holds=consumer.counters.holds,
            heads=consumer.heads(),
            stacks=stacks() if command.ext_fields.get("jstackEnable") == "true" else None,
        )
        return Command(ResponseCode.SUCCESS, body=encode_running_info(running))

    def _held(self, consumer: ControlledConsumer, queue: ProcessQueue, position: int) -> HeldQueue:
        now_s = consumer.client.clock.monotonic_s()
        return HeldQueue(queue, position, is_locked=queue.is_locked(now_s), line=consumer.line(queue.mq))

    async def _consume(self, _: str, command: Command) -> Command:
        """CONSUME_MESSAGE_DIRECTLY: the listener runs to its end, although the broker waits for only 10 s."""
        consumer = self._speaker(command, "consumerGroup")
        if consumer is None:
            return _not_here(command)
        batch = make_batch(consumer.settings, command.ext_fields.get("brokerName", ""), command.body)
        consuming = self._start(consume_directly(consumer.listener, consumer.client.clock, batch))
        return Command(ResponseCode.SUCCESS, body=dumps(await asyncio.shield(consuming)))


async def _find_lost(consumer: ControlledConsumer, mqs: Container[MessageQueue]) -> set[MessageQueue]:
    """Return the queues that another member consumed while this process was stopped: an older reset is not theirs."""
    consumer.look()
    queues = {mq: queue for mq, queue in consumer.process_queues().items() if mq in mqs}
    while any(queue.is_on_hold and not queue.dropped for queue in queues.values()):
        await pause(consumer.client.clock, _SURE_LOOK_S)
    return {mq for mq, queue in queues.items() if consumer.process_queues().get(mq) is not queue}


def _positions(consumer: ControlledConsumer) -> dict[MessageQueue, int]:
    """Return the position of each held queue: the offset in memory, or where the queue was taken up.

    It must not be read from the broker: from 5.0 on, that answers the target of a reset before the member moves there.
    """
    read = consumer.offsets.read
    return {
        mq: queue.start_offset if (offset := read(mq)) is None else offset
        for mq, queue in consumer.process_queues().items()
    }


def _not_here(command: Command) -> Command:
    group = command.ext_fields.get("consumerGroup")
    return Command(ResponseCode.SYSTEM_ERROR, remark=f"The Consumer Group <{group}> not exist in this consumer")


def _name_of(listener: AnyListener) -> str:
    named = listener if hasattr(listener, "__qualname__") else type(listener)
    return f"{named.__module__}.{named.__qualname__}"
