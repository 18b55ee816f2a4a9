"""List all groups of a cluster in one pass, from the brokers' own tables rather than from retry topics."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_whole_cluster
from rmqctl.admin.brokers.tables import note_configs
from rmqctl.admin.groups.rules.backlog import merge_backlogs
from rmqctl.admin.results import Answers, ask_all, by_broker_name, none_answered, pick, unread_brokers
from rmqctl.admin.topics.stats import fetch_queue_offsets
from rmqctl.client.core import Client
from rmqctl.client.partial_answers import slave_failures
from rmqctl.errors import NotRegisteredError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupConnections, GroupState, Proxies
from rmqctl.model.names import is_system_group
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData, ClusterInfo
from rmqctl.text.wildcards import is_pattern
from rmqctl.text.words import counted

from .ages import fetch_ages
from .held_queues import find_held_elsewhere
from .letters import fetch_letters
from .members import fetch_connections, find_proxies
from .summary import GroupSummary, ListFacts, consumed_topics, summarise
from .tables import fetch_removed_queues, fetch_tables


class GroupList(Struct, frozen=True):
    """All groups sorted by name, the failures, and the number of RocketMQ's own groups that were left out.

    `at_ms` is when they were read, by this machine's clock.
    """

    groups: tuple[GroupSummary, ...]
    failures: tuple[Failure, ...]
    hidden_system_count: int
    at_ms: int


async def fetch_group_list(client: Client, patterns: Sequence[str] = (), *, with_system: bool = False) -> GroupList:
    """Return all groups of the cluster, or those that names and patterns match.

    Raises NotFoundError for a pattern that matches none, and the brokers' error when none of them answers.
    """
    cluster = await fetch_whole_cluster(client)
    reported = await ask_all(cluster.brokers, lambda broker: fetch_tables(client, broker))
    if not reported.ok:
        raise none_answered((broker.broker_name, error) for broker, error in reported.failed.items())
    tables = Answers({broker: table for broker, (table, _) in reported.ok.items()}, reported.failed)
    topic_failures = [failure for _, failure in reported.ok.values() if failure is not None]
    names = {name for table in tables.ok.values() for name in table.names}
    if patterns:
        # System groups that are named are shown.
        named = {pattern for pattern in patterns if not is_pattern(pattern)}
        names = set(pick("Group", patterns, names, unread_brokers(client, by_broker_name(tables.failed))))
        shown = sorted(name for name in names if with_system or name in named or not is_system_group(name))
    else:
        shown = sorted(name for name in names if with_system or not is_system_group(name))

    group_places = [(broker, name) for broker in tables.ok for name in shown]
    member_answers = await ask_all(group_places, lambda place: fetch_connections(client, *place))
    elsewhere = await _find_elsewhere(client, cluster, member_answers.ok) if client.expectation.is_first else {}
    consumed = consumed_topics(shown, tables.ok, member_answers)
    topics = {topic for each in consumed.values() for topic in each}
    # On every broker: one with the topic but without an offset of the group has messages that it never read.
    topic_places = [(broker, topic) for broker in tables.ok for topic in sorted(topics)]
    with_members = {name for (_, name), found in member_answers.ok.items() if found is not None}
    topic_answers, cut_queues, letters = await asyncio.gather(
        ask_all(topic_places, lambda place: fetch_queue_offsets(client, *place)),
        fetch_removed_queues(client, shown, tables.ok),
        # Groups with members first: dead letters arrive there.
        fetch_letters(client, tables.ok, sorted(shown, key=lambda name: name not in with_members)),
    )
    if not tables.failed:
        note_configs(client, {broker: table.topics for broker, table in tables.ok.items() if table.topics is not None})
    held_failures = _held_failures(elsewhere)
    # Any group may have members and offsets on a missing broker, not only those whose members reported it.
    gone = {BrokerData("", each.broker_name or "", {}): each.error for each in held_failures}
    copied = {BrokerData("", name, {}): error for name, error in client.silent_masters.items()}
    facts = ListFacts(
        tables.ok, {**tables.failed, **gone, **copied}, member_answers, consumed, topic_answers, cut_queues, letters,
        frozenset(client.silent_masters),
    )  # fmt: skip
    backlogs = {name: facts.backlogs(name) for name in shown}
    aged = {
        name: merge_backlogs(by_topic.values())
        for name, by_topic in backlogs.items()
        if not facts.is_broadcasting(name)
    }
    (proxies, proxy_failures), ages = await asyncio.gather(
        find_proxies(client, tables.ok), fetch_ages(client, list(tables.ok), aged)
    )
    failures = [Failure(broker.broker_name, "groups", error) for broker, error in tables.failed.items()]
    failures += held_failures
    failures += topic_failures
    failures += _first_of_each_broker(topic_answers.failed, "max offsets")
    failures += [
        Failure(mq.broker_name, f"messages of {mq}, which {mq.topic} no longer has", error)
        for mq, error in cut_queues.failed.items()
    ]
    failures += _first_of_each_broker(letters.failed, "dead letters")
    failures += _first_of_each_broker(member_answers.failed, "members")
    failures += _first_of_each_broker(ages.failed, "message ages")
    failures += slave_failures(client)
    summaries = [
        summarise(
            name,
            facts,
            backlogs[name],
            ages,
            Proxies.ABSENT if is_system_group(name) else proxies,
        )
        for name in shown
    ]
    if any(summary.state is GroupState.UNKNOWN for summary in summaries):
        failures += proxy_failures
    return GroupList(tuple(summaries), tuple(failures), len(names) - len(shown), client.clock.now_ms())


async def _find_elsewhere(
    client: Client, cluster: ClusterInfo, members: Mapping[tuple[BrokerData, str], GroupConnections | None]
) -> dict[str, set[MessageQueue]]:
    """Return by group the queues that members hold on brokers that are not registered."""
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
    reason = "not registered with the name server, but members hold its queues"
    return [
        Failure(name, f"offsets of its {counted(len(each), 'queue')}", NotRegisteredError(name, reason, None))
        for name, each in sorted(queues.items())
    ]


def _first_of_each_broker(failed: Mapping[tuple[BrokerData, str], RmqctlError], what: str) -> list[Failure]:
    """Return one failure per broker: a broker that stops fails a thousand requests for one reason."""
    by_broker: dict[str, list[tuple[str, RmqctlError]]] = {}
    for (broker, name), error in failed.items():
        by_broker.setdefault(broker.broker_name, []).append((name, error))
    failures = []
    for broker_name, each in by_broker.items():
        name, error = each[0]
        more = f" and {len(each) - 1} more" if len(each) > 1 else ""
        failures.append(Failure(broker_name, f"{what} of {name}{more}", error))
    return failures
