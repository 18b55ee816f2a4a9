"""The pulls of all members: how queues are taken, pulled, suspended and dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from math import inf

from rmqctl.model.queue import MessageQueue

from .agenda import Agenda
from .group import ChurnGroup
from .ledger import MessageLedger, PullSession
from .locks import SimulatedLocks
from .parties import Holding, SimulatedBroker, SimulatedMember
from .timing import LOCK_RENEW_MS


class Pulls:
    """What members do with the queues that they hold.

    `heard_ms` is when brokers heard the last version of a subscription, which is the group's (ConsumerGroupInfo). It is
    the same for all topics, since members mostly change them at once. `move_count` counts the queues that a client took
    from another one, `waited_ms` is the time until their first pull of those members that have pulled.
    """

    def __init__(
        self, agenda: Agenda, brokers: Mapping[str, SimulatedBroker], ledger: MessageLedger, group: ChurnGroup
    ) -> None:
        self._agenda = agenda
        self._brokers = brokers
        self._ledger = ledger
        self._group = group
        self._locks = SimulatedLocks()
        self.heard_ms = -inf
        self.move_count = 0
        self.waited_ms = 0.0

    def place(self, member: SimulatedMember, mq: MessageQueue) -> None:
        """Have a member hold and pull a queue from the beginning on."""
        self._ledger.queues[mq].last_owner = member.client_id
        holding = member.held[mq] = Holding()
        holding.start = 0
        if self._group.is_orderly:
            self._locks.take(mq, member, self._agenda.now_ms)
        self._pull(member, mq, holding)

    def take(
        self, member: SimulatedMember, taken: Mapping[MessageQueue, Holding], *, pull_after_ms: float
    ) -> float | None:
        """Read the offsets of taken queues, and pull them a little later.

        Returns in how many ms to try again those whose broker did not answer, or which another client has locked: the
        next regular rebalance is infinity, None means that all are taken.
        """
        now_ms, timing = self._agenda.now_ms, member.timing
        again_ms: list[float | None] = []
        for mq, holding in taken.items():
            if not member.is_alive or member.held.get(mq) is not holding:
                continue
            if not member.reaches(self._brokers[mq.broker_name]):
                del member.held[mq]
                again_ms.append(timing.retry_ms)
                continue
            if self._group.is_orderly and not self._locks.take(mq, member, now_ms):
                del member.held[mq]
                again_ms.append(timing.lock_retry_ms)
                continue
            queue = self._ledger.queues[mq]
            self.move_count += queue.last_owner not in ("", member.client_id)
            queue.last_owner = member.client_id
            holding.start = self._ledger.read_committed(queue, now_ms)
        self._agenda.add(now_ms + pull_after_ms, partial(self._pull_all, member, taken))
        return min((inf if each is None else each for each in again_ms), default=None)

    def drop(self, member: SimulatedMember, mq: MessageQueue, *, delay_ms: float) -> None:
        """Have a member drop a queue; its commit arrives at the broker after `delay_ms`.

        A queue that is consumed in order is unlocked when its message in the listener is done.
        """
        holding = member.held.pop(mq)
        if not self._group.is_orderly:
            self._end(member, mq, holding, is_committed=True, delay_ms=delay_ms)
            return
        rest_ms = 0.0 if holding.session is None else self._ledger.rest_ms(holding.session, self._agenda.now_ms)
        commits_last = member.timing.commits_last
        self._end(
            member, mq, holding, is_committed=True, with_last=commits_last, delay_ms=delay_ms + rest_ms * commits_last
        )
        if member.reaches(self._brokers[mq.broker_name]):
            unlocked_ms = self._agenda.now_ms + delay_ms + rest_ms
            self._agenda.add(unlocked_ms, partial(self._locks.release, mq, member))
        else:
            self._locks.leave(member, self._agenda.now_ms, mq.broker_name)

    def end_all(self, member: SimulatedMember, *, is_committed: bool) -> None:
        """End all pulls of a member that ends."""
        for mq, holding in member.held.items():
            self._end(member, mq, holding, is_committed=is_committed)
            if is_committed and member.reaches(self._brokers[mq.broker_name]):
                self._locks.release(mq, member)
        self._locks.leave(member, self._agenda.now_ms)

    def suspend(self, member: SimulatedMember, brokers: frozenset[SimulatedBroker]) -> None:
        """End the pulls from brokers that a member no longer reaches."""
        for mq, holding in member.held.items():
            if self._brokers[mq.broker_name] in brokers:
                self._end(member, mq, holding, is_committed=False)
        for broker in brokers:
            self._locks.leave(member, self._agenda.now_ms, broker.name)

    def stop_broker(self, broker: SimulatedBroker, members: Iterable[SimulatedMember]) -> None:
        """End all pulls from a broker, and its locks."""
        for member in members:
            self.suspend(member, frozenset({broker}))
        self._locks.forget(broker)

    def refuse_older(self, broker: SimulatedBroker, members: Iterable[SimulatedMember]) -> None:
        """Refuse the pulls of members whose version is older than the newest one of a broker."""
        for member in members:
            if self._is_older(member, broker):
                for mq, holding in member.held.items():
                    if mq.broker_name == broker.name and holding.session is not None:
                        self._end(member, mq, holding, is_committed=True)
                        self._pull_later(member, mq, holding, member.timing.pull_retry_ms)

    def renew_version(self, member: SimulatedMember, delay_ms: float) -> None:
        """Give a member whose queues have changed a new version; it can pull again what brokers refused."""
        member.renew_version(self._agenda.now_ms)
        self._agenda.add(self._agenda.now_ms + delay_ms, partial(self._pull_all, member, dict(member.held)))

    def _is_unheard(self, member: SimulatedMember) -> bool:
        since_ms, until_ms = member.unheard_ms
        return self.heard_ms < since_ms and self._agenda.now_ms < until_ms

    def _is_older(self, member: SimulatedMember, broker: SimulatedBroker) -> bool:
        return self._group.refuses_older and member.version_ms < broker.newest_version_ms

    def _pull_later(self, member: SimulatedMember, mq: MessageQueue, holding: Holding, wait_ms: float) -> None:
        """Have a member pull a queue again after a refusal, with a new version; there is one pull request per queue."""
        if not holding.is_waiting:
            holding.is_waiting = True
            self._agenda.add(self._agenda.now_ms + wait_ms, partial(self._pull_again, member, mq, holding))

    def _pull_again(self, member: SimulatedMember, mq: MessageQueue, holding: Holding) -> None:
        holding.is_waiting = False
        if holding.session is None and self._is_older(member, self._brokers[mq.broker_name]):
            member.renew_version(self._agenda.now_ms)
        self._pull(member, mq, holding)

    def resume(self, member: SimulatedMember, broker: SimulatedBroker) -> None:
        """Have a member pull the queues of a broker that it holds, once the broker knows any member of the group."""
        if not broker.members:
            return
        for mq, holding in member.held.items():
            if mq.broker_name == broker.name:
                self._pull(member, mq, holding)

    def _pull_all(self, member: SimulatedMember, taken: Mapping[MessageQueue, Holding]) -> None:
        for mq, holding in taken.items():
            self._pull(member, mq, holding)

    def _pull(self, member: SimulatedMember, mq: MessageQueue, holding: Holding) -> None:
        """Begin to pull a queue, if it is still held, not pulled yet, and its broker can be reached."""
        is_held = member.is_alive and member.held.get(mq) is holding
        if not is_held or holding.session is not None or holding.start is None:
            return
        broker, now_ms = self._brokers[mq.broker_name], self._agenda.now_ms
        if not member.reaches(broker):
            return
        if self._is_unheard(member) or self._is_older(member, broker):
            self._pull_later(member, mq, holding, member.timing.pull_retry_ms)
            return
        if self._group.is_orderly and not self._locks.take(mq, member, now_ms):
            self._pull_later(member, mq, holding, LOCK_RENEW_MS)
            return
        if member.waits_for_queue:
            member.waits_for_queue = False
            self.waited_ms += now_ms - member.started_ms
        holding.session = PullSession(
            self._ledger.queues[mq], holding.start, now_ms, member.commit_phase_ms, member.client_id
        )
        self._ledger.begin(holding.session)

    def _end(
        self, member: SimulatedMember, mq: MessageQueue, holding: Holding, *, is_committed: bool,
        with_last: bool = False, delay_ms: float = 0.0,
    ) -> None:  # fmt: skip
        """End the pulls of a queue, if there are any; `with_last`, the message in the listener is committed as well."""
        session, holding.session = holding.session, None
        if session is None:
            return
        now_ms = self._agenda.now_ms
        if is_committed and member.reaches(self._brokers[mq.broker_name]):
            holding.start = self._ledger.end_committed(session, now_ms, now_ms + delay_ms, with_last=with_last)
        else:
            holding.start = self._ledger.end(session, now_ms)
