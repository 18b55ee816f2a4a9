"""The parts of a push consumer: a member of a group that pulls its share of the queues and passes on their messages.

(DefaultMQPushConsumerImpl.) Everything but plain listeners runs in the event loop that it was started in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from rmqctl.client.core import Client
from rmqctl.client.fresh_routes import FreshRoutes
from rmqctl.consumer.rules.rebalance import BY_PLACE
from rmqctl.consumer.rules.subscriptions import retry_subscription
from rmqctl.errors import RefusedError, UnreachableError, UsageError
from rmqctl.model.consumption import ConsumerCounts, ConsumerWarning
from rmqctl.model.failure import Failure
from rmqctl.model.group import CLUSTERING, Subscription
from rmqctl.model.names import require_new_name
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import pause
from rmqctl.net.tasks import run_again, stop_tasks
from rmqctl.producer.producer import Producer
from rmqctl.protocol.consumer_requests import CLIENT_INNER_PRODUCER
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.allocate import Strategy, class_of_strategy
from rmqctl.rules.head_notes import Head
from rmqctl.text.words import listed

from .assigned_queues import AssignedQueues
from .batch import AnyListener
from .broker_time import BrokerTime
from .concurrent_consumption import ConcurrentConsumption
from .control.client_processor import ClientProcessor
from .count_limit import CountLimit
from .counters import Counters
from .guards.group_order import GroupOrder
from .guards.retry_guard import RetryGuard
from .health import ConsumerHealth, look_at
from .loop_watch import LoopWatch
from .membership import Membership, own_client_id
from .offsets.local import LocalOffsets, local_offsets_path
from .offsets.store import BrokerOffsets, OffsetStore
from .orderly_consumption import OrderlyConsumption
from .orderly_line import QueueLine
from .process_queue import ProcessQueue, UnackedMessages
from .queue_locks import BrokerLocks, NoLocks
from .rebalance import Rebalance
from .rebalance_listener import RebalanceListener
from .reports.consume_reporter import ConsumeReporter
from .reports.problems import Problems, Tell
from .routes import Routes
from .send_back import SendBackRequests
from .settings import ConsumerSettings, valid_settings
from .skipping.message_skipper import MessageSkipper
from .workers import find_fault

_DRAIN_LOOK_S = 0.05


class ConsumerCore:
    """Consumes topics as a member of a group, from start() until drain(). PushConsumer is the library's face of it.

    All members must use the same `strategy`. `skip` is called for each message before it is consumed, for example to
    check whether its unique key was seen; a message for which it returns True is acknowledged unread. `report` receives
    each Problem when it begins, once a minute while it lasts, and when it is over; another thread calls it for a
    blocked event loop. With a `limit`, only some messages are consumed.
    Raises UsageError for invalid settings, an invalid listener, and a client with a deadline.
    """

    def __init__(
        self, client: Client, settings: ConsumerSettings, subscriptions: Sequence[Subscription],
        listener: AnyListener, strategy: Strategy, *, report: Tell = lambda _: None,
        skip: Callable[[StoredMessage], bool] | None = None, limit: CountLimit | None = None,
        rebalance_listener: RebalanceListener | None = None,
    ) -> None:  # fmt: skip
        settings = valid_settings(settings)
        require_new_name(settings.group)
        fault = find_fault(listener)
        if fault is not None:
            raise UsageError(f"The listener {listener!r} {fault}.")
        if not client.deadline.is_open_ended:
            raise UsageError(f"The client has a deadline ({client.deadline.seconds:g} s).", hint="Use open_ended=True.")
        self.client = client
        self.settings = settings
        self.listener = listener
        self.counters = Counters(client.clock)
        self.problems = problems = Problems(report, client.clock)
        self.client_id = own_client_id(settings)
        self._given = tuple(subscriptions)
        self._limit = limit
        self._telling = ConsumeReporter(problems, self.counters, settings)
        self._tasks: list[asyncio.Task[None]] = []
        self._has_joined = self._has_left = False
        self._fresh_routes = FreshRoutes(client, settings.route_refresh_s)
        self.routes = Routes(self._fresh_routes)
        self.broker_time = BrokerTime(client)
        self.membership = Membership(
            client, settings, self.client_id, self.routes, self.broker_time, problems=problems
        )  # fmt: skip
        is_locking = settings.is_orderly and settings.message_model == CLUSTERING
        self.locks = (
            BrokerLocks(client, settings, self.client_id, address_of=self.routes.address, problems=problems)
            if is_locking
            else NoLocks()
        )
        self._retry_guard = RetryGuard(client, settings.group, self.client_id, problems)
        self._order = GroupOrder(client, settings, self.client_id, self.routes, problems)
        self.offsets = self._make_store()
        self.holding = AssignedQueues(
            client, settings, routes=self.routes, membership=self.membership, offsets=self.offsets,
            counters=self.counters, skipping=MessageSkipper(settings, skip, self.broker_time.now_ms, problems),
            problems=problems, locks=self.locks, broke=self._telling.broke, listener=rebalance_listener,
        )  # fmt: skip
        self.rebalance = Rebalance(
            client, settings, self.membership, self.routes, strategy.allocate, self.holding,
            by_place=strategy.name in BY_PLACE, problems=problems, on_ids=self._saw_members,
        )  # fmt: skip
        self.holding.on_lost = self.rebalance.wake
        self.holding.rebalanced = self.rebalance.next_round
        self._consumption: ConcurrentConsumption | OrderlyConsumption | None = None
        self._control = ClientProcessor(
            strategy=class_of_strategy(strategy.name), report=partial(problems, ConsumerWarning.RESET)
        )
        # Offsets that could not be stored at the end.
        self.unstored: Sequence[Failure] = ()
        self._loop_watch: LoopWatch | None = None

    def _make_store(self) -> OffsetStore:
        if self.settings.message_model == CLUSTERING:
            return BrokerOffsets(self.client, self.settings.group, lambda mq: self.routes.address(mq.broker_name))
        return LocalOffsets(local_offsets_path(self.client_id, self.settings.group))

    def _saw_members(self, broker_name: str, client_ids: Collection[str]) -> None:
        self._retry_guard.saw(broker_name, client_ids)
        self._order.saw(client_ids)

    # Life

    async def start(self, *, force: bool = False) -> None:
        """Join the group and start. Raises NotFoundError for topics without a route, or a broker error if all fail.

        Raises RefusedError if a member has the same client id, because both would get the same queues, and if members
        consume in the other way (orderly or concurrently); not with `force`. Raises it also if the client is closed or
        has a consumer of the group, and for a second start.
        """
        if self._has_joined:
            raise RefusedError(f"The consumer of {self.settings.group} was started before.", hint="Create another one.")
        if self.client.is_closed:
            raise RefusedError("The client is closed.", hint="Create another one.")
        self.client.server_requests.join(
            self.settings.group, self._control.handlers, self.membership.connected, self.locks.disconnected
        )
        self._has_joined = True
        try:
            await self._join(force=force)
        except BaseException:
            await self._leave()
            raise

    async def _join(self, *, force: bool) -> None:
        topics = [each.topic for each in self._given]
        await self.routes.refresh(topics)
        if not self.routes.brokers():
            nowhere = UnreachableError(listed(topics), "the name server has no broker of it")
            raise next(iter(self.routes.errors.values()), nowhere)
        for topic, error in self.routes.errors.items():
            self.problems(ConsumerWarning.ROUTE, f"{topic} is not consumed yet: {error.sentence}", topic)
        await self.broker_time.measure(self.routes.brokers())
        for each in self._given:
            self.membership.subscribe(each)
        if self.settings.message_model == CLUSTERING:
            self.membership.subscribe(retry_subscription(self.settings.group))
        members = await self.membership.find_members()
        if self.client_id in members and not force:
            raise RefusedError(
                f"{self.settings.group} already has a member {self.client_id}.",
                hint="Use another --instance. A member that was cut off disappears after 2 minutes; or add --force.",
            )
        if self.settings.message_model == CLUSTERING:
            await self._order.check(members, force=force)
        await self.holding.starts.look(topics, has_members=bool(members))
        await self.membership.beat()
        heard = self.membership.heard()
        errors = [each.error for each in heard if each.error is not None]
        if errors and len(errors) == len(heard):
            raise errors[0]
        await self.holding.starts.begin()
        producer = Producer(self.client, CLIENT_INNER_PRODUCER, routes=self._fresh_routes)
        send_back = SendBackRequests(
            self.client, self.settings.group, producer, max_reconsume_times=self.settings.retry_count_limit,
            timeout_s=self.settings.send_back_timeout_s, fallback_timeout_s=self.settings.fallback_timeout_s,
            guard=None if self.settings.is_orderly else self._retry_guard,
        )  # fmt: skip
        kind = OrderlyConsumption if self.settings.is_orderly else ConcurrentConsumption
        self._consumption = self.holding.consumption = kind(
            self.settings, self.listener, self.client.clock, send_back=send_back, acknowledge=self.holding.acknowledge,
            watcher=self._telling, is_stalled=self.holding.stand_still.is_over, limit=self._limit,
            on_success=self._succeeded,
        )  # fmt: skip
        self.holding.started_at_ms = self.client.clock.now_ms()
        self._control.attach(self)
        self.holding.is_running = True
        self._loop_watch = LoopWatch(self.settings.loop_watch_s, self.problems)
        self.holding.stand_still.start()
        works = {
            "Heartbeats": self.membership.run, "The rebalance": self.rebalance.run,
            "Storing offsets": self._persist_now_and_then, "Asking members": self._order.run,
            "Reports": self.problems.run,
        }  # fmt: skip
        if isinstance(self.locks, BrokerLocks):
            works["Renewing locks"] = self.locks.run
        self._tasks = [
            asyncio.ensure_future(
                run_again(
                    work,
                    clock=self.client.clock,
                    rest_s=self.settings.error_delay_s,
                    on_error=partial(self._telling.broke, what),
                )
            )
            for what, work in works.items()
        ]

    def _succeeded(self, mq: MessageQueue, messages: Sequence[StoredMessage]) -> None:
        self.holding.skipping.succeeded(mq, messages)
        self._telling.succeeded(messages)

    async def drain(self, limit_s: float) -> list[UnackedMessages]:
        """Stop pulling, consume pulled messages, store offsets, leave the group; return unacknowledged messages.

        If cancelled, it leaves immediately; unfinished() then returns the unacknowledged messages.
        """
        try:
            await self.holding.end()
            until_s = self.client.clock.monotonic_s() + limit_s
            while not self.is_idle and self.client.clock.monotonic_s() < until_s:
                await pause(self.client.clock, _DRAIN_LOOK_S)
        finally:
            await self._leave()
        return self.unfinished()

    @property
    def is_running(self) -> bool:
        """Whether the consumer has joined and has not left."""
        return self.holding.is_running

    @property
    def is_idle(self) -> bool:
        """Whether no message is being consumed, waiting to be, or being sent back."""
        return (self._consumption is None or self._consumption.is_idle) and not self.holding.skipping.has_waiting

    async def _leave(self) -> None:
        if self._has_left or not self._has_joined:
            return
        self._has_left = True
        self.holding.is_running = False
        if self._loop_watch is not None:
            self._loop_watch.close()
        await self._control.aclose()
        await self.holding.aclose()
        await stop_tasks(self._tasks)
        # Before the offsets are stored: a message that is sent back later would also be redelivered by the offsets.
        if self._consumption is not None:
            await self._consumption.aclose()
        await self.holding.revoke_all()
        self.unstored = await self.holding.persist()
        await self.holding.unlock()
        await self.membership.leave()
        self.client.server_requests.leave(self.settings.group)
        self.problems.end()

    @property
    def counts(self) -> ConsumerCounts:
        """What the consumer has done since its start."""
        telling = self._telling
        return ConsumerCounts(
            ok=telling.ok_count, failed=telling.failed_count, expired=telling.expired_count,
            skipped=self.holding.skipping.skipped_count, sent_back=telling.sent_back_count, dead=telling.dead_count,
            waiting=len(telling.waiting_ids), results=dict(telling.results),
        )  # fmt: skip

    def subscribe(self, subscription: Subscription) -> None:
        """Add a subscription, or change the one to its topic. All members of a group must do the same."""
        self.membership.subscribe(subscription)
        self.membership.beat_soon()
        self.rebalance.wake()

    def unsubscribe(self, topic: str) -> None:
        """Remove the subscription to a topic; the next rebalance gives up its queues."""
        self.membership.unsubscribe(topic)
        self.membership.beat_soon()
        self.rebalance.wake()

    def set_consume_timeout(self, seconds: float) -> None:
        """Change the time limit of batches, including running ones."""
        if self._consumption is not None:
            self._consumption.set_timeout(seconds)

    def health(self) -> ConsumerHealth:
        """Return how the consumer is. Any thread may call it."""
        return look_at(
            self.client_id, self.membership, self.rebalance, self.holding, offsets=self.offsets, heads=self.heads(),
            problems=self.problems.open(),
        )  # fmt: skip

    def unfinished(self) -> list[UnackedMessages]:
        """Return the pulled messages that are not acknowledged, by queue."""
        return self.holding.unfinished()

    def heads(self) -> Mapping[MessageQueue, Head]:
        """Return the first message in flight of each queue whose listener is processing it now."""
        running = [] if self._consumption is None else self._consumption.running()
        return {
            each.batch.mq: Head(first, round(each.age_s * 1000))
            for each in running
            if (first := each.batch.process_queue.first_offset) is not None
            if any(message.queue_offset == first for message in each.batch.messages)
        }

    # For ClientProcessor

    def look(self) -> None:
        """See control.Controlled."""
        self.holding.look()

    def suspend(self) -> None:
        """See control.Controlled."""
        self.holding.pauses.suspend()

    def unsuspend(self) -> None:
        """See control.Controlled."""
        self.holding.pauses.unsuspend()

    @property
    def started_at_ms(self) -> int:
        """When the consumer joined, epoch ms; 0 before that."""
        return self.holding.started_at_ms

    def subscriptions(self) -> Mapping[str, Subscription]:
        """See control.Controlled."""
        return self.membership.subscriptions()

    def process_queues(self) -> Mapping[MessageQueue, ProcessQueue]:
        """See control.Controlled."""
        return self.holding.queues

    def line(self, mq: MessageQueue) -> QueueLine | None:
        """See control.Controlled."""
        return self._consumption.line(mq) if isinstance(self._consumption, OrderlyConsumption) else None

    async def drop(self, mq: MessageQueue) -> bool:
        """See control.Controlled."""
        return await self.holding.drop(mq)

    def rebalance_soon(self) -> None:
        """See control.Controlled."""
        self.rebalance.wake()

    def forget_duplicates(self, mq: MessageQueue) -> None:
        """See control.Controlled."""
        self.holding.skipping.forget(mq)

    async def _persist_now_and_then(self) -> None:
        await pause(self.client.clock, self.settings.first_persist_s)
        while True:
            began_s = self.client.clock.monotonic_s()
            await self.holding.persist()
            # The time that one broker needs to fail must not delay the offsets of the others.
            spent_s = self.client.clock.monotonic_s() - began_s
            await pause(self.client.clock, max(0.0, self.settings.persist_s - spent_s))
