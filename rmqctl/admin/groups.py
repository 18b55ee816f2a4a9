"""Groups: every group of a cluster in one pass, from the brokers' own tables rather than from retry topics."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct

from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, RmqctlError, UnreachableError
from rmqctl.model.cluster_memory import SeenQueues
from rmqctl.model.failure import Failure
from rmqctl.model.group import BROADCASTING, GroupConnections, GroupState, Proxies
from rmqctl.model.names import is_system_group
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Broker, ClusterInfo
from rmqctl.model.stats import TopicOffset
from rmqctl.model.topic import READ, WRITE
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.versions import version_name
from rmqctl.rules.group_state import agreed, group_state, reason_of, unseen_reason
from rmqctl.rules.progress import compute_lag
from rmqctl.rules.wildcards import is_pattern
from rmqctl.rules.words import counted

from .brokers import fetch_cluster, plain_version
from .clients import fetch_connections, find_proxies
from .group_names import pick
from .held_queues import find_held_elsewhere
from .results import Answers, all_failed, ask_all, slave_failures

# Queue id to stored offset, by topic.
_Offsets = Mapping[str, Mapping[int, int]]
# Min and max by queue id, by broker and topic.
_TopicAnswers = Answers[tuple[Broker, str], Mapping[int, TopicOffset]]


class GroupSummary(Struct, frozen=True):
    """One group over all brokers. A null's reason is in `reasons` under its JSON name.

    `lag` is None when a part of it is not known; `lag_at_least` sums what is. `lost` counts messages that were deleted
    before the group read them, in the same way. `topics` are those with a stored offset or a live subscription.
    `client_version` is the oldest among the members.
    """

    group: str
    state: GroupState
    member_count: int | None
    consume_type: str | None
    message_model: str | None
    client_version: str | None
    topics: tuple[str, ...]
    lag: int | None
    lag_at_least: int
    lost: int | None
    lost_at_least: int
    broker_names: tuple[str, ...]
    reasons: Mapping[str, Unknown]


class GroupList(Struct, frozen=True):
    """All groups, sorted by name, what could not be read, and how many of RocketMQ's own groups were left out."""

    groups: tuple[GroupSummary, ...]
    failures: tuple[Failure, ...]
    hidden_system_count: int


class _Tables(Struct, frozen=True):
    """One broker's tables: which groups it knows, and their offsets."""

    names: frozenset[str]
    offsets: Mapping[str, _Offsets]


async def fetch_group_list(client: Client, patterns: Sequence[str] = (), *, with_system: bool = False) -> GroupList:
    """Return all groups of the cluster, or those that names and patterns pick.

    Raises NotFoundError for a pattern that picks none, and the brokers' error when none of them answers.
    """
    cluster = await fetch_cluster(client)
    tables = await ask_all(cluster.brokers, lambda broker: _fetch_tables(client, broker))
    if not tables.ok:
        raise all_failed(tables.failed.values())
    names = {name for table in tables.ok.values() for name in table.names}
    if patterns:
        # Whoever names a system group wants to see it.
        named = {pattern for pattern in patterns if not is_pattern(pattern)}
        silent = {broker.broker_name: error for broker, error in tables.failed.items()}
        names = set(pick("Group", patterns, names, silent))
        shown = sorted(name for name in names if with_system or name in named or not is_system_group(name))
    else:
        shown = sorted(name for name in names if with_system or not is_system_group(name))

    group_places = [(broker, name) for broker in tables.ok for name in shown]
    member_answers = await ask_all(group_places, lambda place: fetch_connections(client, *place))
    elsewhere = await _find_elsewhere(client, cluster, member_answers.ok) if client.expectation.is_first else {}
    topics = {topic for table in tables.ok.values() for name in shown for topic in table.offsets.get(name, {})}
    topics.update(topic for found in member_answers.ok.values() if found is not None for topic in found.subscriptions)
    # At every broker: one that has the topic, but no offset of the group, holds messages that it never read.
    topic_places = [(broker, topic) for broker in tables.ok for topic in sorted(topics)]
    topic_answers = await ask_all(topic_places, lambda place: _fetch_topic(client, *place))
    if not tables.failed and not topic_answers.failed:
        _note_queues(client, topic_answers.ok)
    proxies, proxy_failures = await find_proxies(client, tables.ok)
    failures = [Failure(broker.broker_name, "groups", error) for broker, error in tables.failed.items()]
    failures += _held_failures(elsewhere)
    failures += _first_of_each_broker(topic_answers.failed, "max offsets")
    failures += _first_of_each_broker(member_answers.failed, "members")
    failures += slave_failures(client)
    summaries = [
        _summarise(
            name,
            tables.ok,
            topic_answers,
            member_answers,
            tables.failed,
            is_held_elsewhere=name in elsewhere,
            proxies=Proxies.ABSENT if is_system_group(name) else proxies,
        )
        for name in shown
    ]
    if any(summary.state is GroupState.UNKNOWN for summary in summaries):
        failures += proxy_failures
    return GroupList(tuple(summaries), tuple(failures), len(names) - len(shown))


def _note_queues(client: Client, topics: Mapping[tuple[Broker, str], Mapping[int, TopicOffset]]) -> None:
    """Remember how many queues each broker has of topics that no route was asked for, and that are not known yet."""
    now_ms = client.clock.now_ms()
    for (broker, topic), queues in topics.items():
        if queues and topic not in client.expectation.topics:
            seen = SeenQueues(len(queues), len(queues), READ | WRITE, now_ms)
            client.sightings.told.setdefault(topic, {})[broker.broker_name] = seen


async def _find_elsewhere(
    client: Client, cluster: ClusterInfo, members: Mapping[tuple[Broker, str], GroupConnections | None]
) -> dict[str, set[MessageQueue]]:
    """Return by group the queues that members hold at brokers which are not registered."""
    groups: dict[str, dict[str, GroupConnections]] = {}
    for (broker, name), found in members.items():
        if found is not None and found.members and broker.read_addresses:
            groups.setdefault(name, {})[broker.read_addresses[0]] = found
    return await find_held_elsewhere(client, groups, {broker.broker_name for broker in cluster.registered})


def _held_failures(elsewhere: Mapping[str, set[MessageQueue]]) -> list[Failure]:
    queues: dict[str, set[MessageQueue]] = {}
    for held in elsewhere.values():
        for mq in held:
            queues.setdefault(mq.broker_name, set()).add(mq)
    reason = "not registered at the name server, but members hold its queues"
    return [
        Failure(name, f"offsets of its {counted(len(each), 'queue')}", UnreachableError(name, reason))
        for name, each in sorted(queues.items())
    ]


def _first_of_each_broker(failed: Mapping[tuple[Broker, str], RmqctlError], what: str) -> list[Failure]:
    """Name each broker once: a broker that goes away fails a thousand requests for one reason."""
    by_broker: dict[str, list[tuple[str, RmqctlError]]] = {}
    for (broker, name), error in failed.items():
        by_broker.setdefault(broker.broker_name, []).append((name, error))
    failures = []
    for broker_name, each in by_broker.items():
        name, error = each[0]
        more = f" and {len(each) - 1} more" if len(each) > 1 else ""
        failures.append(Failure(broker_name, f"{what} of {name}{more}", error))
    return failures


async def _fetch_tables(client: Client, broker: Broker) -> _Tables:
    groups_answer, offsets_answer = await asyncio.gather(
        client.ask_broker(broker, headers.get_all_groups()),
        client.ask_broker(broker, headers.get_all_consumer_offsets()),
    )
    configured = bodies.decode_groups(groups_answer.command.body)
    stored = bodies.decode_consumer_offsets(offsets_answer.command.body).groups
    return _Tables(frozenset(configured) | frozenset(stored), stored)


async def _fetch_topic(client: Client, broker: Broker, topic: str) -> Mapping[int, TopicOffset]:
    """Return min and max by queue id; nothing for a topic that was deleted and left its offsets behind."""
    try:
        answer = await client.ask_broker(broker, headers.get_topic_stats(topic))
    except BrokerError as error:
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            return {}
        raise
    return {mq.queue_id: offsets for mq, offsets in bodies.decode_topic_stats(answer.command.body).items()}


def _summarise(
    name: str,
    tables: Mapping[Broker, _Tables],
    topics: _TopicAnswers,
    members: Answers[tuple[Broker, str], GroupConnections | None],
    failed: Mapping[Broker, RmqctlError],
    *,
    is_held_elsewhere: bool,
    proxies: Proxies,
) -> GroupSummary:
    knowing = [broker for broker, table in tables.items() if name in table.names]
    connected = [found for broker in tables if (found := members.ok.get((broker, name))) is not None]
    connections = {(member.client_id, member.client_address): member for item in connected for member in item.members}
    client_ids = {client_id for client_id, _ in connections}
    untold = [members.failed[broker, name] for broker in tables if (broker, name) in members.failed]
    unseen = unseen_reason([*failed.values(), *untold], proxies)
    state = group_state(unseen, has_members=bool(client_ids))

    subscribed = {topic for item in connected for topic in item.subscriptions}
    with_offsets = {topic for broker in knowing for topic in tables[broker].offsets.get(name, {})}
    # A live group's offsets of topics that it left say nothing about it; brokers leave them out too (ConsumeStats).
    counted = subscribed or with_offsets
    lag, lost, lag_reason = _sum_lag(name, tables, counted, topics)

    reasons: dict[str, Unknown] = {}
    if any(item.message_model == BROADCASTING for item in connected):
        lag, lost, lag_reason = 0, 0, Unknown.BROADCASTING
    elif failed:
        lag_reason = reason_of(failed.values())
    elif is_held_elsewhere:
        lag_reason = Unknown.BROKER_NOT_REGISTERED
    elif not with_offsets:
        lag_reason = Unknown.NEVER_COMMITTED
    if lag_reason is not None:
        reasons["lag"] = reasons["lost"] = lag_reason
    if not client_ids:
        no_members = unseen or Unknown.NO_MEMBERS
        reasons |= dict.fromkeys(("consumeType", "messageModel", "clientVersion"), no_members)
        if state is GroupState.UNKNOWN:
            reasons["memberCount"] = no_members
    consume_type = agreed(item.consume_type for item in connected)
    message_model = agreed(item.message_model for item in connected)
    if connected:
        for key, value in (("consumeType", consume_type), ("messageModel", message_model)):
            reasons |= {} if value is not None else {key: Unknown.BROKERS_DIFFER}
    return GroupSummary(
        group=name,
        state=state,
        member_count=None if state is GroupState.UNKNOWN else len(client_ids),
        consume_type=consume_type if client_ids else None,
        message_model=message_model if client_ids else None,
        client_version=plain_version(version_name(min(m.version for m in connections.values())))
        if connections
        else None,
        topics=tuple(sorted(with_offsets | subscribed)),
        lag=None if "lag" in reasons else lag,
        lag_at_least=lag,
        lost=None if "lost" in reasons else lost,
        lost_at_least=lost,
        broker_names=tuple(sorted(broker.broker_name for broker in knowing)),
        reasons=reasons,
    )


def _sum_lag(
    name: str,
    tables: Mapping[Broker, _Tables],
    counted: set[str],
    topics: _TopicAnswers,
) -> tuple[int, int, Unknown | None]:
    """Return lag, losses, and why the lag is not the whole one: the weightiest reason that any queue gives."""
    lag = lost = 0
    found: set[Unknown] = set()
    for broker, table in tables.items():
        for topic in counted:
            queues = topics.ok.get((broker, topic))
            if queues is None:
                found.add(reason_of([topics.failed[broker, topic]]))
                continue
            offsets = table.offsets.get(name, {}).get(topic, {})
            for queue_id, queue in queues.items():
                consumer_offset = offsets.get(queue_id)
                if consumer_offset is None:
                    if queue.max_offset > queue.min_offset:
                        found.add(Unknown.NEVER_COMMITTED)
                elif not 0 <= consumer_offset <= queue.max_offset:
                    found.add(Unknown.OFFSET_BEYOND_MAX)
                else:
                    queue_lag, queue_lost = compute_lag(queue.min_offset, queue.max_offset, consumer_offset)
                    lag += queue_lag
                    lost += queue_lost or 0
    order = (Unknown.BROKER_UNREACHABLE, Unknown.NOT_AUTHORISED, Unknown.OFFSET_BEYOND_MAX, Unknown.NEVER_COMMITTED)
    return lag, lost, next((reason for reason in order if reason in found), None)
