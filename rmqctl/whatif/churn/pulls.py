"""The pulls of all members: how queues are taken, pulled, suspended and dropped."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from rmqctl.model.queue import MessageQueue

from .agenda import Agenda
from .ledger import MessageLedger, PullSession
from .parties import Holding, SimulatedBroker, SimulatedMember


class Pulls:
    """What members do with the queues that they hold.

    `move_count` counts the queues that a client took from another one, `waited_ms` is the time until their first pull
    of those members that have pulled.
    """

    def __init__(self, agenda: Agenda, brokers: Mapping[str, SimulatedBroker], ledger: MessageLedger) -> None:
        self._agenda = agenda
        self._brokers = brokers
        self._ledger = ledger
        self.move_count = 0
        self.waited_ms = 0.0

    def place(self, member: SimulatedMember, mq: MessageQueue) -> None:
        """Have a member hold and pull a queue from the beginning on."""
        self._ledger.queues[mq].last_owner = member.client_id
        holding = member.held[mq] = Holding()
        holding.start = 0
        self._pull(member, mq, holding)

    def take(self, member: SimulatedMember, taken: Mapping[MessageQueue, Holding]) -> bool:
        """Read the offsets of taken queues, and pull them a little later. Return False if a broker did not answer."""
        is_complete, now_ms = True, self._agenda.now_ms
        for mq, holding in taken.items():
            if not member.is_alive or member.held.get(mq) is not holding:
                continue
            if not member.reaches(self._brokers[mq.broker_name]):
                del member.held[mq]
                is_complete = False
                continue
            queue = self._ledger.queues[mq]
            self.move_count += queue.last_owner != member.client_id
            queue.last_owner = member.client_id
            holding.start = self._ledger.read_committed(queue, now_ms)
        self._agenda.add(now_ms + member.timing.first_pull_ms, partial(self._pull_all, member, taken))
        return is_complete

    def drop(self, member: SimulatedMember, mq: MessageQueue, *, delay_ms: float) -> None:
        """Have a member drop a queue; its commit arrives at the broker after `delay_ms`."""
        self._end(member, mq, member.held.pop(mq), is_committed=True, delay_ms=delay_ms)

    def end_all(self, member: SimulatedMember, *, is_committed: bool) -> None:
        """End all pulls of a member that ends."""
        for mq, holding in member.held.items():
            self._end(member, mq, holding, is_committed=is_committed)

    def suspend(self, member: SimulatedMember, brokers: frozenset[SimulatedBroker]) -> None:
        """End the pulls from brokers that a member no longer reaches."""
        for mq, holding in member.held.items():
            if self._brokers[mq.broker_name] in brokers:
                self._end(member, mq, holding, is_committed=False)

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
        if not member.reaches(self._brokers[mq.broker_name]):
            return
        now_ms = self._agenda.now_ms
        if member.waits_for_queue:
            member.waits_for_queue = False
            self.waited_ms += now_ms - member.started_ms
        holding.session = PullSession(self._ledger.queues[mq], holding.start, now_ms, member.commit_phase_ms)
        self._ledger.begin(holding.session)

    def _end(
        self, member: SimulatedMember, mq: MessageQueue, holding: Holding, *, is_committed: bool, delay_ms: float = 0.0
    ) -> None:
        """End the pulls of a queue, if there are any."""
        session, holding.session = holding.session, None
        if session is None:
            return
        now_ms = self._agenda.now_ms
        if is_committed and member.reaches(self._brokers[mq.broker_name]):
            self._ledger.end_committed(session, now_ms, now_ms + delay_ms)
        else:
            holding.start = self._ledger.end(session, now_ms)
