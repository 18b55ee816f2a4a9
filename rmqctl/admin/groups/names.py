"""Find groups by name and by pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.brokers.tables import fetch_all_offsets, fetch_configs, fetch_configs_at
from rmqctl.admin.results import (
    Answers,
    ask_all,
    ask_any,
    by_broker_name,
    not_found,
    only_or_failed,
    pick,
    unread_brokers,
)
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupConfig
from rmqctl.model.names import is_system_group
from rmqctl.model.route import BrokerData
from rmqctl.rules.lite_topics import bound_topic
from rmqctl.text.names import closest
from rmqctl.text.wildcards import is_pattern


async def find_bound_topic(client: Client, group: str) -> str | None:
    """Return the topic whose lite topics a group consumes, None for an ordinary group, by the brokers that answer."""
    cluster = await fetch_cluster(client)
    tables = await fetch_configs(client, {broker.broker_name: broker for broker in cluster.brokers})
    return bound_topic(table.get(group) for table in tables.ok.values())


async def require_group(
    client: Client, group: str, brokers: Mapping[str, BrokerData], failed_brokers: Mapping[str, RmqctlError]
) -> Answers[str, dict[str, GroupConfig]]:
    """Return all configurations. Raises NotFoundError when no broker has a configuration or an offset of the group.

    A deleted group can leave its offsets behind. `failed_brokers` are those that failed earlier: the group may exist
    there, so their error is raised instead.
    """
    tables = await fetch_configs(client, brokers)
    only_or_failed(tables)
    if any(group in table for table in tables.ok.values()):
        return tables

    async def has_offsets(name: str) -> bool:
        return group in await fetch_all_offsets(client, brokers[name])

    stored = await ask_all(tables.ok, has_offsets)
    if not any(stored.ok.values()):
        require_known(group, tables, unread_brokers(client, {**failed_brokers, **stored.failed}))
    return tables


def require_known(
    group: str, tables: Answers[str, dict[str, GroupConfig]], failed_brokers: Mapping[str, RmqctlError]
) -> None:
    """Raise NotFoundError for a group that is in no table, and the failures' error when a broker did not answer."""
    names = {name for table in tables.ok.values() for name in table}
    if group in names:
        return
    failed = {**failed_brokers, **tables.failed}
    raise not_found(NotFoundError("Group", group, suggestions=closest(group, names)), failed)


async def fetch_matching_groups(client: Client, patterns: Sequence[str]) -> tuple[tuple[str, ...], list[Failure]]:
    """Return the names that patterns match, sorted, and the failures.

    Names without wildcards are returned without asking the brokers. Groups that only have offsets are found as well;
    RocketMQ's own groups only by their names. Raises NotFoundError for a pattern that matches none, and the brokers'
    error when none of them answers.
    """
    if not any(map(is_pattern, patterns)):
        return tuple(dict.fromkeys(patterns)), []
    cluster = await fetch_cluster(client)

    async def ask(broker: BrokerData) -> set[str]:
        return {*await fetch_configs_at(client, broker), *await fetch_all_offsets(client, broker)}

    found = await ask_any(cluster.brokers, ask)
    names = {name for group_names in found.ok.values() for name in group_names if not is_system_group(name)}
    failures = [Failure(broker.broker_name, "names of groups", error) for broker, error in found.failed.items()]
    names |= {pattern for pattern in patterns if not is_pattern(pattern)}
    return pick("Group", patterns, names, unread_brokers(client, by_broker_name(found.failed))), failures
