"""Reads what needs requests for single groups: members, messages in flight, ages, dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from rmqctl.admin.groups.members import fetch_connections, find_proxies
from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupConnections, Proxies
from rmqctl.model.names import DLQ_PREFIX, PROXY_GROUP
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.versions import V5_0_0
from rmqctl.rules.member_settings import pops
from rmqctl.rules.time_lag import Anchor

from .group_sampler import GroupSampler, MembersSample
from .masters import PacedMasters

# How long the existence of proxies and a number of dead letters are used before they are read again.
_PROXIES_S = 60.0
_DEAD_LETTERS_S = 60.0


class GroupKey(NamedTuple):
    """A group of a cluster."""

    cluster: str
    group: str


class InFlight(Struct, frozen=True):
    """Messages of a topic that were pulled and not committed, and those that were not pulled yet, at one moment."""

    inflight: int = 0
    ready: int = 0

    def plus(self, other: InFlight) -> InFlight:
        """Return the sum."""
        return InFlight(self.inflight + other.inflight, self.ready + other.ready)


class GroupActivity(Struct, frozen=True):
    """What the last requests for one group returned. `members` is None before the first ones.

    `asked_s` is when they ended, `members_s` when members were asked. `in_flight` is by topic, None when unknown.
    `dead_letters` is the number of messages that ever reached the dead-letter topic, None when a broker did not report
    it. `anchors` are the store times of unread messages.
    """

    asked_s: float = float("-inf")
    members: MembersSample | None = None
    members_s: float = float("-inf")
    in_flight: Mapping[str, InFlight] | None = None
    dead_letters: int | None = None
    dead_letters_s: float = float("-inf")
    anchors: Mapping[MessageQueue, Anchor] = {}


class KnownGroup(Struct, frozen=True):
    """What a round shows of a group: its brokers by name, its queues, and the offsets of those with unread messages."""

    brokers: Mapping[str, BrokerData]
    queues: frozenset[MessageQueue]
    lagging: Mapping[MessageQueue, int]


class ActivityReader:
    """Reads the activity of one group at a time. `versions` are by broker name."""

    def __init__(self, masters: PacedMasters) -> None:
        self._masters = masters
        self._client, self._pace = masters.client, masters.pace
        self.versions: dict[str, int] = {}
        self._proxies: dict[frozenset[BrokerData], tuple[float, tuple[Proxies, list[Failure]]]] = {}

    async def read(
        self, group: str, known: KnownGroup, before: GroupActivity, *, with_queues: bool, with_ages: bool
    ) -> GroupActivity:
        """Return the activity; what cannot be read is unknown. `with_queues` asks members which queues they hold.

        `with_ages` asks for the store times of unread messages.
        """
        clock = self._client.clock
        sampler = GroupSampler(self._client, group, known.brokers, self._pace, self._find_proxies)
        members_s = clock.monotonic_s()
        members = await sampler.sample_members(with_queues=with_queues)
        is_popped = members.is_popping or any(map(pops, members.running.values()))
        is_pulled = not (is_popped or members.is_broadcasting)
        in_flight = await self._ask_in_flight(group, known) if is_pulled else None
        anchors = {mq: anchor for mq, anchor in before.anchors.items() if mq in known.lagging}
        if with_ages:
            anchors |= await self._ask_ages(group, known, anchors)
        dead_letters, dead_letters_s = before.dead_letters, before.dead_letters_s
        if dead_letters_s <= clock.monotonic_s() - _DEAD_LETTERS_S:
            dead_letters, dead_letters_s = await self._count_dead_letters(group, known), clock.monotonic_s()
        return GroupActivity(clock.monotonic_s(), members, members_s, in_flight, dead_letters, dead_letters_s, anchors)

    async def _find_proxies(self, client: Client, brokers: Iterable[BrokerData]) -> tuple[Proxies, list[Failure]]:
        """Return the result of find_proxies(), which is used for _PROXIES_S."""
        asked = frozenset(brokers)
        until_s, found = self._proxies.get(asked, (0.0, None))
        now_s = client.clock.monotonic_s()
        if found is not None and now_s < until_s:
            return found

        async def ask(broker: BrokerData) -> GroupConnections | None:
            await self._pace.turn(broker.broker_name)
            return await fetch_connections(client, broker, PROXY_GROUP)

        found = await find_proxies(client, asked, ask)
        self._proxies = {each: kept for each, kept in self._proxies.items() if kept[0] > now_s}
        self._proxies[asked] = now_s + _PROXIES_S, found
        return found

    async def _ask_in_flight(self, group: str, known: KnownGroup) -> Mapping[str, InFlight] | None:
        """Return the messages in flight by topic, None when a broker does not report them.

        Brokers without a lag are not asked: nothing can be in flight there.
        """
        if any(self.versions.get(mq.broker_name, 0) < V5_0_0 for mq in known.queues):
            return None

        async def ask(name: str) -> dict[str, InFlight]:
            answer = await self._masters.ask(known.brokers[name], headers.get_consume_stats(group))
            sums: dict[str, InFlight] = {}
            for mq, each in bodies.decode_consume_stats(answer.body).queues.items():
                pulled = min(max(each.pull_offset or 0, each.consumer_offset), each.broker_offset)
                one = InFlight(max(0, pulled - each.consumer_offset), each.broker_offset - pulled)
                sums[mq.topic] = sums.get(mq.topic, InFlight()).plus(one)
            return sums

        answers = await ask_all(sorted({mq.broker_name for mq in known.lagging}), ask)
        if answers.failed:
            return None
        found = {mq.topic: InFlight() for mq in known.queues}
        for sums in answers.ok.values():
            found |= {topic: found[topic].plus(each) for topic, each in sums.items() if topic in found}
        return found

    async def _ask_ages(
        self, group: str, known: KnownGroup, anchors: Mapping[MessageQueue, Anchor]
    ) -> dict[MessageQueue, Anchor]:
        """Return the store times of the first unread messages of queues whose offset has changed."""
        offsets = {
            mq: offset for mq, offset in known.lagging.items() if mq not in anchors or anchors[mq].offset != offset
        }

        async def ask(place: tuple[str, str]) -> dict[MessageQueue, Anchor]:
            name, topic = place
            answer = await self._masters.ask(known.brokers[name], headers.get_consume_time_span(topic, group))
            now_ms = self._client.clock.now_ms()
            return {
                mq: Anchor(offsets[mq], now_ms - span.head_age_ms)
                for mq, span in bodies.decode_consume_time_span(answer.body).items()
                if mq in offsets and span.head_age_ms is not None and span.head_age_ms > 0
            }

        answers = await ask_all(sorted({(mq.broker_name, mq.topic) for mq in offsets}), ask)
        return {mq: anchor for found in answers.ok.values() for mq, anchor in found.items()}

    async def _count_dead_letters(self, group: str, known: KnownGroup) -> int | None:
        async def ask(name: str) -> int:
            found = await self._masters.topic_offsets(known.brokers[name], DLQ_PREFIX + group)
            return sum(each.max_offset for each in found.values())

        answers = await ask_all(known.brokers, ask)
        return None if answers.failed else sum(answers.ok.values())
