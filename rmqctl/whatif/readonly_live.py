"""Determine the effects of removing write permission from a broker, with reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from rmqctl.admin.brokers.cluster import fetch_cluster, fetch_settings
from rmqctl.admin.brokers.tables import fetch_all_offsets, fetch_configs, fetch_topic_configs
from rmqctl.admin.groups.members import (
    RELAYED_AT_ONCE,
    ask_running_info,
    fetch_connections,
    fetch_placed_connections,
    find_proxies,
)
from rmqctl.admin.results import Answers, ask_all, not_found, pick
from rmqctl.client.core import Client
from rmqctl.client.partial_answers import slave_failures
from rmqctl.errors import NotFoundError
from rmqctl.model.group import GroupConfig, GroupConnections, GroupState, RunningInfo
from rmqctl.model.names import RETRY_PREFIX, is_system_group
from rmqctl.model.route import BrokerData, ClusterInfo
from rmqctl.model.topic import TopicKind
from rmqctl.rules.topics import kind_of, own_topics
from rmqctl.text.names import closest
from rmqctl.text.wildcards import is_pattern

from .readonly import (
    Readonly,
    RemovalMethod,
    by_verdict,
    choose_removal,
    decide,
    is_wiped,
    is_writable_elsewhere,
    reported_mode,
    writable_topics,
)
from .readonly_concerns import find_readonly_concerns
from .readonly_reading import BrokerReading, Tables, topics_of

_SENT_TO = (TopicKind.NORMAL, TopicKind.LIGHT)


async def fetch_readonly(
    client: Client,
    broker_name: str,
    patterns: Sequence[str] = (),
    *,
    way: RemovalMethod | None = RemovalMethod.BROKER_PERMISSION,
) -> Readonly:
    """Return the effects of removing write permission from a broker on all groups, or on those that `patterns` match.

    `way` None: that of choose_removal().

    Raises NotFoundError for a broker, or a pattern without a match; the broker's error when it does not answer.
    """
    cluster = await fetch_cluster(client)
    brokers = {broker.broker_name: broker for broker in cluster.brokers}
    broker = brokers.get(broker_name)
    if broker is None:
        error = NotFoundError("Broker", broker_name, suggestions=closest(broker_name, brokers))
        raise not_found(error, client.name_server_views.silent)
    tables, configs, settings = await asyncio.gather(
        _fetch_tables(client, broker),
        fetch_configs(client, brokers),
        ask_all(brokers, lambda name: fetch_settings(client, brokers[name])),
    )
    if broker_name in configs.failed:
        raise configs.failed[broker_name]
    looked_at, elsewhere = _pick(patterns, {*configs.ok[broker_name], *tables.stored}, configs)
    # Clients that consume from a broker are connected to it.
    seen, topic_routes, (proxies, proxy_failures) = await asyncio.gather(
        ask_all(looked_at, lambda group: fetch_placed_connections(client, broker, group)),
        ask_all(_sent_to(tables, cluster), client.route),
        find_proxies(client, [brokers[name] for name in configs.ok]),
    )
    connected = {group: found for group, (_, found) in seen.ok.items()}
    # All brokers are asked for the members of a group, as by group list.
    unseen = [(group, name) for group in looked_at if connected.get(group) is None for name in configs.ok]
    seen_elsewhere = await ask_all(unseen, lambda place: fetch_connections(client, brokers[place[1]], place[0]))
    consuming = {group: topics for group in looked_at if (topics := topics_of(group, tables, connected.get(group)))}
    running, retry_routes = await asyncio.gather(
        _fetch_running(client, {group: seen.ok[group] for group in consuming if group in seen.ok}),
        ask_all(consuming, lambda group: client.route(f"{RETRY_PREFIX}{group}")),
    )
    reading = BrokerReading(
        broker, brokers, tables, configs, settings, seen, seen_elsewhere, running, retry_routes, topic_routes, proxies
    )  # fmt: skip
    found = _conclude(reading, consuming, way or RemovalMethod.BROKER_PERMISSION)
    if way is None:
        chosen, why = choose_removal(found)
        found = replace(_conclude(reading, consuming, chosen), why=why)
    failures = [*reading.failures(), *slave_failures(client)]
    if any(effect.view.state is GroupState.UNKNOWN for effect in found.effects):
        failures += proxy_failures
    in_vain = sorted(group for group in (*looked_at, *elsewhere) if group in patterns and group not in consuming)
    concerns = find_readonly_concerns(found, reading.others(), in_vain)
    return replace(found, concerns=concerns, failures=tuple(failures))


def _conclude(reading: BrokerReading, consuming: Mapping[str, Mapping[str, int]], way: RemovalMethod) -> Readonly:
    broker, routes = reading.broker, reading.topic_routes.ok
    name = broker.broker_name
    is_writable = reading.is_writable(name)
    others = [other for other in reading.brokers.values() if other.cluster == broker.cluster and other != broker]
    wiped = tuple(topic for topic, route in routes.items() if is_writable and is_wiped(route, name))
    return Readonly(
        broker=broker,
        way=way,
        is_read_only=None if is_writable is None else not is_writable,
        is_only_broker=all(other.absence is not None for other in others),
        missing_names=tuple(other.broker_name for other in others if other.absence is not None),
        effects=by_verdict(decide(reading.view(group, topics), way) for group, topics in consuming.items()),
        unwritable_topics=tuple(topic for topic, route in routes.items() if not is_writable_elsewhere(route, name)),
        wiped_topics=wiped,
        writable_count=len(routes),
    )


async def _fetch_tables(client: Client, broker: BrokerData) -> Tables:
    return Tables(*await asyncio.gather(fetch_topic_configs(client, broker), fetch_all_offsets(client, broker)))


def _pick(
    patterns: Sequence[str], here: set[str], configs: Answers[str, dict[str, GroupConfig]]
) -> tuple[list[str], list[str]]:
    """Return the groups to check that the broker knows, and those that only others know. Raises NotFoundError."""
    if not patterns:
        return sorted(name for name in here if not is_system_group(name)), []
    picked = pick("Group", patterns, here.union(*configs.ok.values()), configs.failed)
    named = {pattern for pattern in patterns if not is_pattern(pattern)}
    wanted = [name for name in picked if name in named or not is_system_group(name)]
    return [name for name in wanted if name in here], [name for name in wanted if name not in here]


def _sent_to(tables: Tables, cluster: ClusterInfo) -> list[str]:
    """Return the broker's topics that producers may send to."""
    own = own_topics(cluster)
    return [topic for topic in writable_topics(tables.topics) if kind_of(topic, own) in _SENT_TO]


async def _fetch_running(
    client: Client, seen: Mapping[str, tuple[str, GroupConnections | None]]
) -> Answers[tuple[str, str], RunningInfo]:
    """Ask members how they consume if brokers do not know, one per group first: time may not suffice for all."""
    places: list[tuple[int, str, str, str]] = []
    for group, (address, connections) in seen.items():
        if connections is not None and reported_mode(connections) is None:
            ids = dict.fromkeys(member.client_id for member in connections.members)
            places += [(number, group, client_id, address) for number, client_id in enumerate(ids)]
    through = {(group, client_id): address for _, group, client_id, address in sorted(places)}

    async def ask(place: tuple[str, str]) -> RunningInfo:
        return await ask_running_info(client, through[place], *place)

    return await ask_all(through, ask, at_once=RELAYED_AT_ONCE)
