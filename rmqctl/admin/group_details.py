"""Read one group as each broker and each of its members reports it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct

from rmqctl.admin.rules.group_backlog import count_unread
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupConfig, GroupConnections, GroupState, RunningInfo
from rmqctl.model.names import LMQ_PREFIX
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Broker, TopicRoute
from rmqctl.rules.group_state import group_state, reason_of, unseen_reason
from rmqctl.rules.readable_queues import exists
from rmqctl.rules.retry_places import RetryPlace
from rmqctl.rules.totals import Total, total

from .brokers import fetch_cluster
from .clients import fetch_placed_connections, fetch_running_infos, find_proxies
from .cut_queues import fetch_cut_queues
from .group_letters import count_letters, sum_letters
from .group_names import fetch_all_offsets, fetch_configs, require_group
from .offset_reading import GroupProgress, Reading, conclude
from .offsets import read_group
from .results import Answers, all_failed, ask_all, slave_failures
from .retry_places import fetch_retry_places


class GroupMembers(Struct, frozen=True):
    """The members of a group.

    `connections` are by broker that answered, None without members; `running` is by client id, each member's running
    info or why it is missing; `unseen_reason` is why the state is UNKNOWN and not EMPTY; `topic_brokers` are the
    brokers of each subscribed topic; `at_ms` is when they were read, by this machine's clock.
    """

    group: str
    state: GroupState
    unseen_reason: Unknown | None
    connections: Mapping[str, GroupConnections | None]
    running: Answers[str, RunningInfo]
    topic_brokers: Mapping[str, tuple[str, ...]]
    failures: tuple[Failure, ...]
    at_ms: int


async def fetch_group_members(client: Client, group: str) -> GroupMembers:
    """Read a group's connections from every broker, and every member's running info.

    Raises NotFoundError for a group that does not exist, and the brokers' error when none of them answers.
    """
    brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
    answers = await ask_all(brokers, lambda name: fetch_placed_connections(client, brokers[name], group))
    if not answers.ok:
        raise all_failed(answers.failed.values())
    connections = {name: found for name, (_, found) in answers.ok.items()}
    connected = {name: found for name, found in connections.items() if found is not None and found.members}
    if not connected:
        await require_group(client, group, {name: brokers[name] for name in answers.ok}, answers.failed)
    through = {answers.ok[name][0]: found for name, found in connected.items()}
    running = await fetch_running_infos(client, group, through)
    topics = {topic for found in connected.values() for topic in found.subscriptions}
    topics.update(item.topic for info in running.ok.values() for item in info.subscriptions)
    routes = await ask_all(topics, client.route)
    failures = [Failure(name, "members", error) for name, error in answers.failed.items()]
    failures += [Failure(None, f"running info of {client_id}", error) for client_id, error in running.failed.items()]
    unseen = None
    if not connected:
        proxies, proxy_failures = await find_proxies(client, [brokers[name] for name in answers.ok])
        failures += proxy_failures
        unseen = unseen_reason(answers.failed.values(), proxies)
    state = group_state(unseen, has_members=bool(connected))
    failures += [
        Failure(None, f"route of {topic}", error)
        for topic, error in routes.failed.items()
        if not isinstance(error, NotFoundError)
    ]
    failures += slave_failures(client)
    brokers_of = _broker_names(routes.ok)
    return GroupMembers(group, state, unseen, connections, running, brokers_of, tuple(failures), client.clock.now_ms())


def _broker_names(routes: Mapping[str, TopicRoute]) -> dict[str, tuple[str, ...]]:
    return {topic: tuple(data.broker_name for data in route.queue_data) for topic, route in routes.items()}


class GroupConfigs(Struct, frozen=True):
    """A group's configuration by broker that answered, None when it has none."""

    group: str
    configs: Mapping[str, GroupConfig | None]
    failures: tuple[Failure, ...]


async def fetch_group_configs(client: Client, group: str) -> GroupConfigs:
    """Return a group's configuration on every broker.

    Raises NotFoundError when no broker has a configuration or an offset of the group.
    """
    brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
    tables = await require_group(client, group, brokers, {})
    failures = [Failure(name, "configuration", error) for name, error in tables.failed.items()]
    configs = {name: table.get(group) for name, table in tables.ok.items()}
    return GroupConfigs(group, configs, (*failures, *slave_failures(client)))


class GroupDetails(Struct, frozen=True):
    """All facts about a group. `dead_letters` counts the messages in its dead-letter topic.

    `configs` are by broker that answered, None when it has none. `cut_queues` counts unread messages in queues that
    their topics no longer have; `leftovers` are stored offsets of other queues that do not exist, `stored_topics` the
    topics with other stored offsets. `retry_places` are, for a group with members, the brokers as destinations of
    failed messages. `last_dead_letter_at_ms` is when the newest dead letter was stored, by its broker's clock.
    `progress` was computed from `reading`, which was read at `at_ms` by this machine's clock.
    """

    progress: GroupProgress
    reading: Reading
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
    retry_places: Mapping[str, RetryPlace] = {}
    last_dead_letter_at_ms: int | None = None

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
    configs = {name: table.get(group) for name, table in tables.ok.items()}
    # Without members nothing fails, but a configuration without retry queues is a problem anyway.
    has_retries = reading.connections() or any(each and each.retry_queue_count <= 0 for each in configs.values())
    (leftovers, cut), places = await asyncio.gather(
        _find_leftovers(client, brokers, stored.ok),
        ask_all([group] if has_retries else [], lambda name: fetch_retry_places(client, name, brokers)),
    )
    # A broker that failed earlier fails here for the same reason.
    failures = [
        Failure(name, what, error)
        for what, answers in (("configuration", tables), ("dead letters", dead), ("all stored offsets", stored))
        for name, error in answers.failed.items()
        if name not in reading.failed_brokers
    ]
    failures += [Failure(mq.broker_name, f"messages of {mq}", error) for mq, error in cut.failed.items()]
    failures += [Failure(None, "route of the retry topic", error) for error in places.failed.values()]
    letters = sum_letters(dead.ok.values())
    untold = reason_of(dead.failed.values()) if dead.failed else Unknown.BROKER_NOT_REGISTERED
    hidden = untold if dead.failed or reading.orphans() else None
    progress = conclude(group, reading)
    return GroupDetails(
        progress=progress,
        reading=reading,
        at_ms=client.clock.now_ms(),
        connections={name: view.connections for name, view in reading.views.items()},
        running=reading.running,
        topic_brokers=_broker_names(reading.routes),
        configs=configs,
        dead_letters=total([(letters.count, "")], hidden=hidden),
        failures=(*progress.failures, *failures),
        leftovers={mq: offset for mq, offset in leftovers.items() if not cut.ok.get(mq)},
        cut_queues={mq: count for mq, count in cut.ok.items() if count},
        stored_topics=frozenset(mq.topic for at_broker in stored.ok.values() for mq in at_broker.keys() - leftovers),
        retry_places=places.ok.get(group, {}),
        last_dead_letter_at_ms=letters.last_at_ms,
    )


async def _fetch_stored(client: Client, group: str, broker: Broker) -> dict[MessageQueue, int]:
    """Return all offsets that a broker stores for a group, also for topics and queues that no longer exist."""
    topics = (await fetch_all_offsets(client, broker)).get(group, {})
    return {
        MessageQueue(topic, broker.broker_name, queue_id): offset
        for topic, offsets in topics.items()
        for queue_id, offset in offsets.items()
    }


async def _find_leftovers(
    client: Client, brokers: Mapping[str, Broker], stored: Mapping[str, Mapping[MessageQueue, int]]
) -> tuple[dict[MessageQueue, int], Answers[MessageQueue, int]]:
    """Return the offsets of queues that are not in the routes of their topics, sorted.

    Also return, for those of existing topics, the number of messages that the group has not read.
    """
    offsets = {mq: offset for at_broker in stored.values() for mq, offset in at_broker.items()}
    # Light queues are not topics, and have no route.
    topics = {mq.topic for mq in offsets if not mq.topic.startswith(LMQ_PREFIX)}
    routes = await ask_all(topics, client.route)
    gone = {topic for topic, error in routes.failed.items() if isinstance(error, NotFoundError)}
    leftovers = {
        mq: offset
        for mq, offset in sorted(offsets.items())
        if mq.topic in gone or (mq.topic in routes.ok and not exists(mq, routes.ok[mq.topic]))
    }
    cut = await fetch_cut_queues(client, brokers, [mq for mq in leftovers if mq.topic in routes.ok])
    return leftovers, Answers({mq: count_unread(queue, leftovers[mq]) for mq, queue in cut.ok.items()}, cut.failed)
