"""Read the progress of a consumer group, queue by queue, from all brokers concurrently.

All requests are read-only. When a broker's first answer shows 0 both for a stored 0 and for no offset, a second request
distinguishes the two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.brokers.retention import fetch_retention_ms
from rmqctl.admin.groups.held_queues import note_held
from rmqctl.admin.groups.members import fetch_connections, fetch_running_infos, find_proxies
from rmqctl.admin.groups.names import fetch_matching_groups, require_group
from rmqctl.admin.results import ask_all, ask_any, of_matching, pick, unread_brokers
from rmqctl.admin.topics.queues import fetch_route
from rmqctl.client.core import Client
from rmqctl.client.partial_answers import slave_failures
from rmqctl.client.stored_offsets import fetch_stored_offsets
from rmqctl.errors import BrokerError, NotFoundError, NotRegisteredError
from rmqctl.model.failure import Failure
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue, queues_by_broker
from rmqctl.model.route import BrokerData, TopicRoute
from rmqctl.model.stats import ConsumeTimeSpan, TopicOffset
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.rules.group_state import reason_of
from rmqctl.text.wildcards import is_pattern

from .conclusion import conclude
from .cut_queues import read_cut_queues
from .reading import BrokerView, GroupProgress, GroupReading
from .retry_topics import with_retry_topics

# More would only compete for the brokers' admin threads.
_GROUPS_AT_ONCE = 8


async def fetch_group_progress(client: Client, group: str, topics: Sequence[str] = ()) -> GroupProgress:
    """Return a group's progress in all its topics, or in the given ones; topics may contain `*` and `?`.

    Raises NotFoundError for a group or topic that does not exist, and the brokers' error when none of them answers.
    """
    return conclude(group, await read_group(client, group, topics))


async def fetch_matching_progress(
    client: Client, groups: Sequence[str], topics: Sequence[str] = ()
) -> tuple[list[GroupProgress], list[Failure]]:
    """Return the progress of all groups that names and patterns match, and the groups that failed.

    Raises the errors of fetch_group_progress() when no group could be read.
    """
    names, failures = await fetch_matching_groups(client, groups)

    async def fetch(name: str) -> GroupProgress:
        return conclude(name, await read_group(client, name, topics, only_consumed=name not in groups))

    answers = await ask_all(names, fetch, at_once=_GROUPS_AT_ONCE)
    return of_matching(groups, answers, failures), failures


async def read_group(
    client: Client, group: str, topics: Sequence[str] = (), *, only_consumed: bool = False
) -> GroupReading:
    """Return all facts for a group's progress. Raises the errors of fetch_group_progress().

    `only_consumed`: ignore topics that the group does not consume, even when they are named.
    """
    names = [topic for topic in topics if not is_pattern(topic)]
    patterns = [topic for topic in topics if is_pattern(topic)]
    cluster, wanted_routes = await asyncio.gather(
        fetch_cluster(client), asyncio.gather(*(fetch_route(client, topic) for topic in names))
    )
    first = await ask_any(cluster.brokers, lambda broker: fetch_view(client, broker, group))
    reading = GroupReading(
        views={broker.broker_name: view for broker, view in first.ok.items()},
        failed_brokers={broker.broker_name: error for broker, error in first.failed.items()},
        failures=[Failure(broker.broker_name, "offsets", error) for broker, error in first.failed.items()],
        asked_topics=tuple(topics),
    )
    known_topics = {mq.topic for view in reading.views.values() for mq in view.stats.queues}
    for connections in reading.connections():
        known_topics.update(connections.subscriptions)
    if not known_topics and not reading.connections():
        await require_group(
            client, group, {name: view.broker for name, view in reading.views.items()}, reading.failed_brokers
        )
    if patterns or not topics:
        known_topics = {*await with_retry_topics(client, group, known_topics, reading.failures)}
    if patterns or only_consumed:
        await _ask_members(client, group, reading)
        known_topics |= _topics_of_members(reading)
    if only_consumed and topics:
        names = [topic for topic in names if topic in known_topics]
        if not names and not patterns:
            raise NotFoundError("Topic", topics[0])
    picked = pick("Topic", patterns, known_topics, unread_brokers(client, reading.failed_brokers)) if patterns else ()
    reading.topics = frozenset([*names, *picked] if topics else known_topics)
    await _find_routes(client, reading, wanted_routes)
    await asyncio.gather(
        _ask_topics(client, group, reading, reading.topics),
        *([] if patterns or only_consumed else [_ask_members(client, group, reading)]),
        _ask_retention(client, reading),
        _ask_proxies(client, reading),
        read_cut_queues(client, group, reading, reading.topics, is_probing=True),
    )
    new_topics = _topics_of_members(reading) - reading.topics
    if new_topics and not topics:
        new_topics = await with_retry_topics(client, group, new_topics, reading.failures) - reading.topics
        reading.topics |= new_topics
        await _find_routes(client, reading, list(reading.routes.values()))
        await _ask_topics(client, group, reading, new_topics)
        await read_cut_queues(client, group, reading, new_topics, is_probing=True)
    reading.silent_masters = dict(client.silent_masters)
    reading.hidden = find_hidden(client, reading)
    note_held(client, reading.orphans())
    reading.failures += slave_failures(client)
    return reading


def find_hidden(client: Client, reading: GroupReading) -> dict[str, Unknown]:
    """Return by topic why it may have queues without a row; the key "" means topics whose names are unknown.

    The memory of the cluster excludes topics that a missing broker does not have; routes do so for a silent broker.
    A slave may lack topics, offsets and the last messages.
    """
    missing = {name: error for name, error in reading.failed_brokers.items() if isinstance(error, NotRegisteredError)}
    errors = {topic: [error] for topic, error in reading.unrouted.items()}
    for topic in sorted(reading.topics - client.expectation.topics.keys()):
        errors.setdefault(topic, []).extend(
            error for name, error in missing.items() if not reading.has_queues(topic, name)
        )
    if not reading.asked_topics:
        errors[""] = [*reading.failed_brokers.values()]
    copied = {
        topic: Unknown.SLAVE_ANSWERED
        for topic in reading.topics
        if any(reading.has_queues(topic, name) for name in reading.silent_masters)
    }
    if reading.silent_masters and not reading.asked_topics:
        copied[""] = Unknown.SLAVE_ANSWERED
    held = {mq.topic: Unknown.BROKER_NOT_REGISTERED for mq in reading.orphans()}
    return copied | {topic: reason_of(failed) for topic, failed in errors.items() if failed} | held


def _topics_of_members(reading: GroupReading) -> frozenset[str]:
    """Return the topics that members report to consume.

    When members subscribe to different topics, brokers only report those of the last heartbeat.
    """
    infos = reading.running.ok.values()
    subscribed = {item.topic for info in infos for item in info.subscriptions}
    return frozenset(subscribed | {mq.topic for info in infos for mq in info.process_queues})


async def _ask_topics(client: Client, group: str, reading: GroupReading, topics: frozenset[str]) -> None:
    """Read all facts about the queues of some topics."""
    await asyncio.gather(_ask_places(client, group, reading, topics), _settle_zeros(client, group, reading, topics))


async def fetch_view(client: Client, broker: BrokerData, group: str) -> BrokerView:
    """Return what one broker reports about a group. Raises the errors of Client.ask_broker()."""
    stats, connections = await asyncio.gather(
        client.ask_broker(broker, headers.get_consume_stats(group)), fetch_connections(client, broker, group)
    )
    return BrokerView(
        broker=broker,
        address=stats.address,
        version=stats.command.version,
        stats=bodies.decode_consume_stats(stats.command.body),
        connections=connections,
        at_ms=stats.at_ms,
    )


async def _find_routes(client: Client, reading: GroupReading, known: Sequence[TopicRoute]) -> None:
    routes = {route.topic: route for route in known}
    found = await ask_all(reading.topics - set(routes), client.route)
    reading.routes = {**routes, **found.ok}
    # A retry topic is created at the first failure; a deleted topic leaves its offsets behind.
    unrouted = {topic: error for topic, error in found.failed.items() if not isinstance(error, NotFoundError)}
    reading.unrouted |= unrouted
    reading.failures += [Failure(None, f"route of {topic}", error) for topic, error in unrouted.items()]


async def _ask_places(client: Client, group: str, reading: GroupReading, topics: frozenset[str]) -> None:
    """Read min and max offsets and message ages of the topics on every broker that has them."""
    queues = [mq for mq in reading.queues() if mq.topic in topics]
    places = sorted({(mq.broker_name, mq.topic) for mq in queues if mq.broker_name in reading.views})

    async def ask_offsets(place: tuple[str, str]) -> dict[MessageQueue, TopicOffset]:
        name, topic = place
        answer = await client.ask_broker(reading.views[name].broker, headers.get_topic_stats(topic))
        reading.bounds_ms[place] = answer.at_ms
        return bodies.decode_topic_stats(answer.command.version, answer.command.body)

    async def ask_ages(place: tuple[str, str]) -> dict[MessageQueue, ConsumeTimeSpan]:
        name, topic = place
        answer = await client.ask_broker(reading.views[name].broker, headers.get_consume_time_span(topic, group))
        return bodies.decode_consume_time_span(answer.command.body)

    offsets, ages = await asyncio.gather(ask_all(places, ask_offsets), ask_all(places, ask_ages))
    for found in offsets.ok.values():
        reading.topic_offsets.update(found)
    for spans in ages.ok.values():
        reading.spans.update(spans)
    reading.failed_bounds |= offsets.failed
    reading.failed_ages |= ages.failed
    for what, failed in (("min and max offsets", offsets.failed), ("message ages", ages.failed)):
        reading.failures += [
            Failure(name, f"{what} of {topic}", error)
            for (name, topic), error in failed.items()
            if not (isinstance(error, BrokerError) and error.code == ResponseCode.TOPIC_NOT_EXIST)
        ]


async def _ask_members(client: Client, group: str, reading: GroupReading) -> None:
    through = {view.address: view.connections for view in reading.views.values() if view.connections is not None}
    reading.running = await fetch_running_infos(client, group, through)
    reading.failures += [
        Failure(None, f"running info of {client_id}", error) for client_id, error in reading.running.failed.items()
    ]


async def _ask_proxies(client: Client, reading: GroupReading) -> None:
    reading.proxies, failures = await find_proxies(client, [view.broker for view in reading.views.values()])
    if not reading.connections():
        reading.failures += failures


async def _settle_zeros(client: Client, group: str, reading: GroupReading, topics: frozenset[str]) -> None:
    """Fill reading.stored for queues whose offset the first answers leave open: 0 or missing."""
    open_queues = queues_by_broker(
        mq
        for mq in reading.queues()
        if mq.topic in topics
        if (view := reading.views.get(mq.broker_name)) is not None and view.sure_offset(mq) is None
    )

    async def settle(name: str) -> None:
        view = reading.views[name]
        reading.stored |= await fetch_stored_offsets(
            client, view.broker, group, open_queues[name], version=view.version
        )

    settled = await ask_all(open_queues, settle)
    reading.failed_stored |= settled.failed
    reading.failures += [Failure(name, "stored offsets", error) for name, error in settled.failed.items()]


async def _ask_retention(client: Client, reading: GroupReading) -> None:
    """Read the retention of brokers that have unread messages.

    Only of those: for the runtime table, which contains the disk usage, a 5.4.0 broker needs 0.1 s.
    """
    with_backlog = [
        name
        for name, view in reading.views.items()
        if any(item.broker_offset > item.consumer_offset for item in view.stats.queues.values())
    ]

    answers = await ask_all(with_backlog, lambda name: fetch_retention_ms(client, reading.views[name].broker))
    reading.retention_ms |= {name: kept_ms for name, kept_ms in answers.ok.items() if kept_ms is not None}
    reading.failures += [Failure(name, "retention", error) for name, error in answers.failed.items()]
