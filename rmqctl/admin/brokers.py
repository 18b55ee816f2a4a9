"""List brokers and read their status."""

from __future__ import annotations

from msgspec import Struct

from rmqctl.admin.rules.runtime_table import BrokerRuntime, read_runtime
from rmqctl.client.core import Client
from rmqctl.errors import NoBrokerError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.names import DLQ_PREFIX, RETRY_PREFIX
from rmqctl.model.route import MASTER_ID, Broker, ClusterInfo
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.versions import plain_version, version_name
from rmqctl.rules.cluster_memory import master_missing, with_routed_brokers
from rmqctl.text.times import short_time

from .results import ask_all

# Each route is a request to every name server: with more topics, only the one that every broker creates is read.
_MOST_ROUTES = 256
_EVERYWHERE = "SELF_TEST_TOPIC"


async def fetch_expected(client: Client) -> ClusterInfo:
    """Return all brokers that should answer: those that name servers list, that are expected, or that routes name.

    All commands that judge a whole cluster start with this function, so that they all report the same missing brokers.
    """
    return await client.once("expected", lambda: _fetch_expected(client))


async def _fetch_expected(client: Client) -> ClusterInfo:
    cluster = await client.cluster()
    try:
        names = [name for name in await client.topic_names() if not name.startswith((RETRY_PREFIX, DLQ_PREFIX))]
    except RmqctlError:
        return cluster
    topics = names if len(names) <= _MOST_ROUTES else [_EVERYWHERE]
    told = [address for address in client.name_servers if address not in client.name_server_views.silent]
    places = [(address, topic) for address in told for topic in topics]
    answers = await ask_all(places, lambda place: client.route_at(*place))
    expected = with_routed_brokers(cluster, [route for route in answers.ok.values() if route is not None])
    client.map_addresses(expected.brokers)
    client.sightings.has_missing = bool(expected.missing)
    return expected


async def fetch_cluster(client: Client) -> ClusterInfo:
    """Return all brokers that name servers list, and the expected brokers that are not registered.

    Raises NoBrokerError when no broker is registered.
    """
    return _require_registered(client, await client.cluster())


async def fetch_whole_cluster(client: Client) -> ClusterInfo:
    """Return all brokers that should answer (fetch_expected). Raises NoBrokerError when no broker is registered."""
    return _require_registered(client, await fetch_expected(client))


def _require_registered(client: Client, cluster: ClusterInfo) -> ClusterInfo:
    if not cluster.registered:
        seen_ms = [each.absence.last_seen_ms for each in cluster.missing if each.absence and each.absence.last_seen_ms]
        names = ", ".join(broker.broker_name for broker in cluster.missing)
        until = f" until {short_time(max(seen_ms), client.clock.now_ms())}" if seen_ms else ""
        raise NoBrokerError(client.name_servers, f"Registered before{until}: {names}." if names else "")
    return cluster


async def fetch_settings(client: Client, broker: Broker) -> dict[str, str]:
    """Return a broker's configuration from its master or a slave. Raises the errors of Client.ask_broker()."""
    answer = await client.ask_broker(broker, headers.get_broker_config())
    return bodies.decode_properties_text(answer.command.body)


async def settings_once(client: Client, broker: Broker) -> dict[str, str]:
    """Return the same as fetch_settings(), but ask each broker only once."""
    return await client.once(("settings", broker.broker_name), lambda: fetch_settings(client, broker))


class BrokerStatus(Struct, frozen=True):
    """The status of one replica. None: it did not report the value, or did not answer (`error` is set).

    An expected broker that is not registered has its last known address, None if it was never seen. Rates are in
    messages per second over the last 10 s; disk ratios are 0 to 1.
    """

    broker: Broker
    broker_id: int
    address: str | None
    version: str | None = None
    in_tps: float | None = None
    out_tps: float | None = None
    put_today_count: int | None = None
    get_today_count: int | None = None
    commit_log_disk_ratio: float | None = None
    earliest_message_at_ms: int | None = None
    boot_at_ms: int | None = None
    is_active: bool | None = None
    error: str | None = None
    runtime: BrokerRuntime | None = None


async def fetch_broker_statuses(client: Client, cluster: ClusterInfo) -> tuple[list[BrokerStatus], list[Failure]]:
    """Return the status of every replica of every broker; one that fails has a row with the error's name."""
    replicas = [
        (broker, broker_id, broker.addresses[broker_id])
        for broker in cluster.brokers
        for broker_id in sorted(broker.addresses)
    ]

    async def ask(index: int) -> BrokerStatus:
        broker, broker_id, address = replicas[index]
        response = await client.ask(address, headers.get_broker_runtime())
        runtime = read_runtime(bodies.decode_key_values(response.body))
        return BrokerStatus(
            broker, broker_id, address,
            version=plain_version(runtime.version or version_name(response.version)),
            in_tps=runtime.put_tps.last_10s,
            out_tps=runtime.get_tps.last_10s,
            put_today_count=runtime.put_today_count,
            get_today_count=runtime.get_today_count,
            commit_log_disk_ratio=runtime.commit_log_disk_ratio,
            earliest_message_at_ms=runtime.earliest_message_at_ms,
            boot_at_ms=runtime.boot_at_ms,
            is_active=runtime.is_active,
            runtime=runtime,
        )  # fmt: skip

    answers = await ask_all(range(len(replicas)), ask)
    rows, failures = [], []
    for index, (broker, broker_id, address) in enumerate(replicas):
        error = answers.failed.get(index)
        if error is None:
            rows.append(answers.ok[index])
        else:
            rows.append(BrokerStatus(broker, broker_id, address, error=error.name))
            failures.append(Failure(broker.broker_name, "runtime", error))
    for broker in cluster.brokers:
        gone = master_missing(broker, client.clock.now_ms())
        if gone is not None:
            last_address = None if broker.absence is None else broker.absence.address
            rows.append(BrokerStatus(broker, MASTER_ID, last_address, error=gone.name))
            failures.append(Failure(broker.broker_name, "runtime", gone))
    return rows, failures
