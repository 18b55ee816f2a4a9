"""A broker as a change of its write permission finds it: its own setting, and the routes of each name server."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.brokers.permission import OwnPermission, read_own_permission, read_route_permissions
from rmqctl.admin.brokers.rules.permission import SETTING, name_servers_of
from rmqctl.admin.results import all_failed, all_or_failed
from rmqctl.changes.configs.rules.fields import setting_words
from rmqctl.changes.plan_parts import cluster_label
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.plan import Subject
from rmqctl.model.route import BrokerData
from rmqctl.text.words import listed

from .lookup import FoundConfig, choose_brokers


class FoundBroker(Struct, frozen=True):
    """A broker with what could be read of its permission, and what could not.

    `fields` are its setting, if the master answered, and the permission at each name server that answered. `closed` are
    topics that the broker itself does not open for reading and writing, None if the master did not answer. `registers`
    are the name servers that it registers with, as it reports them.
    """

    broker: BrokerData
    cluster: str
    fields: Mapping[str, Any]
    closed: tuple[str, ...] | None
    failures: tuple[Failure, ...]
    registers: str = ""

    @property
    def config(self) -> FoundConfig:
        """The same as a configuration."""
        name = self.broker.broker_name
        return FoundConfig(
            Subject("", broker=name), self.cluster, {name: self.broker}, (), {name: self.fields}, failures=()
        )


async def find_broker(client: Client, broker_name: str, *, seen_ms: int | None = None) -> FoundBroker:
    """Read a broker's permission from its master and all name servers; a silent master is a failure like another.

    `seen_ms` as for choose_brokers. Raises NotFoundError for a broker that does not exist, and the name servers' error
    when none of them answers.
    """
    cluster = await fetch_cluster(client)
    every = {broker.broker_name: broker for broker in cluster.brokers}
    broker = choose_brokers(every, [broker_name], client.name_server_views.silent, seen_ms=seen_ms)[broker_name]
    own: OwnPermission | None = None
    failures: list[Failure] = []
    try:
        own = await read_own_permission(client, broker)
    except RmqctlError as error:
        failures.append(Failure(broker_name, SETTING, error))
    topics = None if own is None else own.topics
    routes = await read_route_permissions(client, client.name_servers, broker_name, topics)
    if not routes.ok:
        all_or_failed(routes)
    failures += [Failure(None, f"routes at name server {address}", error) for address, error in routes.failed.items()]
    setting = {} if own is None else {SETTING: own.setting}
    return FoundBroker(
        broker=broker,
        cluster=cluster_label(cluster.brokers, client.name_servers),
        fields={**setting, **{address: str(each) for address, each in routes.ok.items()}},
        closed=None if own is None else own.closed,
        failures=tuple(failures),
        registers="" if own is None else own.name_servers,
    )


async def read_fields(client: Client, broker: BrokerData, names: Collection[str]) -> dict[str, Any]:
    """Return these fields of a broker, as a plan has them. Raises an error if one of them cannot be read."""
    own = await read_own_permission(client, broker) if SETTING in names else None
    asked = name_servers_of(dict.fromkeys(names))
    topics = None if own is None else own.topics
    routes = await read_route_permissions(client, asked, broker.broker_name, topics)
    setting = {} if own is None else {SETTING: own.setting}
    read = {**setting, **{address: str(each) for address, each in routes.ok.items()}}
    if routes.failed:
        error = all_failed(routes.failed.values())
        said = f" Read: {', '.join(setting_words(read, sorted(read)))}." if read else ""
        raise error.reworded(f"{error.sentence}{said}", hint=error.hint)
    return read


def _require_same_name_servers(client: Client, names: Collection[str], *, is_undo: bool) -> None:
    """Raise UsageError if a plan is for other name servers than those of this command, apart from silent ones.

    An undo changes only those that the change saw.
    """
    planned = set(name_servers_of(dict.fromkeys(names)))
    asked = {address for address in client.name_servers if address not in client.name_server_views.silent}
    if not planned <= set(client.name_servers) or not (is_undo or asked <= planned):
        raise UsageError(f"The plan is for the name servers {listed(sorted(planned), 5)}.")


async def find_fields(
    client: Client, subject: Subject, names: Collection[str], *, seen_ms: int, is_undo: bool
) -> FoundConfig:
    """Return these fields of a broker as a configuration; the broker counts as failed if one cannot be read.

    Raises NotFoundError, and what fetch_cluster raises.
    """
    cluster = await fetch_cluster(client)
    every = {broker.broker_name: broker for broker in cluster.brokers}
    name = subject.name
    broker = choose_brokers(every, [name], client.name_server_views.silent, seen_ms=seen_ms)[name]
    failures: tuple[Failure, ...] = ()
    fields: dict[str, Any] | None = None
    try:
        _require_same_name_servers(client, names, is_undo=is_undo)
        fields = await read_fields(client, broker, names)
    except RmqctlError as error:
        failures = (Failure(name, "permission", error),)
    return FoundConfig(
        subject,
        cluster_label(cluster.brokers, client.name_servers),
        brokers={} if fields is None else {name: broker},
        others=(),
        configs={} if fields is None else {name: fields},
        failures=failures,
    )
