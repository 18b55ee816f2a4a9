"""List topics, and check whether the name server and the brokers agree on each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.brokers.tables import fetch_topic_configs, note_configs
from rmqctl.admin.results import as_reported, ask_all, ask_any, by_broker_name, pick
from rmqctl.client.core import Client
from rmqctl.client.partial_answers import find_silent_servers, slave_failures
from rmqctl.errors import BrokerError
from rmqctl.model.failure import Failure
from rmqctl.model.route import BrokerData, ClusterInfo
from rmqctl.model.topic import TopicConfig, TopicFinding, TopicKind
from rmqctl.rules.cluster_memory import topics_of_missing
from rmqctl.rules.topics import compare_with_route, config_findings, kind_of, own_topics
from rmqctl.text.wildcards import matching

from .stats import TopicStats, fetch_topic_stats

_SHOWN_UNASKED = frozenset({TopicKind.NORMAL, TopicKind.LIGHT})


class TopicSummary(Struct, frozen=True):
    """One topic on all brokers, with each broker's own configuration by broker name, sorted.

    `is_whole`: all brokers answered. `stats` are by broker name; None when they were not requested.
    """

    topic: str
    kind: TopicKind
    at_name_server: bool
    configs: Mapping[str, TopicConfig]
    is_whole: bool
    findings: tuple[TopicFinding, ...] = ()
    stats: Mapping[str, TopicStats] | None = None


class TopicList(Struct, frozen=True):
    """Topics sorted by name, the failures, and the number of topics of other kinds that were left out."""

    topics: tuple[TopicSummary, ...]
    failures: tuple[Failure, ...]
    hidden_count: int


async def fetch_topic_list(
    client: Client,
    patterns: Sequence[str] = (),
    *,
    among: Sequence[str] = (),
    with_system: bool = False,
    with_stats: bool = False,
) -> TopicList:
    """Return the topics that match a pattern, or all normal topics, `with_system` also RocketMQ's own.

    `among`: patterns of the topics to consider, for example those of a namespace; they may match no topic. Raises
    NotFoundError for a pattern or name without a match, and the brokers' error when none of them answers.
    """
    cluster, names = await asyncio.gather(fetch_cluster(client), client.topic_names())
    tables = await ask_any(cluster.brokers, lambda broker: fetch_topic_configs(client, broker))
    own = own_topics(cluster)
    if not tables.failed:
        note_configs(client, tables.ok)
    lost = topics_of_missing(client.expectation, cluster.missing)
    known = sorted({*names, *lost, *(topic for table in tables.ok.values() for topic in table)})
    if among:
        known = list(matching(among, known))
    if patterns:
        wanted = pick("Topic", patterns, known, await find_silent_servers(client) | by_broker_name(tables.failed))
    else:
        wanted = tuple(topic for topic in known if with_system or kind_of(topic, own) in _SHOWN_UNASKED)
    configs = {
        topic: {broker.broker_name: table[topic] for broker, table in tables.ok.items() if topic in table}
        for topic in wanted
    }
    at_name_server = frozenset(names)
    failures = [Failure(broker.broker_name, "topics", error) for broker, error in tables.failed.items()]
    disagreeing = await _compare_routes(client, cluster, tables.ok, at_name_server.intersection(wanted), failures)
    stats = await _fetch_all_stats(client, tables.ok, wanted, failures) if with_stats else None
    failures += slave_failures(client)
    summaries = [
        TopicSummary(
            topic=topic,
            kind=kind_of(topic, own),
            at_name_server=topic in at_name_server,
            configs=configs[topic],
            is_whole=not (tables.failed or client.silent_masters),
            findings=tuple(
                _findings(configs[topic], topic in at_name_server, disagreeing.get(topic, ()), is_missing=topic in lost)
            ),
            stats=None if stats is None else stats.get(topic, {}),
        )
        for topic in wanted
    ]
    return TopicList(tuple(summaries), tuple(failures), 0 if patterns else len(known) - len(wanted))


def _findings(
    configs: Mapping[str, TopicConfig], at_name_server: bool, disagreeing: Sequence[TopicFinding], *,
    is_missing: bool,
) -> list[TopicFinding]:  # fmt: skip
    found = [TopicFinding.BROKER_MISSING] if is_missing else []
    if configs and not at_name_server:
        found.append(TopicFinding.NOT_AT_NAME_SERVER)
    return [*found, *config_findings(configs.values()), *disagreeing]


async def _compare_routes(
    client: Client,
    cluster: ClusterInfo,
    tables: Mapping[BrokerData, Mapping[str, TopicConfig]],
    topics: frozenset[str],
    failures: list[Failure],
) -> dict[str, list[TopicFinding]]:
    """Compare routes with the brokers' configurations, for topics that not every broker of the cluster has.

    A topic that all brokers have is in the routes of all; reading 2,000 routes would double the time of a list.
    """
    clusters = {broker.cluster for broker in cluster.brokers}
    own = own_topics(cluster) | clusters
    partly = [topic for topic in sorted(topics - own) if not all(topic in table for table in tables.values())]
    routes = await ask_all(partly, client.route)
    # A topic without a route was deleted in between, or is a name that the name server uses internally.
    others = [error for error in routes.failed.values() if isinstance(error, BrokerError) or error.exit_code != 5]
    if others:
        failures.append(Failure(None, "routes of topics", others[0]))
    found = {}
    for topic, route in routes.ok.items():
        configs = as_reported(
            client.silent_masters, {broker.broker_name: table.get(topic) for broker, table in tables.items()}
        )
        differing = compare_with_route(configs, {data.broker_name: data for data in route.queue_data})
        found[topic] = sorted(set(differing.values()))
    return found


async def _fetch_all_stats(
    client: Client,
    tables: Mapping[BrokerData, Mapping[str, TopicConfig]],
    topics: Sequence[str],
    failures: list[Failure],
) -> dict[str, dict[str, TopicStats]]:
    places = [(broker, topic) for broker, table in tables.items() for topic in topics if topic in table]
    answers = await ask_all(places, lambda place: fetch_topic_stats(client, *place))
    silent: set[str] = set()
    for (broker, topic), error in answers.failed.items():
        if broker.broker_name not in silent:
            silent.add(broker.broker_name)
            failures.append(Failure(broker.broker_name, f"statistics of {topic}", error))
    found: dict[str, dict[str, TopicStats]] = {}
    for (broker, topic), stats in answers.ok.items():
        if stats is not None:
            found.setdefault(topic, {})[broker.broker_name] = stats
    return found
