"""A group or a topic as a change of its configuration finds it: what each master has, and the group's members."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.groups.config import read_configs
from rmqctl.admin.groups.members import fetch_connections, find_proxies
from rmqctl.admin.results import all_failed, ask_all, ask_any, not_found
from rmqctl.admin.topics.config import read_topic
from rmqctl.changes.plan_parts import cluster_label, new_id, unseen_config
from rmqctl.client.core import Client
from rmqctl.client.stored_offsets import fetch_group_table
from rmqctl.errors import NotAuthorisedError, NotFoundError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupConfig, GroupConnections, GroupState
from rmqctl.model.names import RETRY_PREFIX, dead_letter_topic
from rmqctl.model.plan import ConfigItem, Consequence, Operation, Plan, PlanItem, Route, Subject
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ConfigReceiptItem, Receipt, Result
from rmqctl.model.route import Absence, BrokerData
from rmqctl.rules.group_state import agreed, group_state, unseen_reason
from rmqctl.text.names import closest
from rmqctl.text.words import counted, listed


class FoundConfig(Struct, frozen=True):
    """What was found. `brokers` are the requested ones that answered, by name; `others` are the rest of the cluster.

    `configs` are their configurations, by broker; a broker without one is not in it. The rest is for groups only.
    `tables` are the configurations of all groups by broker and group, and `offsets` are the group's offsets at these
    brokers. `keeping` are brokers with entries of the group, even if only entries without an offset. `members` are the
    client ids by broker, for brokers with members; `unseen` says why there may be more at the requested brokers.
    """

    subject: Subject
    cluster: str
    brokers: Mapping[str, BrokerData]
    others: tuple[str, ...]
    configs: Mapping[str, Mapping[str, Any]]
    failures: tuple[Failure, ...]
    tables: Mapping[str, Mapping[str, GroupConfig]] = {}
    offsets: Mapping[MessageQueue, int] = {}
    keeping: frozenset[str] = frozenset()
    members: Mapping[str, tuple[str, ...]] = {}
    unseen: Unknown | None = Unknown.NOT_REPORTED
    consume_type: str | None = None
    message_model: str | None = None

    @property
    def group(self) -> str:
        """The group's name."""
        return self.subject.group

    @property
    def state(self) -> GroupState:
        """Whether the group has members, at any broker."""
        return group_state(self.unseen, has_members=bool(self.members))

    @property
    def client_ids(self) -> tuple[str, ...]:
        """Its members at any broker, sorted."""
        return tuple(sorted({client_id for found in self.members.values() for client_id in found}))

    def fields(self, name: str, group: str | None = None) -> Mapping[str, Any] | None:
        """Return a broker's configuration of this group, or another one; None if it has none."""
        if group is None:
            return self.configs.get(name)
        config = self.tables[name].get(group)
        return None if config is None else config.fields

    def known_fields(self, name: str) -> set[str]:
        """Return the fields that a broker knows: its system groups, which always exist, have all of them."""
        return {field for config in self.tables[name].values() for field in config.fields}

    def queue_count(self, names: Collection[str] | None = None) -> str:
        """Return, in words, for how many queues these brokers store an offset; all brokers if none is named."""
        count = sum(names is None or mq.broker_name in names for mq in self.offsets)
        return f"{'at least ' if self.failures else ''}{counted(count, 'queue')}" if count else ""

    def offsets_at(self, name: str) -> dict[MessageQueue, int]:
        """Return the group's offsets at one broker."""
        return {mq: offset for mq, offset in sorted(self.offsets.items()) if mq.broker_name == name}


async def find_config(
    client: Client, group: str, broker_names: Collection[str] = (), *, seen_ms: int | None = None
) -> FoundConfig:
    """Read a group at these brokers; at all if none is named. `seen_ms` is when brokers of an earlier change existed.

    A broker that refuses what a change reads back after it counts as failed. Raises NotFoundError for a broker that
    does not exist, and the brokers' error when none of them answers.
    """
    cluster = await fetch_cluster(client)
    every = {broker.broker_name: broker for broker in cluster.brokers}
    chosen = choose_brokers(every, broker_names, client.name_server_views.silent, seen_ms=seen_ms)
    tables = await ask_all(chosen, lambda name: read_configs(client, chosen[name]))
    if not tables.ok:
        raise all_failed(tables.failed.values())
    offsets = await ask_all(tables.ok, lambda name: fetch_group_table(client, chosen[name], group))
    connections = await ask_all(every, lambda name: fetch_connections(client, every[name], group))
    refused = {
        name: error
        for name, error in connections.failed.items()
        if name in offsets.ok and isinstance(error, NotAuthorisedError)
    }
    readable = [name for name in offsets.ok if name not in refused]
    if refused and not readable:
        raise all_failed(refused.values())
    connected = {name: found for name, found in connections.ok.items() if found is not None and found.members}
    unreported = [error for name, error in connections.failed.items() if name in readable]
    unseen = None
    if not any(name in chosen for name in connected):
        proxies, _ = await find_proxies(client, [every[name] for name in connections.ok])
        unseen = unseen_reason(unreported, proxies)
    return FoundConfig(
        subject=Subject(group),
        cluster=cluster_label(cluster.brokers, client.name_servers),
        brokers={name: chosen[name] for name in readable},
        others=tuple(sorted(set(every) - set(chosen))),
        configs={name: table[group].fields for name, table in tables.ok.items() if group in table},
        tables=tables.ok,
        offsets={mq: offset for table in offsets.ok.values() for mq, offset in table.offsets.items()},
        keeping=frozenset(name for name, table in offsets.ok.items() if table.is_kept),
        members={name: tuple(sorted({m.client_id for m in found.members})) for name, found in connected.items()},
        unseen=unseen,
        consume_type=_agreed(connected, "consume_type"),
        message_model=_agreed(connected, "message_model"),
        failures=(
            *(Failure(name, "configuration", error) for name, error in tables.failed.items()),
            *(Failure(name, "stored offsets", error) for name, error in offsets.failed.items()),
            *(Failure(name, "members", error) for name, error in refused.items()),
        ),
    )


async def find_topic(
    client: Client, subject: Subject, topic: str, broker_names: Collection[str] = (), *, seen_ms: int | None = None
) -> FoundConfig:
    """Read the configuration of a topic from the masters of these brokers; of all if none is named.

    `subject` is the topic, or the group whose own topic it is. `configs` has TopicConfig's fields. `seen_ms` is when
    these brokers existed, as for find_config.

    Raises NotFoundError for a broker that does not exist, and the brokers' error when none of them answers.
    """
    cluster = await fetch_cluster(client)
    every = {broker.broker_name: broker for broker in cluster.brokers}
    chosen = choose_brokers(every, broker_names, client.name_server_views.silent, seen_ms=seen_ms)
    answers = await ask_any(chosen, lambda name: read_topic(client, chosen[name], topic))
    return FoundConfig(
        subject=subject,
        cluster=cluster_label(cluster.brokers, client.name_servers),
        brokers={name: chosen[name] for name in answers.ok},
        others=tuple(sorted(set(every) - set(chosen))),
        configs={name: fields for name, fields in answers.ok.items() if fields is not None},
        failures=tuple(Failure(name, "topic", error) for name, error in sorted(answers.failed.items())),
    )


def choose_brokers(
    every: Mapping[str, BrokerData], names: Collection[str], silent: Mapping[str, RmqctlError], *,
    seen_ms: int | None = None,
) -> dict[str, BrokerData]:  # fmt: skip
    """Return these brokers, sorted by name; all if none is named.

    A broker that does not exist counts as missing if it existed at `seen_ms`; else NotFoundError is raised for it, or
    the error of a silent name server, which may list it.
    """
    for name in names:
        if name not in every and seen_ms is None:
            raise not_found(NotFoundError("Broker", name, suggestions=closest(name, every)), silent)
    gone = {name: BrokerData("", name, {}, Absence(seen_ms)) for name in names if name not in every}
    return {name: {**gone, **every}[name] for name in sorted(set(names) or every)}


def _agreed(connected: Mapping[str, GroupConnections], name: str) -> str | None:
    return agreed(getattr(found, name) for found in connected.values())


async def find_own_topics(client: Client, found: FoundConfig) -> dict[str, dict[str, int]]:
    """Return the group's own topics that exist, with how many queues each broker has of each."""
    names = {f"{RETRY_PREFIX}{found.group}", dead_letter_topic(found.group)}
    # Popping clients have one per topic.
    names |= {mq.topic for mq in found.offsets if mq.topic.startswith(RETRY_PREFIX)}
    routes = await ask_all(sorted(names), client.route)
    for error in routes.failed.values():
        if not isinstance(error, NotFoundError):
            raise error
    return {
        topic: {data.broker_name: data.read_queue_count for data in route.queue_data}
        for topic, route in routes.ok.items()
    }


def changed_configs(receipt: Receipt) -> dict[str, ConfigReceiptItem]:
    """Return the configurations that a change has written, or may have written, by broker; an undo reverts them."""
    done = (Result.CONFIRMED, Result.UNKNOWN)
    return {item.broker_name: item for item in receipt.configs if item.result in done and item.before != item.target}


def new_config_plan(
    client: Client, found: FoundConfig, operation: Operation, configs: Iterable[ConfigItem],
    items: Iterable[PlanItem] = (), consequences: Iterable[Consequence] = (), *, asked: str, reason: str | None,
    route: Route = Route.GROUP_CONFIG, takes_offsets: bool = False,
) -> Plan:  # fmt: skip
    """Return the plan of these items, for what was found, with one item per broker that was not read."""
    now_ms, configs, items = client.clock.now_ms(), tuple(configs), tuple(items)
    names = {item.broker_name for item in configs} | {item.mq.broker_name for item in items}
    return Plan(
        id=new_id(now_ms),
        operation=operation,
        created_at_ms=now_ms,
        cluster=found.cluster,
        brokers={name: found.brokers[name].master_address or "" for name in sorted(names)},
        group=found.group,
        topic=found.subject.topic,
        broker=found.subject.broker,
        route=route,
        asked=asked,
        reason=reason,
        state=found.state,
        consume_type=found.consume_type,
        message_model=found.message_model,
        client_ids=found.client_ids,
        items=items,
        configs=(*configs, *_unseen_configs(found)),
        takes_offsets=takes_offsets,
        consequences=tuple(dict.fromkeys((*consequences, *_not_read(found)))),
    )


def _unseen_configs(found: FoundConfig) -> Iterator[ConfigItem]:
    """Yield an item for each broker that could not be read; nothing will be sent there."""
    reasons: dict[str, str] = {}
    for failure in found.failures:
        reasons.setdefault(failure.broker_name or "", failure.error.sentence)
    for name, why in sorted(reasons.items()):
        yield unseen_config(name, why)


def _not_read(found: FoundConfig) -> Iterator[Consequence]:
    names = sorted({failure.broker_name or "" for failure in found.failures})
    if names:
        members = ", and members there are unknown" if found.subject.kind == "group" else ""
        text = f"{listed(names)} could not be read: nothing will be changed there{members}."
        yield Consequence("NOT_READ", text)
