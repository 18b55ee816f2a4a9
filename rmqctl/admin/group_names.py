"""Find groups: by name, by pattern, and by each broker's configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupConfig
from rmqctl.model.names import is_system_group
from rmqctl.model.route import Broker
from rmqctl.protocol import bodies, headers
from rmqctl.rules.lite_topics import bound_topic
from rmqctl.text.names import closest
from rmqctl.text.wildcards import is_pattern, require_matching

from .brokers import fetch_cluster
from .results import Answers, V, all_failed, ask_all, by_broker_name, failed_by_name, not_found, only_or_failed


async def fetch_configs(client: Client, brokers: Mapping[str, Broker]) -> Answers[str, dict[str, GroupConfig]]:
    """Return every group's configuration, by broker and group.

    Reads the list of all groups, once per broker: the request for one group (GET_SUBSCRIPTIONGROUP_CONFIG) creates a
    group that does not exist.
    """
    return await ask_all(brokers, lambda name: fetch_configs_at(client, brokers[name]))


async def fetch_configs_at(client: Client, broker: Broker) -> dict[str, GroupConfig]:
    """Return the configuration of every group on a broker, read once. Raises the errors of Client.ask_broker()."""

    async def ask() -> dict[str, GroupConfig]:
        answer = await client.ask_broker(broker, headers.get_all_groups())
        return bodies.decode_groups(answer.command.body)

    return await client.once(("groups", broker.broker_name), ask)


async def find_bound_topic(client: Client, group: str) -> str | None:
    """Return the topic whose lite topics a group consumes, None for an ordinary group, by the brokers that answer."""
    cluster = await fetch_cluster(client)
    tables = await fetch_configs(client, {broker.broker_name: broker for broker in cluster.brokers})
    return bound_topic(table.get(group) for table in tables.ok.values())


async def fetch_all_offsets(client: Client, broker: Broker) -> Mapping[str, Mapping[str, Mapping[int, int]]]:
    """Return all groups' offsets on a broker, by group, topic and queue id; read once."""

    async def ask() -> Mapping[str, Mapping[str, Mapping[int, int]]]:
        answer = await client.ask_broker(broker, headers.get_all_consumer_offsets())
        return bodies.decode_consumer_offsets(answer.command.body).groups

    return await client.once(("all offsets", broker.broker_name), ask)


async def require_group(
    client: Client, group: str, brokers: Mapping[str, Broker], failed_brokers: Mapping[str, RmqctlError]
) -> Answers[str, dict[str, GroupConfig]]:
    """Return all configurations. Raises NotFoundError when no broker has a configuration or an offset of the group.

    A deleted group can leave its offsets behind. `failed_brokers` are those that failed earlier: the group may exist
    there, so their error is raised instead.
    """
    tables = await fetch_configs(client, brokers)
    if not tables.ok:
        raise all_failed(tables.failed.values())
    if any(group in table for table in tables.ok.values()):
        return tables

    async def has_offsets(name: str) -> bool:
        return group in await fetch_all_offsets(client, brokers[name])

    stored = await ask_all(tables.ok, has_offsets)
    if not any(stored.ok.values()):
        require_known(group, tables, {**failed_brokers, **stored.failed})
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

    async def ask(broker: Broker) -> set[str]:
        return {*await fetch_configs_at(client, broker), *await fetch_all_offsets(client, broker)}

    found = await ask_all(cluster.brokers, ask)
    if not found.ok:
        raise all_failed(found.failed.values())
    names = {name for group_names in found.ok.values() for name in group_names if not is_system_group(name)}
    failures = [Failure(broker.broker_name, "names of groups", error) for broker, error in found.failed.items()]
    names |= {pattern for pattern in patterns if not is_pattern(pattern)}
    return pick("Group", patterns, names, by_broker_name(found.failed)), failures


def pick(
    kind: str, patterns: Sequence[str], names: Iterable[str], failed_brokers: Mapping[str, RmqctlError]
) -> tuple[str, ...]:
    """Return the names that patterns match, sorted.

    Raises NotFoundError for a pattern that matches none; the failed brokers' error instead if some failed, as they may
    have a match.
    """
    try:
        return require_matching(kind, patterns, names)
    except NotFoundError as error:
        raise not_found(error, failed_brokers) from None


def of_matching(groups: Sequence[str], answers: Answers[str, V], failures: list[Failure]) -> list[V]:
    """Return the answers for the groups that `groups` matched, and add the groups that failed to `failures`.

    Groups that only match a pattern and lack the requested topics are skipped. Raises the most important error when
    nothing was read.
    """
    untold = failed_by_name(failures)
    failures += [
        Failure(None, f"group {name}", error)
        for name, error in answers.failed.items()
        if name in groups or not (isinstance(error, NotFoundError) and error.kind == "Topic")
    ]
    try:
        return only_or_failed(answers)
    except NotFoundError as error:
        raise not_found(error, untold) from None
