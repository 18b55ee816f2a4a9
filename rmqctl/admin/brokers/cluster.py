"""Find brokers, and read their settings."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.errors import NoBrokerError, RmqctlError
from rmqctl.model.names import DLQ_PREFIX, RETRY_PREFIX
from rmqctl.model.route import BrokerData, ClusterInfo
from rmqctl.protocol import bodies, headers
from rmqctl.rules.cluster_memory import with_routed_brokers
from rmqctl.text.times import short_time

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
    answering = [address for address in client.name_servers if address not in client.name_server_views.silent]
    places = [(address, topic) for address in answering for topic in topics]
    answers = await ask_all(places, lambda place: client.route_at(*place))
    expected = with_routed_brokers(cluster, [route for route in answers.ok.values() if route is not None])
    client.note_brokers(expected.brokers)
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


async def fetch_settings(client: Client, broker: BrokerData) -> dict[str, str]:
    """Return a broker's configuration from its master or a slave. Raises the errors of Client.ask_broker()."""
    answer = await client.ask_broker(broker, headers.get_broker_config())
    return bodies.decode_properties_text(answer.command.body)


class MasterSettings(Struct, frozen=True):
    """A master's release (MQVersion), and its configuration."""

    version: int
    values: Mapping[str, str]


async def read_settings(client: Client, broker: BrokerData) -> MasterSettings:
    """Return the configuration of a broker's master, for a change. Raises the errors of Client.ask()."""
    answer = await client.ask(client.require_master(broker), headers.get_broker_config())
    return MasterSettings(answer.version, bodies.decode_properties_text(answer.body))


async def settings_once(client: Client, broker: BrokerData) -> dict[str, str]:
    """Return the same as fetch_settings(), but ask each broker only once."""
    return await client.once(("settings", broker.broker_name), lambda: fetch_settings(client, broker))
