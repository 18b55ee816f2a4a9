"""Read a running group: its queues and members, the queues that each really holds, and the work in each queue."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.admin.brokers.tables import fetch_configs
from rmqctl.admin.offsets.conclusion import conclude
from rmqctl.admin.offsets.group import read_group
from rmqctl.admin.offsets.reading import GroupProgress, GroupReading
from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupConfig, GroupState, RunningInfo
from rmqctl.model.names import DLQ_PREFIX, RETRY_PREFIX, is_pop_retry_topic
from rmqctl.model.progress import QueueProgress, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.model.stats import TopicOffset
from rmqctl.net.clock import pause
from rmqctl.protocol import bodies, group_bodies, headers
from rmqctl.rules.group_state import agreed
from rmqctl.rules.group_views import consume_rt_ms, strategy_name
from rmqctl.rules.member_settings import consumes_orderly, pops, pulled_queues, pulls

from .group_snapshot import GroupSnapshot, LiveGroup, SnapshotMember
from .outcome import UnknownWork, Work

_DEFAULT_SHARE = "defaultPopShareQueueNum"


class LiveSnapshot(Struct, frozen=True):
    """A running group, and the parts of it that could not be read."""

    snapshot: GroupSnapshot
    state: GroupState
    unseen_reason: Unknown | None
    failures: tuple[Failure, ...]


async def fetch_snapshot(
    client: Client, group: str, topics: Sequence[str] = (), *, sample_s: float = 0
) -> LiveSnapshot:
    """Read a group; with `sample_s` also the arriving messages per second, from two samples.

    Raises NotFoundError for a group or topic that does not exist, and the brokers' error when none of them answers.
    """
    reading = await read_group(client, group, topics)
    brokers = {name: view.broker for name, view in reading.views.items()}
    shared = _shared_topics(group, reading)
    queues = _queues(shared, reading)
    (rates, rate_failures), tables = await asyncio.gather(
        measure_rates(client, queues, brokers, sample_s), fetch_configs(client, brokers)
    )
    progress = conclude(group, reading)
    configs = {name: table.get(group) for name, table in tables.ok.items()}
    snapshot = make_snapshot(progress, reading, configs, rates)
    if snapshot.live is not None and snapshot.live.is_popping:
        count = await _pop_share_count(client, group, shared, brokers)
        snapshot = replace(snapshot, live=replace(snapshot.live, pop_share_count=count))
    failures = [Failure(name, "configuration", error) for name, error in tables.failed.items()]
    return LiveSnapshot(
        snapshot, progress.state, progress.unseen_reason, (*progress.failures, *failures, *rate_failures)
    )


def make_snapshot(
    progress: GroupProgress,
    reading: GroupReading,
    configs: Mapping[str, GroupConfig | None],
    rates: Mapping[MessageQueue, float] | None,
) -> GroupSnapshot:
    """Create a snapshot from a group's reading; `configs` are by broker, `rates` are messages per second by queue."""
    shared = _shared_topics(progress.group, reading)
    queues = _queues(shared, reading)
    views = {
        name: tuple(member.client_id for member in view.connections.members) if view.connections is not None else ()
        for name, view in reading.views.items()
    }
    # Members report all their topics. Without members, a silent broker may have offsets of more topics.
    wanted = sorted(shared) if any(views.values()) else [*sorted(shared), ""]
    reasons = [progress.hidden[topic] for topic in wanted if topic in progress.hidden]
    # Clients do not allocate the queues of a missing broker until it is back.
    reasons += [Unknown.BROKER_NOT_REGISTERED for topic in shared if reading.routes[topic].missing]
    live = LiveGroup(
        group=progress.group,
        members={client_id: _member(info, progress.consume_type) for client_id, info in reading.running.ok.items()},
        silent=tuple(sorted(reading.running.failed)),
        views=views,
        progress={row.mq: row for row in progress.rows},
        put_rates=rates,
        consume_type=progress.consume_type,
        message_model=progress.message_model,
        consume_from_where=agreed(found.consume_from_where for found in reading.connections()),
        configs=configs,
        silent_brokers=tuple(sorted(reading.unheard)),
        unseen_reason=progress.unseen_reason,
        hidden=next(iter(reasons), None),
        connections={member.client_id: member for found in reading.connections() for member in found.members},
    )
    return GroupSnapshot(queues, _client_ids(views.values()), live, _strangers(queues, views))


def _queues(topics: Iterable[str], reading: GroupReading) -> tuple[MessageQueue, ...]:
    return tuple(mq for topic in sorted(topics) for mq in reading.routes[topic].readable_queues())


def _shared_topics(group: str, reading: GroupReading) -> set[str]:
    """Return the topics that the members allocate; without members, those that the group has offsets in.

    Brokers read pop retry topics for their clients, which never allocate them.
    """
    wanted = {topic for found in reading.connections() for topic in found.subscriptions}
    wanted |= {item.topic for info in reading.running.ok.values() for item in info.subscriptions}
    # Requested topics are taken literally, without their retry topics.
    topics = set(reading.topics) if reading.asked_topics or not wanted else wanted & reading.topics
    return {
        topic
        for topic in topics
        if topic in reading.routes
        and not topic.startswith(DLQ_PREFIX)
        and not is_pop_retry_topic(group, topic, reading.topics)
    }


def _client_ids(views: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return the client ids that any broker lists, each as often as one broker lists it."""
    counts: Counter[str] = Counter()
    for view in views:
        counts |= Counter(view)
    return tuple(sorted(counts.elements()))


def _strangers(queues: Sequence[MessageQueue], views: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    """Return, by topic, the clients that its brokers do not list, if all of them answered and they list any client.

    Clients ask a broker of the topic for its members; a client connects only to the brokers of its own topics.
    """
    brokers: dict[str, set[str]] = {}
    for mq in queues:
        brokers.setdefault(mq.topic, set()).add(mq.broker_name)
    every = {client_id for view in views.values() for client_id in view}
    strangers = {}
    for topic, names in brokers.items():
        named = {client_id for name in names & views.keys() for client_id in views[name]}
        if named and named != every and names <= views.keys():
            strangers[topic] = frozenset(every - named)
    return strangers


def _member(info: RunningInfo, consume_type: str | None) -> SnapshotMember:
    return SnapshotMember(
        held=pulled_queues(info) | info.pop_unacked.keys(),
        strategy=strategy_name(info),
        topics=frozenset(item.topic for item in info.subscriptions) or None,
        is_orderly=consumes_orderly(info),
        pops=pops(info, consume_type),
        pulls=pulls(info, consume_type),
        popped=frozenset(info.pop_unacked),
        consume_rt_ms=consume_rt_ms(info),
    )


async def _pop_share_count(
    client: Client, group: str, topics: Iterable[str], brokers: Mapping[str, BrokerData]
) -> int | None:
    """Return popShareQueueNum, which brokers keep per topic and group, else their own setting."""

    async def ask(name: str) -> set[int]:
        modes = await client.ask_broker(brokers[name], headers.get_request_modes())
        shares = group_bodies.decode_pop_shares(group, modes.command.body)
        own = {shares[topic] for topic in topics if topic in shares}
        if own:
            return own
        answer = await client.ask_broker(brokers[name], headers.get_broker_config())
        text = bodies.decode_properties_text(answer.command.body).get(_DEFAULT_SHARE, "")
        return {int(text)} if text.lstrip("-").isdigit() else set()

    answers = await ask_all(brokers, ask)
    return agreed(count for found in answers.ok.values() for count in found)


async def measure_rates(
    client: Client, queues: Sequence[MessageQueue], brokers: Mapping[str, BrokerData], sample_s: float
) -> tuple[dict[MessageQueue, float] | None, list[Failure]]:
    """Return messages per second by queue, from samples `sample_s` apart (None for 0 s), and the failures."""
    if sample_s <= 0:
        return None, []
    client.deadline.extend(sample_s)
    places = sorted({(mq.broker_name, mq.topic) for mq in queues if mq.broker_name in brokers})

    async def measure(place: tuple[str, str]) -> dict[MessageQueue, float]:
        broker_name, topic = place
        samples: list[tuple[float, dict[MessageQueue, TopicOffset]]] = []
        for _ in range(2):
            if samples:
                await pause(client.clock, sample_s)
            answer = await client.ask_broker(brokers[broker_name], headers.get_topic_stats(topic))
            offsets = bodies.decode_topic_stats(answer.command.version, answer.command.body)
            samples.append((client.clock.monotonic_s(), offsets))
        (first_s, before), (last_s, after) = samples
        return {
            mq: max(0, after[mq].max_offset - before[mq].max_offset) / (last_s - first_s)
            for mq in before.keys() & after.keys()
        }

    answers = await ask_all(places, measure)
    rates = {mq: rate for found in answers.ok.values() for mq, rate in found.items()}
    failures = [
        Failure(name, f"messages per second of {topic}", error)
        for (name, topic), error in answers.failed.items()
        if not topic.startswith(RETRY_PREFIX)
    ]
    # Brokers do not list queues that were never written to.
    asked = {mq for mq in queues if (mq.broker_name, mq.topic) in answers.ok}
    return {mq: rates.get(mq, 0.0) for mq in asked}, failures


def work_of(snapshot: GroupSnapshot) -> Work:
    """Return what is known about the work in the queues, nothing without a running group."""
    live = snapshot.live
    if live is None:
        return Work()
    rows = live.progress
    # Rows of retry queues that never held a message are left out.
    unused = [mq for mq in snapshot.queues if mq not in rows and mq.broker_name in live.views]
    return Work(
        lag={mq: row.lag for mq, row in rows.items()} | dict.fromkeys(unused, 0),
        rate=live.put_rates or {},
        duplicate_risk={mq: _risk(row) for mq, row in rows.items()} | dict.fromkeys(unused, 0),
        reasons={mq: _reasons(row, live) for mq, row in rows.items()},
        missing={"rate": UnknownWork.NOT_SAMPLED} if live.put_rates is None else {},
    )


def _risk(row: QueueProgress) -> int | None:
    """Return how many messages could be consumed twice: 0 for an empty queue that was never consumed."""
    never_used = row.lag == 0 and row.reasons.get("consumerOffset") is Unknown.NEVER_COMMITTED
    return 0 if never_used else row.duplicate_risk


def _reasons(row: QueueProgress, live: LiveGroup) -> Mapping[str, Unknown]:
    """Return why values of a queue are unknown, including its rate if only other queues were measured."""
    if live.put_rates is None or row.mq in live.put_rates:
        return row.reasons
    return {**row.reasons, "rate": row.reasons.get("maxOffset", Unknown.NOT_REPORTED)}
