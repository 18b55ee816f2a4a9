"""One run of a simulation: members join, leave and rebalance, each with its own timers and its own view of the group.

The decisions are the runtime's own rules (rules/allocate, rules/protection, consumer/rules/rebalance); this module
knows when they are made, and on what knowledge. Source: MQClientInstance, RebalanceService, RebalanceImpl, and on
brokers ConsumerManager and ClientHousekeepingService.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct

from rmqctl.consumer.rules.rebalance import compute_moves
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import sort_queues
from rmqctl.rules.protection import look

from .agenda import Agenda
from .changes import BrokerStart, BrokerStop, Change, CutBegin, Departure, MemberEnd, MemberStart
from .group import ChurnGroup, broker_names
from .ledger import MessageLedger, QueueLedger
from .parties import ClientList, ClientLists, ClientTraits, Holding, SimulatedBroker, SimulatedMember, SimulatedRoute
from .pulls import Pulls
from .shares import Shares
from .timing import CHANNEL_EXPIRED_MS, CHANNEL_SCAN_MS, LEAST_DELAY_MS, MOST_DELAY_MS, THREAD_COUNT, ClientTiming
from .track import Track

# A member that was there before the simulation.
_LONG_AGO_MS = -1e9
# Heartbeats to all brokers take about this long.
_SAME_MOMENT_MS = 50


class ChurnRun(Struct, frozen=True):
    """The result of one run.

    `rebalance_count` counts rebalances in which a member took or dropped queues, `move_count` the queues that a client
    took from another one, `most_queues` is the most that one client had. `shared_ms` and `unowned_ms` are the times
    with two or more owners and with none, summed over queues. `duplicate_count` are messages that were delivered more
    than once, `message_count` all that arrived. `waited_ms` is the sum over members that started of the time until
    their first queue. `settled_ms` is, per change, the time until each queue had one owner, None if it had not before
    the next change.
    """

    rebalance_count: int
    move_count: int
    most_queues: int
    shared_ms: float
    unowned_ms: float
    duplicate_count: int
    message_count: int
    waited_ms: float
    settled_ms: tuple[float | None, ...]


class Simulation:
    """A group from time 0 on; the same seed gives the same run. With `protection_ms` 0, all clients count at once.

    `track` gets what a timeline of the run shows.
    """

    def __init__(self, group: ChurnGroup, *, protection_ms: int, seed: int, track: Track | None = None) -> None:
        self._group = group
        self._random = random.Random(seed)  # noqa: S311 - a simulation must be repeatable
        self._agenda = Agenda()
        self._by_topic: dict[str, list[MessageQueue]] = {}
        # Sorted, so that the order in which brokers answered does not change the result.
        sorted_queues = sort_queues(group.queues)
        for mq in sorted_queues:
            self._by_topic.setdefault(mq.topic, []).append(mq)
        queues = {mq: QueueLedger(group.rates.get(mq, 0.0), self._random.random()) for mq in sorted_queues}
        self._ledger = MessageLedger(
            queues,
            consume_ms=group.consume_ms,
            commit_every_ms=group.commit_every_ms,
            thread_count=1 if group.is_orderly else THREAD_COUNT,
            track=track,
        )
        lists = ClientLists()
        self._brokers = {
            name: SimulatedBroker(name, self._random.uniform(0, CHANNEL_SCAN_MS), lists) for name in broker_names(group)
        }
        self._pulls = Pulls(self._agenda, self._brokers, self._ledger, group)
        self._traits = ClientTraits(self._random, group.skew_ms)
        self._routes: dict[tuple[str, ...], SimulatedRoute] = {}
        self._members: dict[str, SimulatedMember] = {}
        self._shares = Shares(group, self._members, lists, protection_ms)
        self._rebalance_count = self._most_queues = 0
        self._changed_at_ms: float | None = None
        self._settled: list[float | None] = []
        self._place_all()

    def run(self, changes: Sequence[Change], *, for_ms: float) -> ChurnRun:
        """Simulate until `for_ms`, and return what happened."""
        for change in changes:
            if change.at_ms < for_ms:
                self._agenda.add(change.at_ms, partial(self._change, change))
        self._agenda.run(for_ms)
        self._note_settled()
        self._ledger.finish(for_ms)
        waiting_ms = sum(for_ms - member.started_ms for member in self._members.values() if member.waits_for_queue)
        return ChurnRun(
            rebalance_count=self._rebalance_count,
            move_count=self._pulls.move_count,
            most_queues=self._most_queues,
            shared_ms=self._ledger.shared_ms,
            unowned_ms=self._ledger.unowned_ms,
            duplicate_count=self._ledger.duplicate_count,
            message_count=sum(queue.arrived(for_ms) for queue in self._ledger.queues.values()),
            waited_ms=self._pulls.waited_ms + waiting_ms,
            settled_ms=tuple(self._settled),
        )

    def _change(self, change: Change) -> None:
        self._note_settled()
        self._changed_at_ms = self._agenda.now_ms
        if isinstance(change, MemberStart):
            self._start(change)
        elif isinstance(change, BrokerStop):
            self._stop_broker(self._brokers[change.broker_name])
        elif isinstance(change, BrokerStart):
            self._start_broker(self._brokers[change.broker_name])
        elif (member := self._members.get(change.client_id)) is None:
            return
        elif isinstance(change, MemberEnd):
            del self._members[change.client_id]
            self._end(member, change.departure)
        else:
            brokers = frozenset(self._brokers[name] for name in change.broker_names)
            self._cut(member, brokers) if isinstance(change, CutBegin) else self._heal(member, brokers)

    def _note_settled(self) -> None:
        """Note how long the last change took until each queue had one owner again."""
        if self._changed_at_ms is not None:
            at_ms = self._ledger.settled_at_ms
            self._settled.append(None if at_ms is None else max(0.0, at_ms - self._changed_at_ms))

    def _delay_ms(self, member: SimulatedMember) -> float:
        return self._random.uniform(LEAST_DELAY_MS, MOST_DELAY_MS) * member.trait.slowness

    def _gap_ms(self, member: SimulatedMember) -> float:
        return self._random.uniform(0.4, 1.6) * member.timing.broker_gap_ms * member.trait.slowness

    # Members

    def _place_all(self) -> None:
        """Add the members that have been in the group for long, with their queues."""
        draw = self._random.uniform
        for client_id in self._group.client_ids:
            timing = self._timing(client_id)
            phases_ms = (draw(0, timing.heartbeat_ms), draw(0, timing.route_ms), draw(0, self._group.commit_every_ms))
            member = SimulatedMember(
                client_id, client_id, timing, self._route(), started_ms=_LONG_AGO_MS, phases_ms=phases_ms,
                trait=self._traits.get(client_id),
            )  # fmt: skip
            member.waits_for_queue = False
            member.last_rebalance_ms = draw(-timing.rebalance_ms, 0)
            self._members[client_id] = member
            for broker in self._brokers.values():
                broker.add(member)
            self._rebalance_at(member, member.last_rebalance_ms + timing.rebalance_ms)
        for topic in self._by_topic:
            listed = self._shares.visible(topic, next(iter(self._brokers.values())).listed())
            presence = look(None, listed.as_set, 0)
            for member in self._members.values():
                member.presences[topic] = presence
                for mq in self._shares.share(member, topic, listed).queues:
                    self._pulls.place(member, mq)
        self._most_queues = max((len(member.held) for member in self._members.values()), default=0)

    def _timing(self, origin: str) -> ClientTiming:
        return self._group.timings.get(origin, self._group.timing)

    def _start(self, change: MemberStart) -> None:
        now_ms, origin = self._agenda.now_ms, change.origin or change.client_id
        timing = self._timing(origin)
        phases_ms = (now_ms, now_ms, now_ms + timing.first_commit_ms)
        member = SimulatedMember(
            change.client_id, origin, timing, self._route(), started_ms=now_ms, phases_ms=phases_ms,
            trait=self._traits.get(origin),
        )  # fmt: skip
        self._members[change.client_id] = member
        heard_ms = now_ms + timing.start_ms
        for broker in member.route.brokers:
            heard_ms += self._gap_ms(member)
            self._agenda.add(heard_ms, partial(self._register, broker, member))
        wait_ms = timing.rebalance_min_ms if timing.waits_at_start else 0.0
        self._rebalance_at(member, max(heard_ms + self._delay_ms(member), now_ms + wait_ms))

    def _end(self, member: SimulatedMember, departure: Departure) -> None:
        now_ms = self._agenda.now_ms
        member.is_alive = False
        if member.waits_for_queue:
            self._pulls.waited_ms += now_ms - member.started_ms
        self._pulls.end_all(member, is_committed=departure is Departure.STOP)
        heard_ms = now_ms
        for broker in self._brokers.values():
            if departure is Departure.VANISH or broker in member.cut:
                self._agenda.add(self._expires_ms(broker, member), partial(self._expire, broker, member))
            else:
                heard_ms += self._gap_ms(member)
                self._agenda.add(heard_ms, partial(self._unregister, broker, member))

    def _expires_ms(self, broker: SimulatedBroker, member: SimulatedMember) -> float:
        """Return when a broker closes the channel of a member that sends nothing from now on."""
        now_ms = self._agenda.now_ms
        last_heartbeat_ms = member.next_heartbeat_ms(now_ms) - member.timing.heartbeat_ms
        expired_ms = max(last_heartbeat_ms, member.started_ms) + CHANNEL_EXPIRED_MS
        return max(now_ms, expired_ms + (broker.scan_phase_ms - expired_ms) % CHANNEL_SCAN_MS)

    # Brokers and connections

    def _register(self, broker: SimulatedBroker, member: SimulatedMember) -> None:
        """Have a broker hear a heartbeat."""
        if member.is_alive and member.reaches(broker):
            if broker.add(member):
                broker.newest_version_ms = max(broker.newest_version_ms, member.version_ms)
                if self._group.refuses_older:
                    self._pulls.refuse_older(broker, self._members.values())
                self._notify(broker)
            self._pulls.resume(member, broker)

    def _unregister(self, broker: SimulatedBroker, member: SimulatedMember) -> None:
        if broker.remove(member):
            self._notify(broker)

    def _expire(self, broker: SimulatedBroker, member: SimulatedMember) -> None:
        if not member.is_alive or broker in member.cut:
            self._unregister(broker, member)

    def _notify(self, broker: SimulatedBroker) -> None:
        """Have the members of a broker rebalance (DefaultConsumerIdsChangeListener)."""
        soonest_ms = self._agenda.now_ms + LEAST_DELAY_MS
        for member in broker.members:
            if not member.is_alive or broker in member.cut:
                continue
            if member.notified_ms is None:
                member.notified_ms = self._agenda.now_ms
            allowed_ms = member.last_rebalance_ms + member.timing.rebalance_min_ms
            if member.next_rebalance_ms is None or member.next_rebalance_ms > max(soonest_ms, allowed_ms):
                self._rebalance_at(member, max(self._agenda.now_ms + self._delay_ms(member), allowed_ms))

    def _stop_broker(self, broker: SimulatedBroker) -> None:
        broker.stop()
        self._pulls.stop_broker(broker, self._members.values())
        self._set_up(broker, is_up=False)

    def _start_broker(self, broker: SimulatedBroker) -> None:
        broker.is_up = True
        self._set_up(broker, is_up=True)
        for member in self._members.values():
            if broker in member.route.brokers:
                self._reconnect(broker, member)

    def _set_up(self, broker: SimulatedBroker, *, is_up: bool) -> None:
        """Count a broker's queues only while it is up, and have members see later whether it is registered."""
        now_ms = self._agenda.now_ms
        for mq, queue in self._ledger.queues.items():
            if mq.broker_name == broker.name:
                self._ledger.set_up(queue, now_ms, is_up=is_up)
        for member in self._members.values():
            self._agenda.add(member.next_refresh_ms(now_ms), partial(self._refresh, member))

    def _refresh(self, member: SimulatedMember) -> None:
        """Have a member fetch the route; brokers that it did not know get its next heartbeat."""
        before, member.route = member.route, self._route()
        for broker in member.route.brokers:
            if member.is_alive and broker not in before.brokers:
                self._agenda.add(member.next_heartbeat_ms(self._agenda.now_ms), partial(self._register, broker, member))

    def _route(self) -> SimulatedRoute:
        """Return the present route, the same object for the same brokers."""
        brokers = [broker for broker in self._brokers.values() if broker.is_up]
        key = tuple(broker.name for broker in brokers)
        if key not in self._routes:
            self._routes[key] = SimulatedRoute(brokers, self._by_topic)
        return self._routes[key]

    def _cut(self, member: SimulatedMember, brokers: frozenset[SimulatedBroker]) -> None:
        member.cut |= brokers
        self._pulls.suspend(member, brokers)
        for broker in sorted(brokers, key=lambda broker: broker.name):
            self._agenda.add(self._expires_ms(broker, member), partial(self._expire, broker, member))

    def _heal(self, member: SimulatedMember, brokers: frozenset[SimulatedBroker]) -> None:
        member.cut -= brokers
        for broker in sorted(brokers, key=lambda broker: broker.name):
            self._reconnect(broker, member)

    def _reconnect(self, broker: SimulatedBroker, member: SimulatedMember) -> None:
        """Have a member reach a broker again: at its next pull, if it has a queue there, and at its next heartbeat."""
        now_ms, timing = self._agenda.now_ms, member.timing
        self._agenda.add(member.next_heartbeat_ms(now_ms), partial(self._register, broker, member))
        if any(mq.broker_name == broker.name for mq in member.held):
            at_ms = now_ms + self._random.uniform(0, timing.pull_retry_ms)
            if timing.beats_on_connect:
                self._agenda.add(at_ms, partial(self._register, broker, member))
            else:
                self._agenda.add(at_ms, partial(self._pulls.resume, member, broker))

    # Queues

    def _take(self, member: SimulatedMember, taken: Mapping[MessageQueue, Holding]) -> None:
        """Take queues; those that cannot be taken are tried again."""
        timing, now_ms = member.timing, self._agenda.now_ms
        pull_after_ms = timing.first_pull_ms
        refused_share = timing.refused_first_share if member.waits_for_queue else timing.refused_share
        # The slower a client is, the later brokers hear the version that its pulls need.
        if refused_share and self._random.random() < refused_share * member.trait.slowness:
            pull_after_ms += timing.pull_retry_ms
        again_ms = self._pulls.take(member, taken, pull_after_ms=pull_after_ms)
        if again_ms is not None:
            member.views.clear()
            allowed_ms = member.last_rebalance_ms + timing.rebalance_min_ms
            self._rebalance_at(member, max(allowed_ms, now_ms + min(again_ms, timing.rebalance_ms)))

    # Rebalances

    def _rebalance_at(self, member: SimulatedMember, at_ms: float) -> None:
        """Have a member rebalance at a time, unless it will do so sooner."""
        if member.next_rebalance_ms is None or at_ms < member.next_rebalance_ms:
            member.next_rebalance_ms = at_ms
            self._agenda.add(at_ms, partial(self._rebalance, member, at_ms))

    def _rebalance(self, member: SimulatedMember, at_ms: float) -> None:
        if not member.is_alive or member.next_rebalance_ms != at_ms:
            return
        member.next_rebalance_ms, member.last_rebalance_ms = None, at_ms
        has_changed = [self._balance(member, topic) for topic in self._by_topic]
        member.notified_ms = None
        self._rebalance_count += any(has_changed)
        self._rebalance_at(member, min(at_ms + member.timing.rebalance_ms, self._shares.next_counted_ms(member)))

    def _balance(self, member: SimulatedMember, topic: str) -> bool:
        """Rebalance one topic of a member; return whether it drops or takes queues."""
        found = self._ask(member, topic)
        if found is None:
            return False
        listed = self._shares.visible(topic, self._shares.with_missing(member, topic, found))
        counted = self._shares.counted(member, topic, listed, int(self._agenda.now_ms))
        view = member.route, listed, counted
        if member.views.get(topic) == view:
            return False
        member.views[topic] = view
        moves = compute_moves(
            [mq for mq in member.held if mq.topic == topic], self._shares.share(member, topic, counted)
        )
        if moves.drop or moves.take:
            self._announce_version(member)
        delay_ms = self._delay_ms(member)
        for mq in moves.drop:
            self._pulls.drop(member, mq, delay_ms=delay_ms)
        if self._group.refuses_older and (moves.drop or moves.take):
            self._pulls.renew_version(member, delay_ms)
        if moves.take:
            taken = {mq: Holding() for mq in moves.take}
            member.held |= taken
            self._most_queues = max(self._most_queues, len(member.held))
            if moves.drop and member.timing.commits_first:
                # The acknowledgement of the commit comes back before the offsets are asked for.
                delay_ms += 2 * self._delay_ms(member)
            self._agenda.add(self._agenda.now_ms + delay_ms, partial(self._take, member, taken))
        return bool(moves.drop or moves.take)

    def _announce_version(self, member: SimulatedMember) -> None:
        """Send the new version of a member's subscription, which its first regular heartbeat can prevent."""
        first_ms, now_ms = member.started_ms + member.timing.first_heartbeat_ms, self._agenda.now_ms
        if abs(now_ms - first_ms) < _SAME_MOMENT_MS and self._random.random() < member.timing.unheard_share:
            member.unheard_ms = now_ms, first_ms + member.timing.heartbeat_ms
        else:
            self._pulls.heard_ms = now_ms

    def _ask(self, member: SimulatedMember, topic: str) -> ClientList | None:
        """Return the list of a random broker of a topic, None if those that are asked do not answer.

        A broker that knows no member of the group answers with an error.
        """
        brokers = member.route.places[topic]
        if not brokers:
            return None
        count = min(member.timing.asked_brokers, len(brokers))
        asked = [self._random.choice(brokers)] if count == 1 else self._random.sample(brokers, count)
        answers = (broker.listed() for broker in asked if member.reaches(broker) and broker.members)
        return next(answers, None)
