"""Read the offsets of many groups with few requests per group; admin/offsets/group.py reads one group in full detail.

Shared facts are read once: each broker's table of stored offsets, each topic's min and max offsets. Message ages and
retention are not read: for ages, a broker reads messages from its disk. All requests are read-only.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.brokers.tables import fetch_all_offsets, fetch_configs
from rmqctl.admin.groups.held_queues import note_held
from rmqctl.admin.groups.members import RELAYED_AT_ONCE, addresses_of, ask_running_info, ask_through, find_proxies
from rmqctl.admin.groups.names import require_group
from rmqctl.admin.results import (
    Answers,
    all_failed,
    ask_all,
    ask_any,
    merge_failures,
    only_or_failed,
    pick,
    unread_brokers,
)
from rmqctl.client.core import Client
from rmqctl.client.partial_answers import find_silent_servers, slave_failures
from rmqctl.client.stored_offsets import fetch_stored_offsets
from rmqctl.errors import BrokerError, DeadlineError, NotFoundError, RmqctlError, UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.group import RunningInfo
from rmqctl.model.names import RETRY_PREFIX, is_system_group
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue, queues_by_broker
from rmqctl.model.route import BrokerData
from rmqctl.model.stats import TopicOffset
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.text.wildcards import is_pattern, matching
from rmqctl.text.words import counted

from .conclusion import conclude
from .cut_queues import read_cut_queues
from .group import fetch_view, find_hidden
from .reading import BrokerView, GroupProgress, GroupReading
from .retry_topics import with_retry_topics

# More would only compete for the brokers' admin threads.
_GROUPS_AT_ONCE = 8
# After this many silent members, a broker is not asked for more: clients in some languages never answer.
_SILENT_ENOUGH = 32
# A broker that failed to answer this often is not asked again: each attempt uses up the whole time for one attempt.
_UNANSWERED_ENOUGH = 3

# Queue id to stored offset, by group and topic.
_Table = Mapping[str, Mapping[str, Mapping[int, int]]]


class FleetProgress(Struct, frozen=True):
    """All groups that were read, sorted by name, and the failures, each reason once.

    Rows are those of fetch_group_progress() without ages, rates and retention, and those of topics that an online group
    has left, but not its offsets there: brokers do not report these. `clusters` are by broker name. `names` are all
    groups of the cluster, and `configured` those with a configuration on some broker; both are None if a broker did not
    report its groups, or was not asked for them. `unlisted` are brokers that no name server lists and whose queues
    members hold: any group may have more queues there, and there may be more groups.
    """

    groups: tuple[GroupProgress, ...]
    failures: tuple[Failure, ...]
    clusters: Mapping[str, str]
    names: frozenset[str] | None = None
    configured: frozenset[str] | None = None
    unlisted: frozenset[str] = frozenset()


class _Found(Struct, frozen=True):
    """The results of the first requests: brokers by name, their tables of stored offsets, and the selected groups."""

    brokers: Mapping[str, BrokerData]
    tables: Answers[str, _Table]
    names: tuple[str, ...]
    failures: tuple[Failure, ...]
    known: frozenset[str] | None = None
    configured: frozenset[str] | None = None


async def require_groups(client: Client, groups: Sequence[str] = ()) -> None:
    """Raise NotFoundError for a name or pattern that matches no group, and the brokers' error when none answers."""
    found = await _find(client, groups)
    failed = found.tables.failed
    for name in groups:
        if not is_pattern(name):
            await require_group(client, name, found.brokers, failed)


async def fetch_fleet_progress(client: Client, groups: Sequence[str] = (), topics: Sequence[str] = ()) -> FleetProgress:
    """Return the progress of all groups, or of those that names and patterns match, in all or the matching topics.

    A group that does not consume the topics is left out. An offset that consume stats leave open (0, or missing) is
    read from the table, which is a little older. Raises NotFoundError for a pattern that matches nothing, and the
    brokers' error when no group could be read.
    """
    found = await _find(client, groups)
    reader = _Reader(client, found)
    answers = await ask_all(found.names, lambda name: reader.read(name, topics), at_once=_GROUPS_AT_ONCE)
    if found.names:
        only_or_failed(answers)
    if topics:
        pick("Topic", topics, reader.seen_topics, unread_brokers(client, found.tables.failed))
    read = {name: _concluded(name, reading) for name, reading in answers.ok.items() if reading is not None}
    named = {failure.broker_name for progress in read.values() for failure in progress.failures}
    unlisted = frozenset(name for name in named if name is not None and name not in found.brokers)
    return FleetProgress(
        groups=tuple(_with_hidden(progress) if unlisted else progress for progress in read.values()),
        failures=(
            *found.failures,
            *(Failure.of_group(name, error) for name, error in answers.failed.items()),
            *merge_failures({name: progress.failures for name, progress in read.items()}),
            *slave_failures(client),
        ),
        clusters={name: broker.cluster for name, broker in found.brokers.items()},
        names=None if unlisted else found.known,
        configured=None if unlisted else found.configured,
        unlisted=unlisted,
    )


def _with_hidden(progress: GroupProgress) -> GroupProgress:
    """Return the progress of a group that may have queues on a broker that no name server lists."""
    return replace(progress, hidden={"": Unknown.BROKER_NOT_REGISTERED, **progress.hidden})


async def _find(client: Client, groups: Sequence[str]) -> _Found:
    cluster = await fetch_cluster(client)
    brokers = {broker.broker_name: broker for broker in cluster.brokers}
    tables = await ask_all(brokers, lambda name: fetch_all_offsets(client, brokers[name]))
    if groups and not any(map(is_pattern, groups)):
        return _Found(brokers, tables, tuple(sorted(set(groups))), ())
    configs = await fetch_configs(client, brokers)
    failed = {**configs.failed, **tables.failed}
    if not configs.ok or not tables.ok:
        raise all_failed(failed.values())
    configured = {name for table in configs.ok.values() for name in table}
    known = configured | {name for table in tables.ok.values() for name in table}
    names = {name for name in known if not is_system_group(name)}
    failures = tuple(Failure(name, "names of groups", error) for name, error in sorted(failed.items()))
    if groups:
        # A named group that does not exist, or is a system group, is handled when it is read.
        names |= {name for name in groups if not is_pattern(name)}
        names = set(pick("Group", groups, names, unread_brokers(client, failed)))
    found = _Found(brokers, tables, tuple(sorted(names)), failures)
    if failed or await find_silent_servers(client):
        return found
    return replace(found, known=frozenset(known), configured=frozenset(configured))


def _concluded(group: str, reading: GroupReading) -> GroupProgress:
    progress = conclude(group, reading)
    doubtful = reading.unreported - progress.left
    return replace(progress, rows=tuple(row for row in progress.rows if row.mq.topic not in doubtful))


class _Reader:
    """Reads groups, and remembers what they share and which brokers and members do not answer."""

    def __init__(self, client: Client, found: _Found) -> None:
        self._client = client
        self._found = found
        self._unanswered: dict[str, list[RmqctlError]] = defaultdict(list)
        self._gates: dict[str, asyncio.Semaphore] = {}
        self._silent_counts = Counter[str]()
        self.seen_topics: set[str] = set()

    async def read(self, group: str, topics: Sequence[str]) -> GroupReading | None:
        """Read a group, None for one without any of the topics. Raises the errors of require_group()."""
        first = await ask_any(self._found.brokers, lambda name: self._ask_group(name, group))
        reading = GroupReading(
            views=first.ok,
            failed_brokers=first.failed,
            asked_topics=tuple(topics),
            failures=[Failure(name, "offsets", error) for name, error in first.failed.items()],
        )
        await self._ask_members(group, reading)
        known = {mq.topic for view in reading.views.values() for mq in view.stats.queues}
        for connections in reading.connections():
            known.update(connections.subscriptions)
        # When members subscribe to different topics, brokers only report those of the last heartbeat.
        for info in reading.running.ok.values():
            known.update(item.topic for item in info.subscriptions)
            known.update(mq.topic for mq in info.process_queues)
        if not known and not reading.connections():
            asked = {name: view.broker for name, view in reading.views.items()}
            await require_group(self._client, group, asked, reading.failed_brokers)
        known |= await with_retry_topics(self._client, group, known, reading.failures)
        reading.unreported = self._stored_topics(group) - known
        known |= reading.unreported
        self.seen_topics |= known
        reading.topics = frozenset(matching(topics, known) if topics else known)
        if topics and not reading.topics:
            return None
        await self._find_routes(reading)
        await asyncio.gather(
            self._ask_topics(reading),
            self._settle(group, reading),
            self._ask_proxies(reading),
            read_cut_queues(self._client, group, reading, reading.topics),
        )
        reading.silent_masters = dict(self._client.silent_masters)
        reading.hidden = find_hidden(self._client, reading)
        note_held(self._client, reading.orphans())
        return reading

    def _stored_topics(self, group: str) -> frozenset[str]:
        tables = self._found.tables.ok.values()
        topics = {topic for table in tables for topic in table.get(group, {})}
        return frozenset(topic for topic in topics if not topic.startswith(RETRY_PREFIX))

    async def _ask_group(self, name: str, group: str) -> BrokerView:
        broker = self._found.brokers[name]
        unanswered = self._unanswered[name]
        if len(unanswered) >= _UNANSWERED_ENOUGH:
            raise unanswered[0]
        try:
            return await fetch_view(self._client, broker, group)
        except UnreachableError as error:
            unanswered.append(error)
            raise

    async def _ask_members(self, group: str, reading: GroupReading) -> None:
        through = addresses_of((view.address, view.connections) for view in reading.views.values())
        reading.running = await ask_all(
            through, lambda name: ask_through(through[name], partial(self._ask_member, group, name))
        )
        # One failure per group: a fleet can have thousands of silent members.
        silent = list(reading.running.failed.values())
        if silent:
            reading.failures.append(Failure(None, f"running info of {counted(len(silent), 'member')}", silent[0]))

    async def _ask_member(self, group: str, client_id: str, address: str) -> RunningInfo:
        async with self._gates.setdefault(address, asyncio.Semaphore(RELAYED_AT_ONCE)):
            if self._silent_counts[address] >= _SILENT_ENOUGH:
                raise UnreachableError(client_id, f"not asked, after {_SILENT_ENOUGH} silent members on {address}")
            try:
                return await ask_running_info(self._client, address, group, client_id)
            except RmqctlError as error:
                is_timeout = isinstance(error, BrokerError) and error.code == ResponseCode.CONSUME_MSG_TIMEOUT
                self._silent_counts[address] += is_timeout or isinstance(error, DeadlineError)
                raise

    async def _find_routes(self, reading: GroupReading) -> None:
        found = await ask_all(reading.topics, self._client.route)
        reading.routes = found.ok
        # A retry topic is created at the first failure; a deleted topic leaves its offsets behind.
        reading.unrouted = {
            topic: error for topic, error in found.failed.items() if not isinstance(error, NotFoundError)
        }
        reading.failures += [Failure(None, f"route of {topic}", error) for topic, error in reading.unrouted.items()]

    async def _ask_topics(self, reading: GroupReading) -> None:
        """Read min and max offsets, once per topic for all groups.

        They are always newer than the table, so that no stored offset exceeds a max only because it was read later.
        """
        queues = reading.queues()
        places = sorted({(mq.broker_name, mq.topic) for mq in queues if mq.broker_name in reading.views})
        answers = await ask_all(places, lambda place: self._ask_topic(*place))
        for place, (found, at_ms) in answers.ok.items():
            reading.topic_offsets.update(found)
            reading.bounds_ms[place] = at_ms
        reading.failed_bounds |= answers.failed
        reading.failures += [
            Failure(name, f"min and max offsets of {topic}", error)
            for (name, topic), error in answers.failed.items()
            if not (isinstance(error, BrokerError) and error.code == ResponseCode.TOPIC_NOT_EXIST)
        ]

    async def _ask_topic(self, broker_name: str, topic: str) -> tuple[dict[MessageQueue, TopicOffset], int]:
        async def ask() -> tuple[dict[MessageQueue, TopicOffset], int]:
            answer = await self._client.ask_broker(self._found.brokers[broker_name], headers.get_topic_stats(topic))
            return bodies.decode_topic_stats(answer.command.version, answer.command.body), answer.at_ms

        return await self._client.once(("topic stats", broker_name, topic), ask)

    async def _settle(self, group: str, reading: GroupReading) -> None:
        """Fill reading.stored for queues whose offset consume stats leave open: 0 or missing."""
        open_queues = queues_by_broker(
            mq
            for mq in reading.queues()
            if (view := reading.views.get(mq.broker_name)) is not None and view.sure_offset(mq) is None
        )

        async def settle(name: str) -> None:
            view = reading.views[name]
            if name in self._found.tables.ok:
                stored = self._found.tables.ok[name].get(group, {})
                reading.stored |= {mq: _settled(mq, view, stored) for mq in open_queues[name]}
            else:
                reading.stored |= await fetch_stored_offsets(
                    self._client, view.broker, group, open_queues[name], version=view.version
                )

        settled = await ask_all(open_queues, settle)
        reading.failed_stored |= settled.failed
        reading.failures += [Failure(name, "stored offsets", error) for name, error in settled.failed.items()]

    async def _ask_proxies(self, reading: GroupReading) -> None:
        brokers = [view.broker for view in reading.views.values()]
        reading.proxies, failures = await find_proxies(self._client, brokers)
        if not reading.connections():
            reading.failures += failures


def _settled(mq: MessageQueue, view: BrokerView, stored: Mapping[str, Mapping[int, int]]) -> int | None:
    """Return a queue's stored offset from the broker's table, None without one."""
    offset = stored.get(mq.topic, {}).get(mq.queue_id)
    if offset is None:
        return None
    # Consume stats are newer: when an offset is stored, a 0 there is a real 0.
    return 0 if mq in view.stats.queues else offset
