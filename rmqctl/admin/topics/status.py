"""Read one topic, queue by queue: offsets, times, consumers, and whether its brokers and its route agree."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.brokers.tables import fetch_configs
from rmqctl.admin.results import Answers, as_reported, ask_all, ask_any, by_broker_name, not_found
from rmqctl.admin.rules.retry_topics import owner_of_retry_topic
from rmqctl.client.core import Client
from rmqctl.client.partial_answers import find_silent_servers, slave_failures
from rmqctl.errors import NotFoundError, RmqctlError, UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData, QueueData, TopicRoute
from rmqctl.model.stats import TopicOffset
from rmqctl.model.topic import TopicConfig, TopicFinding
from rmqctl.protocol import headers
from rmqctl.rules.cluster_memory import may_hold
from rmqctl.rules.lite_topics import bound_topic, is_parent
from rmqctl.rules.topics import compare_with_route, config_findings
from rmqctl.text.names import closest

from .config import fetch_topic_config
from .queues import find_route
from .stats import TopicStats, fetch_topic_groups, fetch_topic_stats


class QueueStatus(Struct, frozen=True):
    """One queue of a topic on one broker. None: unknown; for a time also: no message; for `offsets`: no answer.

    `is_read` and `is_written` are whether clients that follow the broker's configuration use the queue.
    """

    mq: MessageQueue
    offsets: TopicOffset | None
    earliest_at_ms: int | None
    is_read: bool | None
    is_written: bool | None
    error: RmqctlError | None = None

    @property
    def message_count(self) -> int | None:
        """The number of stored messages."""
        return None if self.offsets is None else self.offsets.message_count


class BrokerTopic(Struct, frozen=True):
    """A topic on one broker: its configuration, and its part of the route, each None if unknown or missing.

    `groups` are those that consume it there: connected, or with a stored offset.
    """

    broker_name: str
    config: TopicConfig | None
    in_route: QueueData | None
    put_tps: float | None
    groups: tuple[str, ...] | None
    error: RmqctlError | None = None


class TopicStatus(Struct, frozen=True):
    """A topic's queues, sorted, its brokers, the findings, and the failures.

    `retry_group` is the group whose failed messages the topic stores, if brokers report no group that consumes it.
    `lite_groups` consume its lite topics.
    """

    topic: str
    queues: tuple[QueueStatus, ...]
    brokers: tuple[BrokerTopic, ...]
    findings: tuple[TopicFinding, ...]
    failures: tuple[Failure, ...]
    is_static: bool
    retry_group: str | None = None
    lite_groups: tuple[str, ...] = ()


class _Report(Struct, frozen=True):
    """The answers of one broker that has the topic."""

    stats: TopicStats
    config: TopicConfig | None
    groups: tuple[str, ...]


async def fetch_topic_status(client: Client, topic: str) -> TopicStatus:
    """Return a topic's status on all brokers. Raises NotFoundError, and the brokers' error when none answers."""
    cluster, route = await asyncio.gather(fetch_cluster(client), find_route(client, topic))
    answers = await ask_any(cluster.brokers, lambda broker: _ask_broker(client, broker, topic))
    reported = {broker: found for broker, found in answers.ok.items() if found is not None}
    if not reported and route is None:
        raise await _not_found(client, topic, answers)
    in_route = {data.broker_name: data for data in (*route.queue_data, *route.missing)} if route is not None else {}
    # A registered broker that failed and that the route does not name has no queues of this topic.
    failed = {
        broker.broker_name: error
        for broker, error in answers.failed.items()
        if route is None or broker.broker_name in in_route or _may_be_missing(client, topic, broker)
    }
    for name in set(in_route) - {broker.broker_name for broker in cluster.brokers}:
        failed[name] = UnreachableError(name, "the route names it, but the name server does not list its address")
    failures = [Failure(name, "topic", error) for name, error in sorted(failed.items())]
    earliest = await _fetch_earliest(client, topic, reported, failures)
    queues = [row for broker, found in reported.items() for row in _queues(topic, broker, found, earliest)]
    queues += [
        row
        for name, error in failed.items()
        if name in in_route
        for row in _unknown_queues(topic, in_route[name], error)
    ]
    brokers = [_broker_topic(broker.broker_name, found, in_route) for broker, found in reported.items()]
    is_unread = topic.startswith(RETRY_PREFIX) and not any(item.groups for item in brokers)
    having = {item.broker_name for item in brokers}
    brokers += [
        BrokerTopic(name, None, in_route.get(name), None, None if name in failed else (), failed.get(name))
        for name in {**in_route, **failed}
        if name not in having
    ]
    return TopicStatus(
        topic=topic,
        queues=tuple(sorted(queues, key=lambda row: row.mq)),
        brokers=tuple(sorted(brokers, key=lambda item: item.broker_name)),
        findings=tuple(_findings(client, answers, queues, in_route, route)),
        failures=(*failures, *slave_failures(client)),
        is_static=route is not None and route.is_static,
        retry_group=await _fetch_retry_group(client, topic, reported) if is_unread else None,
        lite_groups=await _fetch_lite_groups(client, topic, reported),
    )


async def _fetch_lite_groups(client: Client, topic: str, reported: Mapping[BrokerData, _Report]) -> tuple[str, ...]:
    """Return the groups that are bound to a topic with lite topics, sorted; empty for other topics."""
    if not any(each.config is not None and is_parent(each.config) for each in reported.values()):
        return ()
    tables = await fetch_configs(client, {broker.broker_name: broker for broker in reported})
    configs = (config for table in tables.ok.values() for config in table.values())
    return tuple(sorted({config.group for config in configs if bound_topic([config]) == topic}))


async def _fetch_retry_group(client: Client, topic: str, brokers: Iterable[BrokerData]) -> str | None:
    """Return the group of a retry topic, None when no broker that has the topic knows the group."""
    tables = await fetch_configs(client, {broker.broker_name: broker for broker in brokers})
    groups = {group for table in tables.ok.values() for group in table}
    return owner_of_retry_topic(topic, groups, await client.topic_names())


def _may_be_missing(client: Client, topic: str, broker: BrokerData) -> bool:
    return broker.absence is not None and may_hold(topic, broker.broker_name, client.expectation)


async def _not_found(client: Client, topic: str, answers: Answers[BrokerData, _Report | None]) -> RmqctlError:
    names = await client.topic_names()
    unread = by_broker_name(answers.failed) | await find_silent_servers(client, topic)
    return not_found(NotFoundError("Topic", topic, suggestions=closest(topic, names)), unread)


async def _ask_broker(client: Client, broker: BrokerData, topic: str) -> _Report | None:
    stats, config, groups = await asyncio.gather(
        fetch_topic_stats(client, broker, topic),
        fetch_topic_config(client, broker, topic),
        fetch_topic_groups(client, broker, topic),
    )
    return None if stats is None else _Report(stats, config, groups)


async def _fetch_earliest(
    client: Client, topic: str, reported: Mapping[BrokerData, _Report], failures: list[Failure]
) -> Mapping[tuple[BrokerData, int], int | None]:
    """Read the store time of the oldest message of each queue with messages; the broker reads it from disk."""
    places = [
        (broker, queue_id)
        for broker, found in reported.items()
        for queue_id, offsets in found.stats.queues.items()
        if offsets.max_offset > offsets.min_offset
    ]

    async def ask(place: tuple[BrokerData, int]) -> int | None:
        broker, queue_id = place
        answer = await client.ask_broker(broker, headers.get_earliest_store_time(topic, queue_id))
        at_ms = headers.int_field(answer.command, "timestamp")
        return at_ms if at_ms > 0 else None

    answers = await ask_all(places, ask)
    first: dict[str, RmqctlError] = {}
    for (broker, _), error in answers.failed.items():
        first.setdefault(broker.broker_name, error)
    failures += [Failure(name, "oldest messages", error) for name, error in sorted(first.items())]
    return answers.ok


def _queues(
    topic: str, broker: BrokerData, report: _Report, earliest: Mapping[tuple[BrokerData, int], int | None]
) -> list[QueueStatus]:
    config = report.config
    return [
        QueueStatus(
            mq=MessageQueue(topic, broker.broker_name, queue_id),
            offsets=offsets,
            earliest_at_ms=earliest.get((broker, queue_id)),
            is_read=None if config is None else config.is_readable and queue_id < config.read_queue_count,
            is_written=None if config is None else config.is_writable and queue_id < config.write_queue_count,
        )
        for queue_id, offsets in report.stats.queues.items()
    ]


def _unknown_queues(topic: str, data: QueueData, error: RmqctlError) -> list[QueueStatus]:
    return [
        QueueStatus(MessageQueue(topic, data.broker_name, queue_id), None, None, None, None, error)
        for queue_id in range(max(data.read_queue_count, data.write_queue_count))
    ]


def _broker_topic(name: str, report: _Report, in_route: Mapping[str, QueueData]) -> BrokerTopic:
    return BrokerTopic(name, report.config, in_route.get(name), report.stats.put_tps, report.groups)


def _findings(
    client: Client,
    answers: Answers[BrokerData, _Report | None],
    queues: list[QueueStatus],
    in_route: Mapping[str, QueueData],
    route: TopicRoute | None,
) -> list[TopicFinding]:
    reported = {broker.broker_name: found for broker, found in answers.ok.items()}
    configs = as_reported(
        client.silent_masters, {name: None if found is None else found.config for name, found in reported.items()}
    )
    found = config_findings(config for config in configs.values() if config is not None)
    if route is not None and route.missing:
        found.insert(0, TopicFinding.BROKER_MISSING)
    if route is not None:
        found += sorted(set(compare_with_route(configs, in_route).values()))
    else:
        found.insert(0, TopicFinding.NOT_AT_NAME_SERVER)
    if any(row.is_read is False and row.message_count for row in queues):
        found.append(TopicFinding.UNREAD_MESSAGES)
    return found
