"""Addresses that brokers registered: which of them a map redirects, and when a map is needed."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rmqctl.errors import UnmatchedMapError
from rmqctl.model.cluster_memory import Expectation
from rmqctl.model.route import MASTER_ID, BrokerData, ClusterInfo
from rmqctl.text.words import listed

_SHOWN = 10


def replica_name(broker: BrokerData, broker_id: int) -> str:
    """Return what a map calls a replica: the broker's name for its master, name/id for a slave."""
    return broker.broker_name if broker_id == MASTER_ID else f"{broker.broker_name}/{broker_id}"


def unmatched_keys(
    keys: Iterable[str], cluster: ClusterInfo, expectation: Expectation, others: Collection[str]
) -> list[str]:
    """Return the keys of a map that match no broker, no slave, no registered address and none of `others`.

    Missing brokers count by name and last known address, so that a map does not fail while they are offline.
    `others` are addresses of name servers and proxies.
    """
    known = set(others)
    away = {broker.broker_name for broker in cluster.missing} | expectation.faded.keys()
    known |= {broker.absence.address for broker in cluster.missing if broker.absence and broker.absence.address}
    known |= {seen.address for seen in expectation.faded.values() if seen.address}
    for broker in cluster.registered:
        known |= {replica_name(broker, broker_id) for broker_id in broker.addresses} | set(broker.addresses.values())
    return [key for key in keys if key not in known and key.partition("/")[0] not in away]


def unmatched_error(key: str, where: str, cluster: ClusterInfo) -> UnmatchedMapError:
    """Return the error for a key that matches nothing; `where` names the option or the context that contains it."""
    there = [
        f"{replica_name(broker, broker_id)} ({address})"
        for broker in cluster.registered
        for broker_id, address in sorted(broker.addresses.items())
    ]
    hint = f"Registered: {listed(there, _SHOWN)}." if there else "No broker is registered."
    return UnmatchedMapError(f"{where} names {key}, which no broker registered.", hint=hint)


def map_hints(unreached: Iterable[str], reached: Iterable[str]) -> dict[str, str]:
    """Return hints by address for brokers whose registered address could not be reached from here.

    An address has no hint when another broker on the same network was reached by its own: then this broker is down.
    """
    networks = {_network(other) for other in reached}
    how = "If the broker is running, map its address to one reachable from here: --map-address"
    return {address: f"{how} {address}=HOST:PORT" for address in unreached if _network(address) not in networks}


def _network(address: str) -> str:
    """Return a key that addresses of one network share; networks of containers and clouds can be as small as a /16."""
    from ipaddress import ip_address, ip_network

    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    try:
        ip = ip_address(host)
    except ValueError:
        return host.lower()
    if ip.is_loopback:
        return "loopback"
    return str(ip_network((ip, 16 if ip.version == 4 else 64), strict=False))
