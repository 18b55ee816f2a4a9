"""Sample many groups again and again, with a bounded rate of requests to each broker.

A round reads the offsets of all groups: per broker, one GET_ALL_CONSUMER_OFFSET for the stored offsets, and then the
ends of the queues by one GET_TOPIC_STATS_INFO per topic. With more topics than the rate allows, one
GET_BROKER_CONSUME_STATS returns all ends instead. What needs requests per group is read between the rounds, one group
after the other: see fleet_activity.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from rmqctl.admin.results import all_failed, ask_all
from rmqctl.client.core import Client
from rmqctl.client.duplicates import find_duplicates
from rmqctl.errors import NoBrokerError, NotFoundError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupState
from rmqctl.model.names import RETRY_PREFIX, is_system_group
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Absence, BrokerData, TopicRoute
from rmqctl.model.sample import GroupSample, QueueSample
from rmqctl.rules.cluster_memory import is_forgotten
from rmqctl.rules.group_state import reason_of
from rmqctl.rules.readable_queues import is_unreadable
from rmqctl.text.wildcards import is_pattern, matching

from .cut_ends import CutReader, count_cut
from .fleet_activity import ActivityReader, GroupActivity, GroupKey, KnownGroup
from .fleet_ends import EndReader, FleetReading, Offsets
from .fleet_round import FleetRound
from .group_sampler import MembersSample
from .masters import PacedMasters
from .pace import Pace
from .recording import QueueDetail, RecordedSample

# With more groups, only members of urgent groups are asked which queues they hold.
_FEW_GROUPS = 20
# An urgent group is asked this many times as often as the others.
_URGENCY = 4
_AT_ONCE = 2
# How long a route is used before it is read again.
_ROUTE_S = 300.0
# How long members may be asked before the first round, so that its result is not without them.
FIRST_LOOK_S = 4.0


class FleetSampler:
    """Samples the groups that names and patterns match, or all groups; `every_s` is the time between rounds.

    Members are asked for `first_look_s` before the first round; with 0, it is without them.

    A group has samples when it has stored offsets, or when it is named and its members subscribe to topics. A queue
    that was seen once stays part of its group while its broker does not answer, with unknown offsets.
    """

    def __init__(
        self,
        client: Client,
        groups: Sequence[str],
        *,
        every_s: float,
        rate_per_s: float,
        first_look_s: float = FIRST_LOOK_S,
    ) -> None:
        self._client = client
        self._first_look_s = first_look_s
        self._patterns = groups
        self.pace = Pace(client.clock, rate_per_s)
        masters = PacedMasters(client, self.pace)
        self._end_reader = EndReader(masters, max(4, int(every_s * rate_per_s / 2)))
        self._cut_reader = CutReader(masters, max(2, int(every_s * rate_per_s / 4)))
        self._activity_reader = ActivityReader(masters)
        self._brokers: dict[str, BrokerData] = {}
        self._read_brokers: set[str] = set()
        self._known: dict[GroupKey, KnownGroup] = {}
        self._activities: dict[GroupKey, GroupActivity] = {}
        self._routes: dict[str, tuple[float, TopicRoute | None]] = {}
        self._look_s = 0.0
        # When the last round began, on the client's clock.
        self.last_round_s = float("-inf")

    async def sample(self) -> FleetRound:
        """Read one round. Until a broker has been read, raises the servers' error when none of them is."""
        is_first = not self._read_brokers
        found = await self._round()
        if is_first and self._first_look_s:
            await self.look_closer(self._first_look_s, undated=self._known)
            found = await self._round()
        return found

    async def look_closer(
        self,
        for_s: float,
        urgent: Collection[GroupKey] = (),
        undated: Collection[GroupKey] = (),
        focus: GroupKey | None = None,
    ) -> None:
        """Ask about single groups for this long, those first that were not asked for the longest time.

        `urgent` groups are asked more often, and `focus` always. `undated` groups have unread messages of unknown age.
        """
        clock = self._client.clock
        began_s = clock.monotonic_s()

        def waited_s(key: GroupKey) -> float:
            if key == focus:
                return float("inf")
            return (began_s - self._activity_of(key).asked_s) * (_URGENCY if key in urgent else 1)

        keys = iter(sorted(self._known, key=waited_s, reverse=True))
        began_count = 0

        async def work() -> None:
            nonlocal began_count
            for key in keys:
                look_began_s = clock.monotonic_s()
                # One that takes as long as the last one must end in time, or it would delay the next round. One is
                # read in any case: if rounds are always late, members would never be.
                if began_count and look_began_s + self._look_s >= began_s + for_s:
                    return
                began_count += 1
                self._activities[key] = await self._activity_reader.read(
                    key.group,
                    self._known[key],
                    self._activity_of(key),
                    with_queues=key in urgent or key == focus or len(self._known) <= _FEW_GROUPS,
                    with_ages=key in undated,
                )
                self._look_s = clock.monotonic_s() - look_began_s

        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))

    def _activity_of(self, key: GroupKey) -> GroupActivity:
        return self._activities.get(key) or _NOTHING_ASKED

    # Reading a round

    async def _round(self) -> FleetRound:
        at_ms, at_s = self._client.clock.now_ms(), self._client.clock.monotonic_s()
        failures = await self._find_brokers()
        is_list_read = not any(failure.broker_name is None for failure in failures)
        reading = await self._read()
        if not reading.stored and not self._read_brokers:
            raise all_failed([*reading.failed.values(), *(failure.error for failure in failures)])
        self._read_brokers |= reading.stored.keys()
        self._activity_reader.versions |= {name: table.version for name, table in reading.stored.items()}
        await self._find_routes(reading)
        samples = self._samples(at_ms, at_s, reading)
        unseen: dict[str, list[str]] = defaultdict(list)
        for name in sorted(reading.failed.keys() - self._read_brokers):
            unseen[self._brokers[name].cluster].append(name)
        failures += reading.failures()
        for key in samples:
            if (members := self._fresh_members(key)) is not None:
                failures += members.failures
        self.last_round_s = at_s
        return FleetRound(
            at_ms,
            samples,
            # Each place and kind once.
            tuple({(each.broker_name, each.what, each.error.name): each for each in failures}.values()),
            {cluster: tuple(names) for cluster, names in unseen.items()},
            {key: self._activity_of(key) for key in samples},
            {key: self._unreadable(key, reading) for key in samples},
            {
                cluster: frozenset(brokers)
                for cluster, brokers in self._by_cluster().items()
                if is_list_read and not brokers.keys() & reading.failed.keys()
            },
        )

    def _by_cluster(self) -> dict[str, dict[str, BrokerData]]:
        by_cluster: dict[str, dict[str, BrokerData]] = defaultdict(dict)
        for name, broker in self._brokers.items():
            by_cluster[broker.cluster][name] = broker
        return by_cluster

    async def _find_brokers(self) -> list[Failure]:
        """Update the brokers; those that were seen once stay, because their queues do not disappear with them."""
        try:
            cluster = await self._client.fresh_cluster()
        except RmqctlError as error:
            if not self._brokers:
                raise
            return [Failure(None, "list of brokers", error)]
        now = {broker.broker_name: broker for broker in cluster.brokers}
        if not now and not self._brokers:
            raise NoBrokerError(self._client.name_servers)
        seen = self._client.sightings.brokers
        gone = {
            name: replace(broker, addresses={}, absence=Absence(seen[name].last_seen_ms, seen[name].address))
            for name, broker in self._brokers.items()
            if name not in now and name in seen
            if not is_forgotten(self._client.expectation, name, seen[name].last_seen_ms)
        }
        self._brokers = {**now, **gone}
        return [*self._client.name_server_views.differences(), *await find_duplicates(self._client)]

    async def _read(self) -> FleetReading:
        stored = await ask_all(
            self._brokers, lambda name: self._end_reader.read_stored(self._brokers[name], self.is_wanted)
        )
        topics: dict[str, set[str]] = defaultdict(set)  # by cluster
        for name, table in stored.ok.items():
            topics[self._brokers[name].cluster] |= {topic for offsets in table.groups.values() for topic in offsets}
        for key, activity in self._activities.items():
            if activity.members is not None:
                topics[key.cluster] |= activity.members.subscribed
        ends = await ask_all(
            stored.ok,
            lambda name: self._end_reader.read_ends(
                self._brokers[name], stored.ok[name], topics[self._brokers[name].cluster]
            ),
        )
        cut = await self._cut_reader.read_all(self._brokers, stored.ok, ends.ok)
        return FleetReading(stored.ok, ends.ok, {**stored.failed, **ends.failed}, *cut)

    def is_wanted(self, group: str) -> bool:
        """Return whether the names and patterns match a group."""
        if not self._patterns:
            return not is_system_group(group)
        return group in self._patterns or (not is_system_group(group) and bool(matching(self._patterns, [group])))

    async def _find_routes(self, reading: FleetReading) -> None:
        """Read the routes of topics that have queues without a stored offset: some may not be readable."""
        now_s = self._client.clock.monotonic_s()
        self._routes = {topic: kept for topic, kept in self._routes.items() if kept[0] > now_s}
        topics = {
            topic
            for name, ends in reading.ends.items()
            for offsets in reading.stored[name].groups.values()
            for topic, stored in offsets.items()
            for mq, end in ends.topics.get(topic, {}).items()
            if end.max_offset and mq.queue_id not in stored
        }
        read = {topic for ends in reading.ends.values() for topic in ends.topics}
        for activity in self._activities.values():
            if activity.members is not None:
                topics |= activity.members.subscribed & read
        answers = await ask_all(topics - self._routes.keys(), self._client.fresh_route, at_once=_AT_ONCE)
        gone = [topic for topic, error in answers.failed.items() if isinstance(error, NotFoundError)]
        self._routes |= {topic: (now_s + _ROUTE_S, route) for topic, route in answers.ok.items()}
        self._routes |= dict.fromkeys(gone, (now_s + _ROUTE_S, None))

    # From answers to samples

    def _samples(self, at_ms: int, at_s: float, reading: FleetReading) -> dict[GroupKey, RecordedSample]:
        keys = {
            GroupKey(self._brokers[name].cluster, group)
            for name, table in reading.stored.items()
            for group in table.groups
        }
        keys |= {key for key, known in self._known.items() if known.queues}
        keys |= self._named_keys(keys)
        by_cluster = self._by_cluster()
        samples = {}
        known = {}
        for key in sorted(keys):
            brokers = by_cluster[key.cluster]
            pairs = [*self._read_queues(key, brokers, reading), *self._lost_queues(key, reading)]
            queues = {queue.mq: queue for queue, _ in sorted(pairs, key=lambda pair: pair[0].mq)}
            lagging = {
                mq: queue.consumer_offset or 0
                for mq, queue in queues.items()
                if queue.max_offset and (queue.consumer_offset or 0) < queue.max_offset
            }
            known[key] = KnownGroup(brokers, frozenset(queues), lagging)
            if queues:
                sample = self._group_sample(at_ms, at_s, key, queues, reading.failed)
                samples[key] = RecordedSample(sample, key.cluster, {queue.mq: detail for queue, detail in pairs})
        self._known = known
        self._activities = {key: activity for key, activity in self._activities.items() if key in known}
        return samples

    def _named_keys(self, found: Collection[GroupKey]) -> set[GroupKey]:
        """Return keys for groups that were named and have no offsets: their members may subscribe to topics."""
        groups = {key.group for key in found}
        names = [name for name in self._patterns if not is_pattern(name) and name not in groups]
        return {GroupKey(broker.cluster, name) for broker in self._brokers.values() for name in names}

    def _group_sample(
        self,
        at_ms: int,
        at_s: float,
        key: GroupKey,
        queues: Mapping[MessageQueue, QueueSample],
        failed: Mapping[str, RmqctlError],
    ) -> GroupSample:
        members, asked_ms_ago = self._fresh_members(key), (at_s - self._activity_of(key).members_s) * 1000
        lost = {mq.broker_name for mq in queues} & failed.keys()
        failures = [Failure(name, "offsets", failed[name]) for name in sorted(lost)]
        return GroupSample(
            at_ms=at_ms,
            monotonic_s=at_s,
            group=key.group,
            state=GroupState.UNKNOWN if members is None else members.state,
            client_ids=() if members is None else members.client_ids,
            queues=queues,
            silent_ids=() if members is None else members.silent_ids,
            failures=(*failures, *(() if members is None else members.failures)),
            clients={} if members is None else members.clients,
            members_at_ms=None if members is None else at_ms - round(asked_ms_ago),
        )

    def _read_queues(
        self, key: GroupKey, brokers: Collection[str], reading: FleetReading
    ) -> Iterator[tuple[QueueSample, QueueDetail]]:
        """Yield the queues of a group on the brokers that were read."""
        topics = self._topics_of(key, brokers, reading)
        for name in brokers & reading.ends.keys():
            ends = reading.ends[name]
            offsets = reading.stored[name].groups.get(key.group, {})
            consumed = (ends.consumed or {}).get(key.group, {})
            for mq, end in (pair for topic in topics for pair in ends.topics.get(topic, {}).items()):
                wrapper = consumed.get(mq)
                # The offset of the same moment as the end, unless it is 0, which can mean "none stored".
                offset = wrapper.consumer_offset if wrapper is not None else 0
                offset_or_none = offset or offsets.get(mq.topic, {}).get(mq.queue_id)
                if offset_or_none is None and end.max_offset:
                    _, route = self._routes.get(mq.topic, (0.0, None))
                    if is_unreadable(mq, route):
                        continue
                last_timestamp_ms = wrapper.last_timestamp_ms if wrapper is not None else None
                queue = QueueSample(mq, offset_or_none, end.max_offset)
                yield (
                    self._with_members(key, queue),
                    QueueDetail(end.min_offset, last_timestamp_ms, offset_or_none is None),
                )
            for topic, error in ends.failed.items():
                for queue_id, offset in offsets.get(topic, {}).items() if topic in topics else ():
                    queue = QueueSample(
                        MessageQueue(topic, name, queue_id), offset, reasons={"maxOffset": reason_of([error])}
                    )
                    yield self._with_members(key, queue), QueueDetail(is_none_stored=False)

    def _unreadable(self, key: GroupKey, reading: FleetReading) -> dict[MessageQueue, int]:
        if not reading.cut:
            return {}
        names = self._by_cluster()[key.cluster].keys()
        stored = {name: reading.stored[name].groups.get(key.group, {}) for name in names & reading.cut.keys()}
        return count_cut(reading.cut, stored, self._topics_of(key, names, reading))

    def _topics_of(self, key: GroupKey, brokers: Collection[str], reading: FleetReading) -> set[str]:
        """Return the topics that count for a group: an online group does not consume those that it unsubscribed from.

        Their offsets are left over.
        """
        stored: list[Offsets] = [
            reading.stored[name].groups[key.group]
            for name in brokers & reading.stored.keys()
            if key.group in reading.stored[name].groups
        ]
        topics = {topic for offsets in stored for topic in offsets}
        reports = [ends.consumed for name, ends in reading.ends.items() if name in brokers and ends.consumed]
        if reports:
            # These leave out topics without a subscription themselves.
            topics = {mq.topic for report in reports for mq in report.get(key.group, ())}
        members = self._activity_of(key).members
        if members is None:
            return topics
        if members.knows_topics:
            topics = {topic for topic in topics if topic in members.subscribed or topic.startswith(RETRY_PREFIX)}
        return topics | members.subscribed

    def _lost_queues(self, key: GroupKey, reading: FleetReading) -> Iterator[tuple[QueueSample, QueueDetail]]:
        """Yield the queues of a group that were seen on brokers which do not answer now."""
        for mq in self._known[key].queues if key in self._known else ():
            if mq.broker_name in reading.failed:
                reason = reason_of([reading.failed[mq.broker_name]])
                queue = QueueSample(mq, reasons=dict.fromkeys(("consumerOffset", "maxOffset"), reason))
                yield self._with_members(key, queue), QueueDetail()

    def _with_members(self, key: GroupKey, queue: QueueSample) -> QueueSample:
        """Return the queue with what members report, and with reasons for what is unknown."""
        mq, reasons, offset = queue.mq, dict(queue.reasons), queue.consumer_offset
        ever, now = self._activity_of(key).members, self._fresh_members(key)
        if ever is not None and ever.is_broadcasting:
            # Members keep their offsets in local files; what a broker has is left over.
            offset, reasons["consumerOffset"] = None, Unknown.BROADCASTING
        elif offset is None:
            reasons.setdefault("consumerOffset", Unknown.NEVER_COMMITTED)
        owners = () if now is None else now.owners_of(mq)
        if not owners:
            reasons["clientId"] = Unknown.NOT_REPORTED if now is None else now.unowned
        return QueueSample(mq, offset, queue.max_offset, owners, now is not None and now.is_popped(mq), reasons)

    def _fresh_members(self, key: GroupKey) -> MembersSample | None:
        """Return the members of a group if they were asked since the last round."""
        activity = self._activity_of(key)
        return activity.members if activity.asked_s >= self.last_round_s else None


_NOTHING_ASKED = GroupActivity()
