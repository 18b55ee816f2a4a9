"""The locks of an orderly consumer on its queues: a broker gives each queue of a group to one client at a time.

(RebalanceImpl.lockAll, RebalanceLockManager.) A broker keeps a lock for 60 s after its last renewal. Here it counts for
30 s after a renewal was sent, by the monotonic clock, so that no other member has a queue while this one consumes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from math import inf
from typing import NamedTuple, Protocol

from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.consumption import ConsumerWarning
from rmqctl.model.queue import MessageQueue, queues_by_broker
from rmqctl.net.clock import pause
from rmqctl.net.tasks import stop_tasks
from rmqctl.protocol import consumer_requests, group_bodies
from rmqctl.text.words import counted, listed

from .process_queue import ProcessQueue
from .reports.problems import Problems
from .routes import require_master
from .settings import ConsumerSettings

# Between two renewals, and how long one counts (RebalanceLockManager, ProcessQueue.REBALANCE_LOCK_MAX_LIVE_TIME).
_RENEW_S, _VALID_S = 20.0, 30.0
_LOOK_S = 1.0
# A member that gives up a queue holds its lock until its batch has ended. Only what takes longer is reported.
_NOTICE_S = 10.0


class ConsumerLocks(Protocol):
    """The locks of a consumer's queues, as AssignedQueues needs them."""

    def attach(self, *, lose: Callable[[ProcessQueue], object], doubt: Callable[[ProcessQueue], object]) -> None:
        """Call `lose` for a queue whose lock another member has, `doubt` for one that had none for a while."""

    async def claim(self, mqs: Collection[MessageQueue]) -> Mapping[MessageQueue, str | None]:
        """Lock queues that are about to be taken; return the refused ones, None for those that another member has."""

    def cover(self, queue: ProcessQueue) -> None:
        """Have a held queue keep its lock."""

    def disconnected(self, address: str) -> None:
        """Count on no lock of a broker to which a connection ended, until it is renewed."""

    async def release(self, mqs: Iterable[MessageQueue]) -> None:
        """Give locks back, where this member has them."""

    async def release_all(self, kept: Collection[MessageQueue]) -> None:
        """Give all other locks back, also those that were asked for and not used."""


class NoLocks:
    """For consumers that need no locks."""

    def attach(self, *, lose: Callable[[ProcessQueue], object], doubt: Callable[[ProcessQueue], object]) -> None:
        """See ConsumerLocks."""

    async def claim(self, _: Collection[MessageQueue]) -> Mapping[MessageQueue, str | None]:
        """See ConsumerLocks."""
        return {}

    def cover(self, queue: ProcessQueue) -> None:
        """See ConsumerLocks."""

    def disconnected(self, address: str) -> None:
        """See ConsumerLocks."""

    async def release(self, mqs: Iterable[MessageQueue]) -> None:
        """See ConsumerLocks."""

    async def release_all(self, kept: Collection[MessageQueue]) -> None:
        """See ConsumerLocks."""


class _Disconnection(NamedTuple):
    """When a connection to a broker ended last, monotonic, and the queues that were locked there."""

    at_s: float = -inf
    locked: frozenset[MessageQueue] = frozenset()


_NEVER = _Disconnection()


class BrokerLocks:
    """Locks of an orderly member at the brokers. `address_of` returns the master of a broker.

    A broker that restarts knows no locks. So when a connection ends, those of its broker must be renewed before they
    count again, and queues of others are taken there only when no other member can count on its old lock any more.
    """

    def __init__(
        self, client: Client, settings: ConsumerSettings, client_id: str, *,
        address_of: Callable[[str], str | None], problems: Problems,
    ) -> None:  # fmt: skip
        self._client = client
        self._settings = settings
        self._client_id = client_id
        self._address_of = address_of
        self._problems = problems
        self._lose: Callable[[ProcessQueue], object] = lambda _: None
        self._doubt: Callable[[ProcessQueue], object] = lambda _: None
        # Those that the brokers may have given to this member.
        self._asked: set[MessageQueue] = set()
        # Monotonic: when the last renewal that its broker granted was sent; -inf for those that the broker may have
        # forgotten.
        self._locked_at_s: dict[MessageQueue, float] = {}
        self._covered: dict[MessageQueue, ProcessQueue] = {}
        # By address.
        self._disconnections: dict[str, _Disconnection] = {}
        # When a lock was refused first and last.
        self._refused_s: dict[MessageQueue, tuple[float, float]] = {}
        self._renewing: dict[str, asyncio.Task[None]] = {}
        self._bug: BaseException | None = None

    def attach(self, *, lose: Callable[[ProcessQueue], object], doubt: Callable[[ProcessQueue], object]) -> None:
        """See ConsumerLocks."""
        self._lose, self._doubt = lose, doubt

    async def claim(self, mqs: Collection[MessageQueue]) -> Mapping[MessageQueue, str | None]:
        """See ConsumerLocks."""
        groups = queues_by_broker(mqs)
        answers = await asyncio.gather(*(self._claim_at(name, each) for name, each in groups.items()))
        return {mq: reason for answer in answers for mq, reason in answer.items()}

    def disconnected(self, address: str) -> None:
        """See ConsumerLocks."""
        locked = frozenset(mq for mq in self._locked_at_s if self._address_of(mq.broker_name) == address)
        self._disconnections[address] = _Disconnection(self._client.clock.monotonic_s(), locked)
        self._locked_at_s |= dict.fromkeys(locked, -inf)
        for mq in locked & self._covered.keys():
            self._extend(self._covered[mq])

    def _disconnection(self, broker_name: str) -> _Disconnection:
        return self._disconnections.get(self._address_of(broker_name) or "", _NEVER)

    async def _claim_at(self, broker_name: str, mqs: Collection[MessageQueue]) -> dict[MessageQueue, str | None]:
        disconnection, others = self._disconnection(broker_name), list[MessageQueue]()
        if self._client.clock.monotonic_s() < disconnection.at_s + _VALID_S:
            others = [mq for mq in mqs if mq not in disconnection.locked]
            mqs = [mq for mq in mqs if mq in disconnection.locked]
        if not mqs:
            return dict.fromkeys(others)
        try:
            granted = await self._lock(broker_name, mqs)
        except RmqctlError as error:
            return {**dict.fromkeys(mqs, error.sentence), **dict.fromkeys(others)}
        for mq in granted:
            self._refused_s.pop(mq, None)
            self._covered.pop(mq, None)  # it was given up, and must not be unlocked for that any more
        refused = [mq for mq in mqs if mq not in granted]
        self._report_refused(refused)
        return dict.fromkeys([*refused, *others])

    def _report_refused(self, mqs: Collection[MessageQueue]) -> None:
        """Report the queues of a claim whose lock another member has had for long."""
        now_s = self._client.clock.monotonic_s()
        for mq in mqs:
            since_s, last_s = self._refused_s.get(mq, (now_s, now_s))
            self._refused_s[mq] = (since_s if now_s - last_s < _NOTICE_S else now_s, now_s)
        long = sorted(mq for mq in mqs if now_s - self._refused_s[mq][0] >= _NOTICE_S)
        if long:
            where = listed([str(mq) for mq in long])
            self._problems(
                ConsumerWarning.LOCK, f"{where}: another member keeps the lock, and so the messages.", "keeps", count=0
            )
        elif not mqs:
            self._problems.works(ConsumerWarning.LOCK, "keeps", "Other members keep no locks any more")

    async def _lock(self, broker_name: str, mqs: Collection[MessageQueue]) -> frozenset[MessageQueue]:
        """Lock queues of a broker, or renew their locks; return those that it granted. Raises RmqctlError."""
        sent_s = self._client.clock.monotonic_s()
        request = consumer_requests.lock_queues(self._settings.group, self._client_id, mqs)
        self._asked.update(mqs)
        answer = await self._client.ask(require_master(self._address_of(broker_name), broker_name), request)
        granted = group_bodies.decode_locked_queues(answer.body) & frozenset(mqs)
        self._asked = self._asked.difference(mqs) | granted
        if sent_s <= self._disconnection(broker_name).at_s:
            sent_s = -inf
        for mq in granted:
            self._locked_at_s[mq] = max(sent_s, self._locked_at_s.get(mq, sent_s))
            queue = self._covered.get(mq)
            if queue is not None:
                if not queue.is_locked(sent_s):
                    self._doubt(queue)
                self._extend(queue)
        return granted

    def cover(self, queue: ProcessQueue) -> None:
        """See ConsumerLocks."""
        self._covered[queue.mq] = queue
        self._extend(queue)

    def _extend(self, queue: ProcessQueue) -> None:
        locked_at_s, clock = self._locked_at_s.get(queue.mq, -inf), self._client.clock
        if locked_at_s == -inf:
            queue.lock_until_s = 0.0
            return
        queue.lock_until_s = locked_at_s + _VALID_S
        queue.locked_at_ms = clock.now_ms() - round((clock.monotonic_s() - locked_at_s) * 1000)

    async def run(self) -> None:
        """Renew the locks of the held queues until cancelled. A silent broker does not delay the others."""
        try:
            while True:
                await pause(self._client.clock, _LOOK_S)
                if self._bug is not None:
                    bug, self._bug = self._bug, None
                    raise bug
                # A batch may end long after its queue was given up.
                ended = [mq for mq, queue in self._covered.items() if queue.dropped and not queue.in_work]
                await self.release(ended)
                for name, mqs in queues_by_broker(self._due()).items():
                    if name not in self._renewing:
                        renewing = self._renewing[name] = asyncio.ensure_future(self._renew(name, mqs))
                        renewing.add_done_callback(partial(self._renewed, name))
        finally:
            await stop_tasks(list(self._renewing.values()))

    def _renewed(self, broker_name: str, task: asyncio.Task[None]) -> None:
        del self._renewing[broker_name]
        if not task.cancelled():
            self._bug = task.exception()

    def _due(self) -> list[MessageQueue]:
        before_s = self._client.clock.monotonic_s() - _RENEW_S
        return [mq for mq in self._covered if self._locked_at_s.get(mq, -inf) <= before_s]

    async def _renew(self, broker_name: str, mqs: Collection[MessageQueue]) -> None:
        asked = {mq: self._covered[mq] for mq in mqs}
        try:
            granted = await self._lock(broker_name, mqs)
        except RmqctlError as error:
            what = f"{broker_name}: {counted(len(mqs), 'lock', 'is')} not renewed"
            limit = f"Without a renewal, a queue is consumed for {_VALID_S:g} s at most"
            self._problems(ConsumerWarning.LOCK, f"{what}: {error.sentence} {limit}.", broker_name)
            return
        self._problems.works(ConsumerWarning.LOCK, broker_name, f"{broker_name}: locks are renewed again")
        lost = [queue for mq, queue in asked.items() if mq not in granted and self._covered.get(mq) is queue]
        if not lost:
            return
        where = listed([str(queue.mq) for queue in lost])
        self._problems(ConsumerWarning.LOCK, f"{where}: another member has the lock now; what runs does not count.")
        for queue in lost:
            self._forget(queue.mq)
            queue.lock_until_s = 0.0
            self._lose(queue)

    def _forget(self, mq: MessageQueue) -> None:
        self._covered.pop(mq, None)
        self._locked_at_s.pop(mq, None)
        self._refused_s.pop(mq, None)
        self._asked.discard(mq)

    async def release(self, mqs: Iterable[MessageQueue]) -> None:
        """See ConsumerLocks. A broker that does not answer keeps a lock for 60 s."""
        held = [mq for mq in mqs if mq in self._asked]
        for mq in held:
            self._forget(mq)
        await asyncio.gather(*(self._release_at(name, each) for name, each in queues_by_broker(held).items()))

    async def release_all(self, kept: Collection[MessageQueue]) -> None:
        """See ConsumerLocks."""
        await self.release(self._asked.difference(kept))

    async def _release_at(self, broker_name: str, mqs: Collection[MessageQueue]) -> None:
        request = consumer_requests.unlock_queues(self._settings.group, self._client_id, mqs)
        try:
            await self._client.ask(require_master(self._address_of(broker_name), broker_name), request)
        except RmqctlError as error:
            what = f"{broker_name}: {counted(len(mqs), 'lock', 'is')} not given back, and expires after 60 s"
            self._problems(ConsumerWarning.LOCK, f"{what}: {error.sentence}")
