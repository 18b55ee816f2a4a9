"""Which clusters list a broker name, which names share an address, and which addresses are slaves."""

from __future__ import annotations

from collections.abc import Collection

from rmqctl.model.route import MASTER_ID, ClusterInfo


def clusters_of_names(views: Collection[ClusterInfo]) -> dict[str, set[str]]:
    """Return by broker name the clusters that any name server lists it in; a broker has only one."""
    clusters: dict[str, set[str]] = {}
    for view in views:
        for broker in view.brokers:
            listed_in = {broker.cluster, *view.clusters.get(broker.broker_name, ())} - {""}
            clusters.setdefault(broker.broker_name, set()).update(listed_in)
    return clusters


def names_of_addresses(views: Collection[ClusterInfo]) -> dict[str, tuple[str, ...]]:
    """Return by address the broker names that share it, sorted: two hosts may have the same brokerIP1."""
    names: dict[str, set[str]] = {}
    for view in views:
        for broker in view.brokers:
            for address in broker.addresses.values():
                names.setdefault(address, set()).add(broker.broker_name)
    return {address: tuple(sorted(several)) for address, several in names.items() if len(several) > 1}


def slaves_of_names(views: Collection[ClusterInfo]) -> dict[str, set[str]]:
    """Return by broker name the addresses of its slaves."""
    slaves: dict[str, set[str]] = {}
    for view in views:
        for broker in view.brokers:
            addresses = {address for broker_id, address in broker.addresses.items() if broker_id != MASTER_ID}
            slaves.setdefault(broker.broker_name, set()).update(addresses)
    return slaves
