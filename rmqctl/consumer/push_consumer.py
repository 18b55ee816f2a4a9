"""The push consumer of the library: one call to start, and nothing compulsory that only few programs need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from rmqctl.client.core import Client
from rmqctl.errors import RefusedError, UsageError
from rmqctl.model.checked import EpochMs, Seconds, checked
from rmqctl.model.consumption import ConsumerCounts, ConsumerWarning
from rmqctl.model.failure import Failure
from rmqctl.model.group import Subscription
from rmqctl.model.queue import MessageQueue
from rmqctl.net.stop_signals import on_stop_signals
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.allocate import Strategy

from .batch import AnyListener
from .core import ConsumerCore
from .health import ConsumerHealth
from .offsets.start_words import start_words
from .process_queue import UnackedMessages
from .rebalance_listener import RebalanceListener
from .reports.failures import describe_unacked
from .reports.log import LOG, log_problems
from .reports.problems import Tell
from .rules.strategies import member_strategy
from .rules.subscriptions import parse_subscriptions
from .settings import ConsumerSettings
from .workers import find_fault_of_hook


class PushConsumer:
    """Consumes topics as a member of a group: `async with`, start() and drain(), or run().

    `client` has the name servers, as in "10.0.0.5:9876;10.0.0.6:9876", or is a Client that several consumers and
    producers share, each consumer of another group. A topic is TOPIC, TOPIC:TAGS as in "orders:created || paid",
    TOPIC:SQL92:EXPRESSION, or a Subscription. All members of a group need the same topics and the same strategy.

    The listener gets messages of one queue, and their Batch. It returns a ConsumeStatus, or its name. A plain function
    runs in threads, a coroutine function in the event loop. None and exceptions mean RECONSUME_LATER, as in Java.

    `report` receives each Problem when it begins, once a minute while it lasts, and when it is over; by default, they
    are logged. Another thread calls it for a blocked event loop. `rebalance_listener` is called when queues are taken
    and given up. `skip`, a plain function, is called for each message before it is consumed; one for which it returns
    True is acknowledged unread. `drain_s` limits the time to consume pulled messages at the end. Raises UsageError for
    arguments that are invalid or out of range.
    """

    def __init__(
        self, client: Client | str | Sequence[str], *, group: str, topics: str | Iterable[str | Subscription],
        listener: AnyListener, settings: ConsumerSettings | None = None, strategy: Strategy | str = "averagely",
        rebalance_listener: RebalanceListener | None = None, report: Tell | None = None,
        skip: Callable[[StoredMessage], bool] | None = None, drain_s: float = 25.0,
    ) -> None:  # fmt: skip
        settings = ConsumerSettings() if settings is None else settings
        for name, value, kind in (("settings", settings, ConsumerSettings), ("strategy", strategy, (Strategy, str))):
            if not isinstance(value, kind):
                raise UsageError(f"Invalid {name}: {value!r}.")
        for name, function in (("report", report), ("skip", skip)):
            fault = None if function is None else find_fault_of_hook(function)
            if fault is not None:
                raise UsageError(f"Invalid {name}: {function!r} {fault}.")
        checked("group", group, str)
        self._drain_s = checked("drain_s", drain_s, Seconds)
        if settings.group not in ("", group):
            raise UsageError(f"The settings are for {settings.group}, not for {group}.")
        self._is_own_client = not isinstance(client, Client)
        self._core = ConsumerCore(
            client if isinstance(client, Client) else Client(client),
            replace(settings, group=group),
            parse_subscriptions(topics),
            listener,
            member_strategy(strategy) if isinstance(strategy, str) else strategy,
            report=report or log_problems(group),
            skip=skip,
            rebalance_listener=rebalance_listener,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = asyncio.Event()
        self._draining = asyncio.Lock()

    # Life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.drain()

    async def start(self, *, force: bool = False) -> None:
        """Join the group and start. Raises NotFoundError for topics without a route, or a broker error if all fail.

        Raises RefusedError for a second start, on a closed client, on a client that has a consumer of the group
        already, and if the group has a member with this client id, or members that consume in the other way (orderly
        or concurrently); with `force`, the last two are allowed.
        """
        is_first = self._loop is None
        if is_first:
            self._loop = asyncio.get_running_loop()
        try:
            await self._core.start(force=force)
        except BaseException:
            if is_first:
                await self._close()
            raise
        LOG.info("%s: joined as %s.", self.group, self.client_id)
        for sentence in start_words(self._core.holding.starts.found, self.group):
            LOG.info("%s: %s", self.group, sentence)

    async def drain(self, limit_s: float | None = None) -> list[UnackedMessages]:
        """Stop pulling, consume pulled messages, store offsets, leave the group; return unacknowledged messages.

        `limit_s` is `drain_s` by default. If cancelled, it leaves immediately; unfinished() then returns the
        unacknowledged messages. They are reported as well, and so are offsets that could not be stored.
        """
        self._require_own_loop()
        async with self._draining:
            was_running = self.is_running
            try:
                return await self._core.drain(self._drain_s if limit_s is None else limit_s)
            finally:
                if was_running:
                    self._report_end()
                await self._close()

    def _report_end(self) -> None:
        left = self.unfinished()
        if left:
            self._core.problems(ConsumerWarning.LEFT, describe_unacked(left))
        counts = self.counts
        LOG.info("%s: left; %d messages consumed, %d failed.", self.group, counts.ok, counts.failed)

    async def _close(self) -> None:
        if self._is_own_client:
            await self._core.client.aclose()

    def run(self) -> list[UnackedMessages]:
        """Consume until SIGINT, SIGTERM or stop(), then drain; return unacknowledged messages.

        Blocks, in an event loop of its own. A second signal leaves immediately. Raises what start() raises.
        """
        return asyncio.run(self.serve())

    async def serve(self) -> list[UnackedMessages]:
        """Do the same as run() in the running event loop."""
        working = asyncio.ensure_future(self._work())
        signal_count = 0

        def on_signal() -> None:
            nonlocal signal_count
            signal_count += 1
            self.stop()
            # Once: a third signal would interrupt leaving the group, which time limits bound.
            if signal_count == 2:
                working.cancel()

        with on_stop_signals(on_signal):
            try:
                await working
            except asyncio.CancelledError:
                if signal_count < 2:
                    raise
        return self.unfinished()

    async def _work(self) -> None:
        async with self:
            await self._is_stopping.wait()

    def stop(self) -> None:
        """Have run() or serve() drain and return. Any thread may call it, also the listener."""
        if self._loop is None:
            self._is_stopping.set()
            return
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self._is_stopping.set)

    def _require_own_loop(self) -> None:
        """Raise RefusedError in another event loop: waiting there would never end."""
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise RefusedError(f"The consumer of {self.group} runs in another event loop.")

    # Facts

    @property
    def group(self) -> str:
        """The name of the group."""
        return self._core.settings.group

    @property
    def client_id(self) -> str:
        """The id of this member in the group."""
        return self._core.client_id

    @property
    def is_running(self) -> bool:
        """Whether the consumer has joined and has not left."""
        return self._core.is_running

    @property
    def is_idle(self) -> bool:
        """Whether no message is being consumed, waiting to be, or being sent back."""
        return self._core.is_idle

    @property
    def counts(self) -> ConsumerCounts:
        """What the consumer has done since its start."""
        return self._core.counts

    def health(self) -> ConsumerHealth:
        """Return whether it is a member, when each queue was last pulled and consumed, its lag, and what is stuck.

        Any thread may call it. It asks no broker.
        """
        return self._core.health()

    def unfinished(self) -> list[UnackedMessages]:
        """Return the pulled messages that are not acknowledged, by queue."""
        return self._core.unfinished()

    @property
    def unstored(self) -> Sequence[Failure]:
        """The offsets that could not be stored at the end."""
        return self._core.unstored

    # Changes while it runs

    def subscribe(self, topic: str | Subscription) -> None:
        """Add a subscription, or change the one to its topic. All members of a group must do the same."""
        (subscription,) = parse_subscriptions(topic)
        self._core.subscribe(subscription)

    def unsubscribe(self, topic: str) -> None:
        """Remove the subscription to a topic; the next rebalance gives up its queues."""
        self._core.unsubscribe(topic)

    def set_consume_timeout(self, seconds: float) -> None:
        """Change the time limit of batches, including running ones."""
        self._core.set_consume_timeout(seconds)

    def pause(self, *mqs: MessageQueue) -> None:
        """Pass on no messages of these queues until resume(); without queues, of none, also of those taken later.

        Batches that the listener has end as usual. A queue that is given up is no longer paused. Any thread may call
        it. Raises RefusedError for a queue that this member does not hold.
        """
        self._core.holding.pauses.pause(mqs)

    def resume(self, *mqs: MessageQueue) -> None:
        """Undo pause() for these queues; without queues, for everything. Otherwise the same as pause()."""
        self._core.holding.pauses.resume(mqs)

    async def seek(self, mq: MessageQueue, offset: int) -> int:
        """Continue a queue at an offset, or at the nearest that its broker has, and return it.

        The offset is stored. Messages that were pulled before are dropped; the results of those that the listener has
        no longer count. Raises RefusedError for a queue that this member does not hold, and RmqctlError if its broker
        does not answer; the error says whether the queue was moved.
        """
        self._require_own_loop()
        checked("offset", offset, int)
        return await self._core.holding.seek(mq, lambda starts: starts.nearest(mq, offset))

    async def seek_to_time(self, mq: MessageQueue, at_ms: int) -> int:
        """Continue a queue at the first message that was stored at a time, epoch ms, or later. See seek()."""
        self._require_own_loop()
        checked("at_ms", at_ms, EpochMs)
        return await self._core.holding.seek(mq, lambda starts: starts.at(mq, at_ms))
