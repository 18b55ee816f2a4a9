"""A broker as a change of its write permission finds it: its own setting, and the routes of each name server."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.brokers.permission import OwnPermission, read_own_permission, read_route_permissions
from rmqctl.admin.brokers.rules.permission import SETTING, name_servers_of
from rmqctl.admin.results import all_failed
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
    broker, cluster = await _locate(client, broker_name, seen_ms)
    own: OwnPermission | None = None
    failures: list[Failure] = []
    try:
        own = await read_own_permission(client, broker)
    except RmqctlError as error:
        failures.append(Failure(broker_name, SETTING, error))
    fields, failed = await _read(client, client.name_servers, broker, own)
    if failed and len(failed) == len(client.name_servers):
        raise all_failed(failed.values())
    failures += [Failure(None, f"routes at name server {address}", error) for address, error in failed.items()]
    return FoundBroker(
        broker, cluster, fields, closed=None if own is None else own.closed, failures=tuple(failures),
        registers="" if own is None else own.name_servers,
    )  # fmt: skip


async def read_fields(client: Client, broker: BrokerData, names: Collection[str]) -> dict[str, Any]:
    """Return these fields of a broker, as a plan has them. Raises an error if one of them cannot be read."""
    own = await read_own_permission(client, broker) if SETTING in names else None
    read, failed = await _read(client, name_servers_of(dict.fromkeys(names)), broker, own)
    if failed:
        error = all_failed(failed.values())
        said = f" Read: {', '.join(setting_words(read, sorted(read)))}." if read else ""
        raise error.reworded(f"{error.sentence}{said}", hint=error.hint)
    return read


async def _locate(client: Client, name: str, seen_ms: int | None) -> tuple[BrokerData, str]:
    """Return a broker, and its cluster's label. Raises as find_broker()."""
    brokers = (await fetch_cluster(client)).brokers
    every = {broker.broker_name: broker for broker in brokers}
    chosen = choose_brokers(every, [name], client.name_server_views.silent, seen_ms=seen_ms)
    return chosen[name], cluster_label(brokers, client.name_servers)


async def _read(
    client: Client, name_servers: Collection[str], broker: BrokerData, own: OwnPermission | None
) -> tuple[dict[str, Any], Mapping[str, RmqctlError]]:
    """Return a broker's fields, and the errors of name servers that could not be read."""
    topics = None if own is None else own.topics
    routes = await read_route_permissions(client, name_servers, broker.broker_name, topics)
    setting = {} if own is None else {SETTING: own.setting}
    return {**setting, **{address: str(each) for address, each in routes.ok.items()}}, routes.failed


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
    name = subject.name
    broker, cluster = await _locate(client, name, seen_ms)
    failures: tuple[Failure, ...] = ()
    fields: dict[str, Any] | None = None
    try:
        _require_same_name_servers(client, names, is_undo=is_undo)
        fields = await read_fields(client, broker, names)
    except RmqctlError as error:
        failures = (Failure(name, "permission", error),)
    return FoundConfig(
        subject,
        cluster,
        brokers={} if fields is None else {name: broker},
        others=(),
        configs={} if fields is None else {name: fields},
        failures=failures,
    )
