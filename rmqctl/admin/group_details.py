"""Read one group as each broker and each of its members reports it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.brokers.tables import fetch_all_offsets, fetch_configs
from rmqctl.admin.groups.letters import count_letters, sum_letters
from rmqctl.admin.groups.members import broker_names
from rmqctl.admin.groups.retry_places import fetch_retry_places
from rmqctl.admin.groups.rules.backlog import count_unread, is_gone
from rmqctl.admin.groups.tables import fetch_removed_queue_ends
from rmqctl.admin.offsets.conclusion import conclude
from rmqctl.admin.offsets.group import read_group
from rmqctl.admin.offsets.reading import GroupProgress, GroupReading
from rmqctl.admin.topics.queues import find_route
from rmqctl.client.core import Client
from rmqctl.client.stored_offsets import by_queue
from rmqctl.errors import NotFoundError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupConfig, GroupConnections, RunningInfo
from rmqctl.model.names import LMQ_PREFIX, dead_letter_topic
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.model.stats import TopicOffset
from rmqctl.rules.group_state import reason_of
from rmqctl.rules.readable_queues import exists
from rmqctl.rules.retry_places import RetryPlace
from rmqctl.rules.totals import Total, total

from .results import Answers, as_reported, ask_all


class GroupDetails(Struct, frozen=True):
    """All facts about a group. `dead_letters` counts the messages in its dead-letter topic.

    `configs` are by broker that answered, None when it has none. `cut_queues` counts unread messages in queues that
    their topics no longer have; `leftovers` are stored offsets of other queues that do not exist, `stored_topics` the
    topics with other stored offsets. `unwanted_counts` are unread messages of those that the group does not consume,
    None where unknown; empty if only some topics were read. `retry_places` are, for a group with members, the brokers
    as destinations of failed messages. `last_dead_letter_at_ms` is when the newest dead letter was stored, by its
    broker's clock. `closed_letter_brokers` have the dead-letter topic without read permission.
    `progress` was computed from `reading`, which was read at `at_ms` by this machine's clock.
    """

    progress: GroupProgress
    reading: GroupReading
    at_ms: int
    connections: Mapping[str, GroupConnections | None]
    running: Answers[str, RunningInfo]
    topic_brokers: Mapping[str, tuple[str, ...]]
    configs: Mapping[str, GroupConfig | None]
    dead_letters: Total
    failures: tuple[Failure, ...]
    leftovers: Mapping[MessageQueue, int] = {}
    cut_queues: Mapping[MessageQueue, int] = {}
    stored_topics: frozenset[str] = frozenset()
    unwanted_counts: Mapping[str, int | None] = {}
    retry_places: Mapping[str, RetryPlace] = {}
    last_dead_letter_at_ms: int | None = None
    closed_letter_brokers: tuple[str, ...] = ()

    @property
    def dead_letter_count(self) -> int | None:
        """The number of dead letters, None when a broker did not answer."""
        return self.dead_letters.value


async def fetch_group_details(client: Client, group: str, topics: Sequence[str] = ()) -> GroupDetails:
    """Return all facts about one group, its progress only in `topics`. Raises the errors of fetch_group_progress()."""
    brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
    # Concurrently: members that do not answer can use up the whole deadline.
    reading, tables, dead, stored = await asyncio.gather(
        read_group(client, group, topics),
        fetch_configs(client, brokers),
        ask_all(brokers, lambda name: count_letters(client, brokers[name], group)),
        ask_all(brokers, lambda name: _fetch_stored(client, group, brokers[name])),
    )
    configs = as_reported(client.silent_masters, {name: table.get(group) for name, table in tables.ok.items()})
    # Without members nothing fails, but a configuration without retry queues is a problem anyway.
    has_retries = reading.connections() or any(each and each.retry_queue_count <= 0 for each in configs.values())
    letters = sum_letters(dead.ok.values())
    (leftovers, cut, unwanted), places, letter_routes = await asyncio.gather(
        _find_leftovers(client, brokers, stored.ok, reading.topics if not topics else None),
        ask_all([group] if has_retries else [], lambda name: fetch_retry_places(client, name, brokers)),
        ask_all([dead_letter_topic(group)] if letters.has_topic else [], lambda topic: find_route(client, topic)),
    )
    # A broker that failed earlier fails here for the same reason. The group's reading names tables of stored offsets.
    failures = [
        Failure(name, what, error)
        for what, answers in (("configuration", tables), ("dead letters", dead))
        for name, error in answers.failed.items()
        if name not in reading.failed_brokers
    ]
    failures += [
        Failure(mq.broker_name, f"messages of {mq}", error) for mq, error in cut.failed.items() if mq not in reading.cut
    ]
    failures += [
        Failure(mq.broker_name, f"messages of {mq}", error)
        for mq, error in unwanted.failed.items()
        if mq.broker_name not in reading.failed_brokers
    ]
    failures += [Failure(None, "route of the retry topic", error) for error in places.failed.values()]
    failures += [Failure(None, "route of the dead-letter topic", error) for error in letter_routes.failed.values()]
    unknown = reason_of(dead.failed.values()) if dead.failed else Unknown.BROKER_NOT_REGISTERED
    hidden = unknown if dead.failed or reading.orphans() else Unknown.SLAVE_ANSWERED if client.silent_masters else None
    progress = conclude(group, reading)
    return GroupDetails(
        progress=progress,
        reading=reading,
        at_ms=client.clock.now_ms(),
        connections=as_reported(
            client.silent_masters, {name: view.connections for name, view in reading.views.items()}
        ),
        running=reading.running,
        topic_brokers=broker_names(reading.routes),
        configs=configs,
        dead_letters=total([(letters.count, "")], hidden=hidden),
        failures=(*progress.failures, *failures),
        leftovers={mq: offset for mq, offset in leftovers.items() if not cut.ok.get(mq)},
        cut_queues={mq: count for mq, count in cut.ok.items() if count},
        unwanted_counts=_by_topic(unwanted),
        stored_topics=frozenset(mq.topic for at_broker in stored.ok.values() for mq in at_broker.keys() - leftovers),
        retry_places=places.ok.get(group, {}),
        last_dead_letter_at_ms=letters.last_at_ms,
        closed_letter_brokers=tuple(
            name for route in letter_routes.ok.values() if route is not None for name in route.closed_brokers
        ),
    )


async def _fetch_stored(client: Client, group: str, broker: BrokerData) -> dict[MessageQueue, int]:
    """Return all offsets that a broker stores for a group, also for topics and queues that no longer exist."""
    return by_queue(broker.broker_name, (await fetch_all_offsets(client, broker)).get(group, {}))


async def _find_leftovers(
    client: Client,
    brokers: Mapping[str, BrokerData],
    stored: Mapping[str, Mapping[MessageQueue, int]],
    read_topics: Collection[str] | None,
) -> tuple[dict[MessageQueue, int], Answers[MessageQueue, int], Answers[MessageQueue, int]]:
    """Return the offsets of queues that are not in the routes of their topics, sorted.

    Also return, for those of existing topics, the number of messages that the group has not read; and that number for
    queues of topics that are not in `read_topics`, unless that is None.
    """
    offsets = {mq: offset for at_broker in stored.values() for mq, offset in at_broker.items()}
    # Light queues are not topics, and have no route.
    topics = {mq.topic for mq in offsets if not mq.topic.startswith(LMQ_PREFIX)}
    routes = await ask_all(topics, client.route)
    gone = {topic for topic, error in routes.failed.items() if isinstance(error, NotFoundError) and is_gone(topic)}
    leftovers = {
        mq: offset
        for mq, offset in sorted(offsets.items())
        if mq.topic in gone or (mq.topic in routes.ok and not exists(mq, routes.ok[mq.topic]))
    }
    cut = [mq for mq in leftovers if mq.topic in routes.ok]
    unwanted = [
        mq
        for mq in sorted(offsets.keys() - leftovers)
        if read_topics is not None and mq.topic in routes.ok and mq.topic not in read_topics
    ]
    ends = await fetch_removed_queue_ends(client, brokers, [*cut, *unwanted])
    return leftovers, _unread(ends, cut, offsets), _unread(ends, unwanted, offsets)


def _unread(
    ends: Answers[MessageQueue, TopicOffset], queues: Iterable[MessageQueue], offsets: Mapping[MessageQueue, int]
) -> Answers[MessageQueue, int]:
    """Return the numbers of unread messages of some of the queues whose ends were asked for."""
    ok = {mq: count_unread(ends.ok[mq], offsets[mq]) for mq in queues if mq in ends.ok}
    return Answers(ok, {mq: ends.failed[mq] for mq in queues if mq in ends.failed})


def _by_topic(unread: Answers[MessageQueue, int]) -> dict[str, int | None]:
    """Return sums by topic, None where the number of any queue is unknown."""
    counts: dict[str, int | None] = {mq.topic: 0 for mq in unread.ok}
    for mq, count in unread.ok.items():
        counts[mq.topic] = (counts[mq.topic] or 0) + count
    return counts | {mq.topic: None for mq in unread.failed}
