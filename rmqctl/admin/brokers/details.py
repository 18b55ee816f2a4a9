"""Read the status and the configuration of one broker, replica by replica."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from rmqctl.admin.brokers.rules.runtime_table import BrokerRuntime, read_runtime
from rmqctl.admin.results import ask_any, not_found
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RmqctlError, UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.route import MASTER_ID, BrokerData, ClusterInfo
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.versions import plain_version, version_name
from rmqctl.rules.broker_config import differing, redacted
from rmqctl.rules.cluster_memory import not_registered
from rmqctl.text.names import closest, one_of

from .cluster import fetch_cluster


class ReplicaDetails(Struct, frozen=True):
    """One replica. Secrets in `config` are redacted; `error` is why it did not answer.

    `differences`: settings that differ from its master's, as (master's, its own); None for the master itself, and when
    one of the two did not answer. `table` is the runtime table as the broker reported it.
    """

    broker: BrokerData
    broker_id: int
    address: str
    version: str | None = None
    runtime: BrokerRuntime | None = None
    table: Mapping[str, str] = {}
    config: Mapping[str, str] | None = None
    differences: Mapping[str, tuple[str | None, str | None]] | None = None
    error: RmqctlError | None = None


class BrokerDetails(Struct, frozen=True):
    """The replicas of one broker, the master first, and what could not be read."""

    broker_name: str
    replicas: tuple[ReplicaDetails, ...]
    failures: tuple[Failure, ...]


class _Report(Struct, frozen=True):
    """The answers of one replica."""

    ordinal: int
    table: Mapping[str, str]
    config: Mapping[str, str]


async def fetch_broker_details(client: Client, wanted: str, address: str | None = None) -> BrokerDetails:
    """Return the replicas of a broker by name, or the one at an address; `address` selects one replica of a broker.

    Raises NotFoundError, and the replicas' error when none of them answers.
    """
    try:
        broker, addresses = _find(await fetch_cluster(client), wanted, address)
    except NotFoundError as error:
        raise not_found(error, client.name_server_views.silent) from None
    if broker.absence is not None:
        raise not_registered(broker, client.clock.now_ms())
    if not addresses:
        raise UnreachableError(broker.broker_name, "the name server does not list its address")
    answers = await ask_any(addresses, lambda broker_id: _ask(client, addresses[broker_id]))
    master = answers.ok.get(MASTER_ID)
    replicas = [
        _details(broker, broker_id, addresses[broker_id], report, master)
        if (report := answers.ok.get(broker_id)) is not None
        else ReplicaDetails(broker, broker_id, addresses[broker_id], error=answers.failed[broker_id])
        for broker_id in addresses
    ]
    failures = [
        Failure(broker.broker_name, f"runtime and configuration of {addresses[broker_id]}", error)
        for broker_id, error in answers.failed.items()
    ]
    return BrokerDetails(broker.broker_name, tuple(replicas), tuple(failures))


def _find(cluster: ClusterInfo, wanted: str, address: str | None) -> tuple[BrokerData, dict[int, str]]:
    """Return the broker, and its addresses to ask by broker id."""
    names = {broker.broker_name: broker for broker in cluster.brokers}
    places = {at: broker for broker in cluster.brokers for at in broker.addresses.values()}
    broker = names.get(wanted) or places.get(wanted)
    if broker is None:
        raise NotFoundError("Broker", wanted, suggestions=closest(wanted, [*names, *places]))
    if broker.absence is not None:
        return broker, {}
    one = address if address is not None else wanted if wanted not in names else None
    if one is not None and one not in broker.addresses.values():
        raise NotFoundError(f"A replica of {broker.broker_name} at", one, hint=one_of(broker.read_addresses))
    return broker, {broker_id: at for broker_id, at in sorted(broker.addresses.items()) if one is None or at == one}


async def _ask(client: Client, address: str) -> _Report:
    """Ask only once: a 5.4.0 broker needs 0.1 s of CPU to build its runtime table."""
    runtime, config = await asyncio.gather(
        client.ask(address, headers.get_broker_runtime()), client.ask(address, headers.get_broker_config())
    )
    return _Report(runtime.version, bodies.decode_key_values(runtime.body), bodies.decode_properties_text(config.body))


def _details(
    broker: BrokerData, broker_id: int, address: str, report: _Report, master: _Report | None
) -> ReplicaDetails:
    runtime = read_runtime(report.table, message_delay_level=report.config.get("messageDelayLevel"))
    return ReplicaDetails(
        broker=broker,
        broker_id=broker_id,
        address=address,
        version=plain_version(runtime.version or version_name(report.ordinal)),
        runtime=runtime,
        table=dict(sorted(report.table.items())),
        config=redacted(report.config),
        differences=differing(master.config, report.config) if master is not None and broker_id != MASTER_ID else None,
    )
