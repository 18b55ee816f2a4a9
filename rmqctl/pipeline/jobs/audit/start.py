"""What brokers report before an audit: offsets, subscriptions of groups, and since when all messages are retained."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.brokers.tables import fetch_all_offsets
from rmqctl.admin.groups.members import fetch_connections
from rmqctl.admin.results import all_or_failed, ask_all
from rmqctl.admin.topics.queues import find_route
from rmqctl.client.core import Client
from rmqctl.model.group import BROADCASTING, GroupConnections
from rmqctl.model.names import DELAY_TOPIC, TIMER_TOPIC, is_system_group
from rmqctl.model.route import ClusterInfo
from rmqctl.pipeline.jobs.retained_offsets import fetch_held_since, fetch_retained
from rmqctl.protocol import bodies, headers
from rmqctl.rules.message_filters.tags import parse_tags

Offset = tuple[str, str, int, str, int]
# Broker, queue of DELAY_TOPIC, and the offset up to which its messages were delivered.
Delivered = tuple[str, int, int]
# Topic, group and the tags that it subscribes to: empty for all, None when unknown.
Group = tuple[str, str, list[str] | None]


class AuditStart(Struct, frozen=True):
    """What brokers report before messages are read; `held_topics` are the topics in which they hold messages back.

    `brokers` are the masters' addresses by name.
    """

    offsets: list[Offset]
    groups: list[Group]
    held_since_ms: int
    has_traces: bool
    held_topics: tuple[str, ...]
    delivered: list[Delivered]
    brokers: dict[str, str]


async def fetch_audit_start(client: Client, topics: Iterable[str], trace_topic: str, now_ms: int) -> AuditStart:
    """Ask brokers for all that an audit needs. Raises their errors, because partial answers would mislead."""
    cluster = await fetch_cluster(client)
    offsets = await _fetch_offsets(client, cluster, frozenset(topics))
    has_traces = await find_route(client, trace_topic) is not None
    retained = await fetch_retained(client, [*topics, *([trace_topic] if has_traces else [])])
    for failure in retained.failures.values():
        raise failure.error
    spans = [span for each in retained.spans.values() for span in each]
    return AuditStart(
        offsets=offsets,
        groups=await _fetch_groups(client, cluster, sorted({(topic, group) for topic, _, _, group, _ in offsets})),
        held_since_ms=await fetch_held_since(client, spans, now_ms),
        has_traces=has_traces,
        held_topics=tuple([each for each in (TIMER_TOPIC, DELAY_TOPIC) if await find_route(client, each) is not None]),
        delivered=await _fetch_delivered(client, cluster),
        brokers={each.broker_name: each.master_address for each in cluster.brokers if each.master_address},
    )


async def _fetch_offsets(client: Client, cluster: ClusterInfo, topics: frozenset[str]) -> list[Offset]:
    """Return the offsets of groups in the topics. Raises the most severe error when a broker does not answer."""
    answers = await ask_all(cluster.brokers, lambda broker: fetch_all_offsets(client, broker))
    return [
        (topic, broker.broker_name, queue_id, group, queue_offset)
        for broker, stored in all_or_failed(answers).items()
        for group, of_topics in stored.items()
        if not is_system_group(group)
        for topic in topics.intersection(of_topics)
        for queue_id, queue_offset in of_topics[topic].items()
    ]


async def _fetch_delivered(client: Client, cluster: ClusterInfo) -> list[Delivered]:
    """Return the offsets up to which delay levels were delivered. Raises the most severe error."""
    answers = await ask_all(cluster.brokers, lambda broker: client.ask_broker(broker, headers.get_all_delay_offsets()))
    return [
        (broker.broker_name, level - 1, queue_offset)
        for broker, answer in all_or_failed(answers).items()
        for level, queue_offset in bodies.decode_delay_offsets(answer.command.body).items()
    ]


async def _fetch_groups(client: Client, cluster: ClusterInfo, pairs: Iterable[tuple[str, str]]) -> list[Group]:
    names = {group for _, group in pairs}
    places = [(broker, group) for broker in cluster.brokers for group in sorted(names)]
    answers = await ask_all(places, lambda place: fetch_connections(client, *place))
    connected: dict[str, list[GroupConnections]] = {}
    for (_, group), connection in answers.ok.items():
        if connection is not None:
            connected.setdefault(group, []).append(connection)
    silent = {group for _, group in answers.failed}
    return [
        (topic, group, None if group in silent else wanted_tags(topic, connected.get(group, ())))
        for topic, group in pairs
    ]


def wanted_tags(topic: str, connections: Iterable[GroupConnections]) -> list[str] | None:
    """Return the tags of a topic that a group subscribes to: empty for all, None when unknown.

    They are unknown when the group is offline, or its members differ, filter by SQL, do not subscribe to the topic, or
    store their offsets locally (broadcasting).
    """
    found: set[frozenset[str] | None] = set()
    for connection in connections:
        subscription = connection.subscriptions.get(topic)
        if subscription is None or connection.message_model == BROADCASTING:
            return None
        kind, expression = subscription.filter_key
        found.add(parse_tags(expression) if kind == "TAG" else None)
    if len(found) != 1:
        return None
    (tags,) = found
    return None if tags is None else sorted(tags)
