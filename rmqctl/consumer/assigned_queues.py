"""The queues that a consumer holds: take and drop them for the rebalance, pull them, pass on their messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from math import inf

from rmqctl.client.core import Client
from rmqctl.consumer.rules.pull_progress import offset_without_messages
from rmqctl.errors import BrokerError, RefusedError, RmqctlError, UnreachableError
from rmqctl.model.consumption import ConsumerWarning
from rmqctl.model.failure import Failure
from rmqctl.model.group import Subscription
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import pause
from rmqctl.net.tasks import run_again, stop_tasks
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.flow_control import FlowControl, FlowLimits, decide

from .consumption import Consumption
from .counters import Counters
from .leaving_queues import has_ended
from .membership import Membership
from .offsets.ownership import Ownership
from .offsets.start import StartOffsets
from .offsets.store import OffsetStore
from .pauses import Pauses
from .process_queue import ProcessQueue, UnackedMessages
from .pull_loop import PullBatch, pull_queue
from .queue_locks import ConsumerLocks
from .rebalance_listener import RebalanceCalls, RebalanceListener
from .reports.problems import Problems
from .reports.pulls import report_pull_failed, report_pulled
from .reports.stores import report_stored
from .retried_message import restore_topics
from .routes import Routes
from .settings import ConsumerSettings
from .skipping.message_skipper import MessageSkipper
from .stand_still import StandStill

# Answers to a pull from a broker that does not know this client or its current subscription.
_UNKNOWN_HERE = frozenset(
    {
        ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    }
)  # fmt: skip


async def _nothing() -> None:
    pass


class AssignedQueues:
    """The queues of one consumer; the owner for Rebalance and pull_queue().

    `queues` has the held queues, `is_running` allows pulling. Set `consumption` before any queue is taken.
    """

    def __init__(
        self, client: Client, settings: ConsumerSettings, *, routes: Routes, membership: Membership,
        offsets: OffsetStore, counters: Counters, skipping: MessageSkipper, problems: Problems,
        locks: ConsumerLocks, broke: Callable[[str, Exception], object], listener: RebalanceListener | None = None,
    ) -> None:  # fmt: skip
        self.client = client
        self.settings = settings
        self.is_running = False
        self.started_at_ms = 0
        self.consumption: Consumption | None = None
        self.queues: dict[MessageQueue, ProcessQueue] = {}
        self._routes = routes
        self._membership = membership
        self._offsets = offsets
        self._counters = counters
        self.skipping = skipping
        self._problems = problems
        self._locks = locks
        self._broke = broke
        self.starts = StartOffsets(client, settings, offsets, routes)
        self._limits = FlowLimits(
            queue_count=settings.queue_count_limit, queue_mib=settings.queue_mib_limit, span=settings.span_limit,
            topic_count=settings.topic_count_limit, topic_mib=settings.topic_mib_limit,
        )  # fmt: skip
        self._in_work: dict[MessageQueue, set[object]] = {}
        self._pulls: dict[MessageQueue, asyncio.Task[None]] = {}
        self._is_ending = False
        self._left: dict[MessageQueue, UnackedMessages] = {}
        self.pauses = Pauses(self.queues, self._require)
        self.calls = RebalanceCalls(listener, settings, client.clock, problems)
        # Called to rebalance after a queue was lost, and awaited until a rebalance has ended.
        self.on_lost: Callable[[], object] = lambda: None
        self.rebalanced: Callable[[], Awaitable[None]] = _nothing
        self._ownership = Ownership(
            client, settings, offsets, report=problems, lose=self._lose, rebalanced=lambda: self.rebalanced()
        )
        locks.attach(lose=self._lost_lock, doubt=lambda queue: self._ownership.stood_still([queue]))
        self.stand_still = StandStill(client.clock, self._stood_still, self._beat)

    def _stood_still(self, _: float) -> None:
        self._ownership.stood_still(self.queues.values())

    def _beat(self) -> None:
        if self.consumption is not None:
            self.consumption.release()
        for process_queue, message in self.skipping.release():
            self._pass_on(process_queue, [message])

    async def aclose(self) -> None:
        """Stop the rest of the work, after end()."""
        self.stand_still.close()
        await self._ownership.aclose()

    async def revoke_all(self) -> None:
        """Have the rebalance listener finish with all queues, at the end."""
        await self.calls.revoke(self.queues)
        await self.calls.aclose()

    async def unlock(self) -> None:
        """Give all locks back, at the end; not of queues whose batch still runs."""
        await self._locks.release_all([mq for mq, in_work in self._in_work.items() if in_work])

    async def end(self) -> None:
        """Stop pulling, take no more queues, and leave what is paused."""
        self._is_ending = self.pauses.is_over = True
        for queue in self.queues.values():
            queue.is_leaving |= queue.is_paused
        await stop_tasks(self._pulls.values())

    def _require(self, mq: MessageQueue) -> ProcessQueue:
        queue = self.queues.get(mq)
        if queue is None or queue.dropped or queue.is_leaving or self._is_ending:
            raise RefusedError(f"This member does not hold {mq}.")
        return queue

    async def persist(self, mqs: Iterable[MessageQueue] | None = None) -> list[Failure]:
        """Store the offsets of all or these queues; report and return failures."""
        self.look()
        failures = await self._offsets.persist(mqs)
        # Nothing is stored of a queue without an offset in memory.
        asked = (mq for mq in (self.queues if mqs is None else mqs) if self._offsets.read(mq) is not None)
        report_stored(self._problems, asked, failures)
        return failures

    # For Rebalance

    def held(self) -> Mapping[MessageQueue, float]:
        """See rebalance.Owner. At the end nothing is pulled, and no queue expires. What is leaving must go."""
        now_s = self.client.clock.monotonic_s()
        return {
            mq: 0.0 if self._is_ending else inf if queue.is_leaving else now_s - queue.last_pull_s
            for mq, queue in self.queues.items()
        }

    async def claim(self, mqs: Collection[MessageQueue]) -> Mapping[MessageQueue, str | None]:
        """See rebalance.Owner."""
        return await self._locks.claim(mqs)

    async def take(self, mq: MessageQueue) -> bool:
        """See rebalance.Owner."""
        is_taken = False
        try:
            is_taken = await self._take(mq)
        finally:
            if not is_taken and mq not in self.queues:
                await self._locks.release([mq])
        return is_taken

    async def _take(self, mq: MessageQueue) -> bool:
        if not self._may_take(mq):
            return False
        self._offsets.forget(mq)
        stop_count = self._ownership.stop_count
        start = await self.starts.find(mq)
        self.look()
        if not self._may_take(mq) or stop_count != self._ownership.stop_count:
            return False
        self.calls.took(mq)
        self._begin(mq, start.offset, is_paused=self.pauses.is_all_paused)
        self._offsets.trust(mq)
        if start.is_chosen:
            # At once: a member that takes the queue later must continue here, not at what is its end by then.
            self._offsets.update(mq, start.offset, increase_only=True)
            await self.persist([mq])
        return True

    def _begin(self, mq: MessageQueue, offset: int, *, is_paused: bool) -> None:
        """Pull a queue from an offset on."""
        clock = self.client.clock
        # In order, what the listener still has of this queue keeps its lock, even if it was reset meanwhile.
        in_work = self._in_work.setdefault(mq, set()) if self.settings.is_orderly else None
        queue = ProcessQueue(mq, next_offset=offset, now_ms=clock.now_ms(), now_s=clock.monotonic_s(), in_work=in_work)
        queue.is_paused, self.queues[mq] = is_paused, queue
        self._locks.cover(queue)
        on_error = partial(self._broke, f"Pulling {mq}")
        working = run_again(
            partial(self._pull, queue), clock=clock, rest_s=self.settings.error_delay_s, on_error=on_error
        )
        self._pulls[mq] = asyncio.create_task(working, name=f"PullMessage {mq}")

    def _may_take(self, mq: MessageQueue) -> bool:
        return mq not in self.queues and not self._is_ending

    async def _pull(self, queue: ProcessQueue) -> None:
        await pause(self.client.clock, self.settings.first_pull_delay_s)
        await self.calls.wait_until_prepared(queue)
        await pull_queue(self, queue)

    def announce(self) -> None:
        """See rebalance.Owner."""
        self.calls.announce(self.queues)

    async def revoke(self, mqs: Sequence[MessageQueue]) -> None:
        """See rebalance.Owner. Without a rebalance listener, nothing is waited for, as in Java."""
        if not self.calls.is_needed:
            return
        leaving = [self.queues[mq] for mq in mqs if mq in self.queues]
        for queue in leaving:
            queue.is_leaving = True
        await stop_tasks(self._pulls.pop(mq) for mq in mqs if mq in self._pulls)
        await self.calls.finish(leaving)
        for queue in leaving:
            # Another member may have consumed it meanwhile, and have stored more.
            self._offsets.doubt(queue.mq)

    async def seek(self, mq: MessageQueue, find: Callable[[StartOffsets], Awaitable[int]]) -> int:
        """Continue a queue at the offset that `find` returns, and return it. Running batches no longer count.

        Raises RefusedError for a queue that is not held, and RmqctlError if the broker does not answer.
        """
        queue = self._require(mq)
        try:
            await self.make_sure(queue)
            offset = await find(self.starts)
        except RmqctlError as error:
            raise error.reworded(f"{mq} was not moved: {error.sentence}") from error
        if self._require(mq) is not queue:
            raise RefusedError(f"{mq} was given up and taken again meanwhile.")
        queue.drop()
        self._pulls.pop(mq).cancel()
        self.skipping.forget(mq)
        self._offsets.update(mq, offset, increase_only=False)
        self._begin(mq, offset, is_paused=queue.is_paused)
        # It was not taken again: a reset that waits for that must not be confirmed.
        self.queues[mq].taken_at_ms = queue.taken_at_ms
        for failure in await self.persist([mq]):
            raise failure.error.reworded(
                f"{mq} continues at {offset}, but this is not stored: {failure.error.sentence}"
            )
        return offset

    async def drop(self, mq: MessageQueue) -> bool:
        """See rebalance.Owner."""
        queue = self.queues.get(mq)
        if queue is None:
            return True
        if (
            self.settings.is_orderly
            and not queue.dropped
            and not await has_ended(queue, self.client.clock, self._problems)
        ):
            return False
        queue.drop()
        await stop_tasks([self._pulls.pop(mq)] if mq in self._pulls else [])
        await self.persist([mq])
        if not queue.in_work:
            await self._locks.release([mq])
        self._let_go(queue)
        return True

    # For pull_queue()

    def is_paused(self, process_queue: ProcessQueue) -> bool:
        """See pulling.Owner."""
        is_locked = process_queue.is_locked(self.client.clock.monotonic_s())
        return self.pauses.is_suspended or process_queue.is_paused or not is_locked

    def subscription(self, topic: str) -> Subscription | None:
        """See pulling.Owner."""
        return self._membership.subscription(topic)

    def address(self, mq: MessageQueue, broker_id: int) -> str | None:
        """See pulling.Owner."""
        return self._routes.address(mq.broker_name, broker_id) or self._routes.address(mq.broker_name)

    def hold(self, process_queue: ProcessQueue) -> FlowControl | None:
        """See pulling.Owner."""
        hold = decide(
            self._limits, held_queue_count=len(self.queues), count=process_queue.count,
            size_bytes=process_queue.size_bytes, is_blocked=process_queue.is_blocked,
            span=0 if self.settings.is_orderly else process_queue.span,
        )  # fmt: skip
        if hold is not None:
            self._counters.held(hold)
        return hold

    def committed(self, mq: MessageQueue) -> int | None:
        """See pulling.Owner."""
        return self._offsets.read(mq)

    def pulled(self, process_queue: ProcessQueue, pulled: PullBatch) -> None:
        """See pulling.Owner."""
        messages, mq = pulled.messages, process_queue.mq
        process_queue.answered_at_ms, process_queue.end_offset = self.client.clock.now_ms(), pulled.max_offset
        if report_pulled(self._problems, mq, pulled):
            self.skipping.forget(mq)
        if not messages:
            offset = offset_without_messages(pulled.next_offset, cached_count=process_queue.count)
            if offset is not None:
                self.acknowledge(process_queue.mq, offset)
            return
        self._counters.pulled(process_queue.mq.topic, len(messages), pulled.spent_ms)
        if process_queue.mq.topic.startswith(RETRY_PREFIX):
            messages = restore_topics(messages)
        process_queue.put(messages)
        self._pass_on(process_queue, messages, pulled.max_offset)

    def _pass_on(
        self, process_queue: ProcessQueue, messages: Sequence[StoredMessage], max_offset: int | None = None
    ) -> None:
        """Acknowledge unwanted messages unread, and have the others consumed."""
        if self.skipping.is_needed:
            messages, unwanted = self.skipping.find_unwanted(process_queue, messages, max_offset)
            if unwanted:
                offset = process_queue.remove(unwanted)
                if offset is not None:
                    self.acknowledge(process_queue.mq, offset)
        if messages and self.consumption is not None:
            self.consumption.submit(process_queue, messages)

    async def make_sure(self, process_queue: ProcessQueue) -> bool:
        """See pulling.Owner."""
        return await self._ownership.make_sure(process_queue)

    def look(self) -> None:
        """See pulling.Owner."""
        self.stand_still.look()

    async def illegal_offset(self, process_queue: ProcessQueue, next_offset: int, *, is_reset: bool) -> None:
        """See pulling.Owner. The dropped queue stays held until the offset is stored, so it is not taken meanwhile."""
        mq = process_queue.mq
        if next_offset < process_queue.next_offset:
            self.skipping.forget(mq)
        process_queue.drop()
        why = "it was reset at its broker" if is_reset else "the broker does not have the requested offset"
        self._problems(ConsumerWarning.OFFSET, f"{mq}: {why}; it continues at {next_offset}.")
        await pause(self.client.clock, self.settings.illegal_offset_s)
        self._offsets.update(mq, next_offset, increase_only=False)
        await self.persist([mq])
        self._lose(process_queue)

    async def pull_failed(self, mq: MessageQueue, error: RmqctlError) -> None:
        """See pulling.Owner."""
        report_pull_failed(self._problems, mq, error)
        if isinstance(error, UnreachableError) or (isinstance(error, BrokerError) and error.code in _UNKNOWN_HERE):
            await self._membership.tell(mq.broker_name)

    def acknowledge(self, mq: MessageQueue, offset: int) -> None:
        """Note the offset up to which a queue is done."""
        self._offsets.update(mq, offset, increase_only=True)

    def _lost_lock(self, process_queue: ProcessQueue) -> None:
        process_queue.drop()
        self._lose(process_queue)

    def _lose(self, process_queue: ProcessQueue) -> None:
        mq = process_queue.mq
        pulling = self._pulls.pop(mq, None)
        if pulling is not None and pulling is not asyncio.current_task():
            pulling.cancel()
        self._let_go(process_queue)
        self.on_lost()

    def _let_go(self, process_queue: ProcessQueue) -> None:
        """Forget a dropped queue, but not what it leaves unacknowledged at the end: it is not taken again."""
        if self.queues.get(process_queue.mq) is process_queue:
            del self.queues[process_queue.mq]
            self._offsets.forget(process_queue.mq)
            self.calls.lose(process_queue.mq)
        left = process_queue.unacked()
        if self._is_ending and left is not None:
            self._left[process_queue.mq] = left

    def unfinished(self) -> list[UnackedMessages]:
        """Return the pulled messages that are not acknowledged, by queue, with those of queues given up at the end."""
        found = {mq: left for mq, queue in self.queues.items() if (left := queue.unacked()) is not None}
        return [left for _, left in sorted({**self._left, **found}.items())]
