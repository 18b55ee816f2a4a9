"""A push consumer: a member of a group that pulls its share of the queues and hands messages to a listener.

(DefaultMQPushConsumerImpl.) Everything but plain listeners runs in the event loop that it was started in.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from rmqctl.client.core import Client
from rmqctl.client.fresh_routes import FreshRoutes
from rmqctl.client.producer import Producer
from rmqctl.errors import BrokerError, RmqctlError, UnreachableError
from rmqctl.model.consuming import ConsumeResult, Subscription, Trouble
from rmqctl.model.failure import Failure
from rmqctl.model.group import CLUSTERING
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import pause
from rmqctl.net.own_address import own_address
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.consuming import CLIENT_INNER_PRODUCER
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.allocate import Strategy, class_of_strategy
from rmqctl.rules.client_id import make_client_id
from rmqctl.rules.flow_control import FlowLimits, Hold, decide
from rmqctl.rules.pull_progress import offset_without_messages
from rmqctl.rules.rebalance import BY_PLACE
from rmqctl.rules.subscriptions import retry_subscription
from rmqctl.rules.words import listed

from .batch import Listener
from .broker_time import BrokerTime
from .concurrent import ConcurrentConsumption
from .control import Control
from .counters import Counters
from .local_offsets import LocalOffsets, local_offsets_path
from .loop_watch import LoopWatch
from .membership import Membership
from .offset_store import BrokerOffsets, OffsetStore
from .process_queue import ProcessQueue
from .pulling import Pulled, pull_queue
from .rebalance import Rebalance
from .retried import restore_topics
from .retry_guard import RetryGuard
from .routes import Routes
from .send_back import SendBack
from .settings import ConsumerSettings
from .skipping import Skipping
from .starting import find_start
from .telling import Report, Telling
from .workers import find_fault

# A broker that answers a pull so does not know this client, or what it subscribes to now.
_UNKNOWN_HERE = frozenset(
    {
        ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    }
)  # fmt: skip
_DRAIN_LOOK_S = 0.05


class Unfinished(Struct, frozen=True):
    """Messages of one queue that were delivered, or could have been, and are not acknowledged."""

    mq: MessageQueue
    first_offset: int
    count: int


class PushConsumer:
    """Consumes topics as a member of a group, until it is drained.

    All members must share by the same `strategy`. `skip` is asked of each message before it is consumed, such as
    whether its unique key was seen: what it says True of is acknowledged unread. `report` is told of what goes wrong,
    `on_broken` of an error after which the consumer does not work any more. Of an event loop that hangs, another thread
    tells `report`. Raises TypeError for a listener that can be none.
    """

    def __init__(
        self, client: Client, settings: ConsumerSettings, subscriptions: Sequence[Subscription], listener: Listener,
        strategy: Strategy, *, report: Report = lambda _, __: None, skip: Callable[[StoredMessage], bool] | None = None,
        on_broken: Callable[[BaseException], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.client = client
        self.settings = settings
        self.is_running = False
        self.started_at_ms = 0
        fault = find_fault(listener)
        if fault is not None:
            raise TypeError(f"the listener {listener!r} {fault}")
        self.listener = listener
        self.counters = Counters(client.clock)
        self._suspended_count = 0
        self.client_id = make_client_id(
            own_address(), pid=os.getpid(), nano_time=time.time_ns(), instance_name=settings.instance_name,
            unit_name=settings.unit_name, message_model=settings.message_model,
        )  # fmt: skip
        self._given = tuple(subscriptions)
        self._report = report
        self._on_broken = on_broken
        self.skipped_count = 0
        self._telling = Telling(report, self.counters, settings.message_model)
        self._limits = FlowLimits(
            queue_count=settings.queue_count_limit, queue_mib=settings.queue_mib_limit, span=settings.span_limit,
            topic_count=settings.topic_count_limit, topic_mib=settings.topic_mib_limit,
        )  # fmt: skip
        self._queues: dict[MessageQueue, ProcessQueue] = {}
        self._pulls: dict[MessageQueue, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._fresh_routes = FreshRoutes(client, settings.route_refresh_s)
        self.routes = Routes(self._fresh_routes)
        self.broker_time = BrokerTime(client)
        self.membership = Membership(client, settings, self.client_id, self.routes, self.broker_time)
        self._retry_guard = RetryGuard(client, settings.group, self.client_id, report)
        self.rebalance = Rebalance(
            client, settings, self.membership, self.routes, strategy.allocate, self,
            by_place=strategy.name in BY_PLACE, report=report, on_ids=self._retry_guard.saw,
        )  # fmt: skip
        self._skipping = Skipping(settings, skip, self.broker_time.now_ms, report)
        self.offsets = self._make_store()
        self._consumption: ConcurrentConsumption | None = None
        self._control = Control(strategy=class_of_strategy(strategy.name), report=partial(report, Trouble.RESET))
        self._is_draining = False
        # Offsets that could not be stored at the end.
        self.unstored: Sequence[Failure] = ()
        self._loop_watch: LoopWatch | None = None

    def _make_store(self) -> OffsetStore:
        if self.settings.message_model == CLUSTERING:
            return BrokerOffsets(self.client, self.settings.group, lambda mq: self.routes.address(mq.broker_name))
        return LocalOffsets(local_offsets_path(self.client_id, self.settings.group))

    # Life

    async def start(self) -> None:
        """Join the group and begin. Raises NotFoundError for topics without a route, and why no broker took it."""
        topics = [each.topic for each in self._given]
        await self.routes.refresh(topics)
        if not self.routes.brokers():
            nowhere = UnreachableError(listed(topics), "the name server knows no broker of it")
            raise next(iter(self.routes.errors.values()), nowhere)
        for topic, error in self.routes.errors.items():
            self._report(Trouble.ROUTE, f"{topic} is not consumed yet: {error.sentence}")
        await self.broker_time.measure(self.routes.brokers())
        for each in self._given:
            self.membership.subscribe(each)
        if self.settings.message_model == CLUSTERING:
            self.membership.subscribe(retry_subscription(self.settings.group))
        await self.membership.beat()
        heard = self.membership.heard()
        errors = [each.error for each in heard if each.error is not None]
        if errors and len(errors) == len(heard):
            raise errors[0]
        producer = Producer(self.client, CLIENT_INNER_PRODUCER, routes=self._fresh_routes)
        send_back = SendBack(
            self.client, self.settings.group, producer, max_reconsume_times=self.settings.max_reconsume_times,
            timeout_s=self.settings.send_back_timeout_s, fallback_timeout_s=self.settings.fallback_timeout_s,
            guard=self._retry_guard,
        )  # fmt: skip
        self._consumption = ConcurrentConsumption(
            self.settings, self.listener, self.client.clock, send_back=send_back, acknowledge=self._acknowledge,
            watcher=self._telling,
        )  # fmt: skip
        self.started_at_ms = self.client.clock.now_ms()
        self._control.attach(self)
        self.client.handlers.update(self._control.handlers)
        self.is_running = True
        self._loop_watch = LoopWatch(self.settings.loop_watch_s, self._report)
        self._tasks = [
            asyncio.ensure_future(self.membership.run()), asyncio.ensure_future(self.rebalance.run()),
            asyncio.ensure_future(self._persist_now_and_then()),
        ]  # fmt: skip
        for task in self._tasks:
            task.add_done_callback(self._on_ended)

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        """Let nobody believe that it goes on when a part of it has ended by a mistake of ours."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_broken(error)

    async def drain(self, limit_s: float) -> list[Unfinished]:
        """Pull no more, let what was pulled be consumed, store the offsets, leave the group; return what was not done.

        Cancelled, it leaves at once with what is done by then; unfinished() tells the rest.
        """
        self._is_draining = True
        try:
            await self._stop(self._pulls.values())
            until_s = self.client.clock.monotonic_s() + limit_s
            while not self.is_idle and self.client.clock.monotonic_s() < until_s:
                await pause(self.client.clock, _DRAIN_LOOK_S)
        finally:
            await self._leave()
        return self.unfinished()

    @property
    def is_idle(self) -> bool:
        """Whether no message is being consumed, waits for that, or is being sent back."""
        return self._consumption is None or self._consumption.is_idle

    async def _leave(self) -> None:
        self.is_running = False
        if self._loop_watch is not None:
            self._loop_watch.close()
        await self._control.aclose()
        await self._stop(self._tasks)
        # Before the offsets are stored: what was sent back after that would be delivered by the offsets as well.
        if self._consumption is not None:
            await self._consumption.aclose()
        self.unstored = await self.offsets.persist()
        self._tell_failures(self.unstored)
        await self.membership.leave()

    @staticmethod
    async def _stop(tasks: Iterable[asyncio.Task[None]]) -> None:
        running = list(tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    @property
    def ok_count(self) -> int:
        """How many messages were consumed."""
        return self._telling.ok_count

    @property
    def results(self) -> Mapping[ConsumeResult, int]:
        """How many batches came back from the listener, by the label that each got, also those that came too late."""
        return self._telling.results

    @property
    def failed_count(self) -> int:
        """How many messages failed, each time that they did."""
        return self._telling.failed_count

    def subscribe(self, subscription: Subscription) -> None:
        """Consume another topic as well, or one in another way than before. All members of a group must do so."""
        self.membership.subscribe(subscription)
        self.membership.beat_soon()
        self.rebalance.wake()

    def unsubscribe(self, topic: str) -> None:
        """Consume a topic no more; its queues are given up with the next rebalance."""
        self.membership.unsubscribe(topic)
        self.membership.beat_soon()
        self.rebalance.wake()

    def set_consume_timeout(self, seconds: float) -> None:
        """Change how long a batch may take, also of those that are being consumed."""
        if self._consumption is not None:
            self._consumption.expiry.set_timeout(seconds)

    def unfinished(self) -> list[Unfinished]:
        """Return what was pulled and is not acknowledged, by queue."""
        return [
            Unfinished(mq, queue.first_offset, queue.count)
            for mq, queue in sorted(self._queues.items())
            if queue.first_offset is not None
        ]

    # What Control asks of the consumer

    def subscriptions(self) -> Mapping[str, Subscription]:
        """See control.Controlled."""
        return self.membership.subscriptions()

    def process_queues(self) -> Mapping[MessageQueue, ProcessQueue]:
        """See control.Controlled."""
        return self._queues

    def taken_at_ms(self, mq: MessageQueue) -> int:
        """See control.Controlled."""
        return self._queues[mq].taken_at_ms

    def suspend(self) -> None:
        """Pull nothing until resume() was called as often as this."""
        self._suspended_count += 1

    def resume(self) -> None:
        """Undo one suspend()."""
        self._suspended_count -= 1

    @property
    def is_paused(self) -> bool:
        """Whether nothing is pulled, by suspend()."""
        return self._suspended_count > 0

    def rebalance_soon(self) -> None:
        """See control.Controlled."""
        self.rebalance.wake()

    def _tell_failures(self, failures: Iterable[Failure]) -> None:
        for failure in failures:
            at = f" at {failure.broker_name}" if failure.broker_name is not None else ""
            self._report(Trouble.STORE, f"Not stored{at}: {failure.what}: {failure.error.sentence}")

    async def _persist_now_and_then(self) -> None:
        await pause(self.client.clock, self.settings.first_persist_s)
        while True:
            began_s = self.client.clock.monotonic_s()
            self._tell_failures(await self.offsets.persist())
            # What one broker takes to fail does not make the offsets of the others older.
            spent_s = self.client.clock.monotonic_s() - began_s
            await pause(self.client.clock, max(0.0, self.settings.persist_s - spent_s))

    # What Rebalance asks of its owner

    def held(self) -> Mapping[MessageQueue, int]:
        """See rebalance.Owner."""
        return {mq: queue.last_pull_at_ms for mq, queue in self._queues.items()}

    async def take(self, mq: MessageQueue) -> bool:
        """See rebalance.Owner."""
        if not self._may_take(mq):
            return False
        self.offsets.forget(mq)
        offset = await find_start(
            self.client, self.settings, self.offsets, mq, address=self.routes.address(mq.broker_name),
            started_at_ms=self.started_at_ms,
        )  # fmt: skip
        if not self._may_take(mq):
            return False
        queue = ProcessQueue(mq, now_ms=self.client.clock.now_ms())
        self._queues[mq] = queue
        self._pulls[mq] = asyncio.create_task(self._pull(queue, offset), name=f"PullMessage {mq}")
        return True

    def _may_take(self, mq: MessageQueue) -> bool:
        return mq not in self._queues and not self._is_draining

    async def _pull(self, queue: ProcessQueue, offset: int) -> None:
        await pause(self.client.clock, self.settings.first_pull_delay_s)
        await pull_queue(self, queue, offset)

    async def drop(self, mq: MessageQueue) -> bool:
        """See rebalance.Owner."""
        queue = self._queues.get(mq)
        if queue is None:
            return True
        queue.drop()
        pulling = self._pulls.pop(mq, None)
        if pulling is not None:
            await self._stop([pulling])
        self._tell_failures(await self.offsets.persist([mq]))
        self._queues.pop(mq, None)
        self.offsets.forget(mq)
        return True

    # What pull_queue() asks of its owner

    def subscription(self, topic: str) -> Subscription | None:
        """See pulling.Owner."""
        return self.membership.subscription(topic)

    def address(self, mq: MessageQueue, broker_id: int) -> str | None:
        """See pulling.Owner."""
        return self.routes.address(mq.broker_name, broker_id) or self.routes.address(mq.broker_name)

    def hold(self, process_queue: ProcessQueue) -> Hold | None:
        """See pulling.Owner."""
        hold = decide(
            self._limits, held_queue_count=len(self._queues), count=process_queue.count,
            size_bytes=process_queue.size_bytes, span=process_queue.span, is_blocked=process_queue.is_blocked,
        )  # fmt: skip
        if hold is not None:
            self.counters.held(hold)
        return hold

    def committed(self, mq: MessageQueue) -> int | None:
        """See pulling.Owner."""
        return self.offsets.read(mq)

    def pulled(self, process_queue: ProcessQueue, pulled: Pulled) -> None:
        """See pulling.Owner."""
        messages = pulled.messages
        for fault in pulled.faults:
            self._report(Trouble.UNREADABLE, f"{process_queue.mq}:{fault}")
        back_to = min(pulled.next_offset, *(message.queue_offset for message in messages[:1]), pulled.asked_offset)
        if back_to < pulled.asked_offset:
            self._report(
                Trouble.OFFSET, f"{process_queue.mq}: the broker goes back to {back_to} from {pulled.asked_offset}."
            )
        if not messages:
            offset = offset_without_messages(pulled.next_offset, cached_count=process_queue.count)
            if offset is not None:
                self._acknowledge(process_queue.mq, offset)
            return
        self.counters.pulled(process_queue.mq.topic, len(messages), pulled.spent_ms)
        if process_queue.mq.topic.startswith(RETRY_PREFIX):
            messages = restore_topics(messages)
        process_queue.put(messages)
        wanted = self._without_skipped(process_queue, messages, pulled.max_offset)
        if wanted and self._consumption is not None:
            self._consumption.submit(process_queue, wanted)

    def _without_skipped(
        self, process_queue: ProcessQueue, messages: Sequence[StoredMessage], max_offset: int | None
    ) -> Sequence[StoredMessage]:
        """Acknowledge unread what is not wanted, and return the rest."""
        unwanted = self._skipping.find_unwanted(messages, max_offset) if self._skipping.is_needed else []
        if not unwanted:
            return messages
        self.skipped_count += len(unwanted)
        offset = process_queue.remove(unwanted)
        if offset is not None:
            self._acknowledge(process_queue.mq, offset)
        gone = set(unwanted)
        return [message for message in messages if message not in gone]

    async def is_still_ours(self, process_queue: ProcessQueue, next_offset: int) -> bool:
        """See pulling.Owner. What the broker has stored beyond our own offset, another member has."""
        mq = process_queue.mq
        if self.settings.message_model != CLUSTERING:
            return True
        stored = await self.offsets.fetch(mq)
        known = self.offsets.read(mq)
        if known is None:
            known = next_offset if process_queue.first_offset is None else process_queue.first_offset
        if stored is None or stored <= known or process_queue.dropped:
            return True
        self._report(Trouble.OFFSET, f"{mq}: another member has gone on from {known} to {stored}; it is taken anew.")
        process_queue.drop()
        self._pulls.pop(mq, None)
        self._queues.pop(mq, None)
        self.offsets.forget(mq)
        self.rebalance.wake()
        return False

    async def illegal_offset(self, process_queue: ProcessQueue, next_offset: int) -> None:
        """See pulling.Owner. The queue stays held, though dropped, until that is stored: nobody takes it meanwhile."""
        mq = process_queue.mq
        process_queue.drop()
        self._report(
            Trouble.OFFSET, f"{mq}: the broker does not have the offset that was asked for, and says {next_offset}."
        )
        await pause(self.client.clock, self.settings.illegal_offset_s)
        self.offsets.update(mq, next_offset, increase_only=False)
        self._tell_failures(await self.offsets.persist([mq]))
        self._pulls.pop(mq, None)
        self._queues.pop(mq, None)
        self.offsets.forget(mq)
        self.rebalance.wake()

    async def pull_failed(self, mq: MessageQueue, error: RmqctlError) -> None:
        """See pulling.Owner."""
        self._report(Trouble.PULL, f"{mq} can't be pulled: {error.sentence}")
        if isinstance(error, UnreachableError) or (isinstance(error, BrokerError) and error.code in _UNKNOWN_HERE):
            await self.membership.tell(mq.broker_name)

    def _acknowledge(self, mq: MessageQueue, offset: int) -> None:
        self.offsets.update(mq, offset, increase_only=True)
