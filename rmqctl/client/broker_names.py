"""What name servers, routes and earlier answers report of each broker name.

A name server keeps one address per broker name and id, whatever the cluster: of two brokers with one name it lists the
one that registered last (RouteInfoManager.registerBroker). Reads and writes then reach one or the other, by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rmqctl.client.rules.broker_names import clusters_of_names, names_of_addresses, slaves_of_names
from rmqctl.model.route import BrokerData, ClusterInfo


class BrokerNames:
    """The clusters and masters' addresses that a run saw for each broker name.

    `clusters` are those of the newest list of brokers, and of the routes since. `others` are addresses that masters of
    the name had earlier in this run, or have at another name server; `current` is the one that is asked.
    """

    def __init__(self) -> None:
        self.clusters: dict[str, set[str]] = {}
        self._routed: dict[str, set[str]] = {}
        self.shared: dict[str, tuple[str, ...]] = {}
        self.slaves: dict[str, set[str]] = {}
        self.current: dict[str, str] = {}
        self.others: dict[str, set[str]] = {}

    def note_views(self, views: Mapping[str, ClusterInfo]) -> None:
        """Note the lists of brokers of all name servers."""
        routed, self._routed = self._routed, {}
        self.clusters = clusters_of_names(views.values())
        for name, clusters in routed.items():
            self.clusters.setdefault(name, set()).update(clusters)
        self.shared = names_of_addresses(views.values())
        self.slaves = slaves_of_names(views.values())
        for view in reversed([*views.values()]):  # the first one's addresses are asked: merge_clusters
            self.note(view.brokers)
        for name, addresses in self.others.items():
            addresses -= self.slaves.get(name, set())

    def note(self, brokers: Iterable[BrokerData]) -> None:
        """Note brokers of any answer. In a route, a slave may be listed as the master (enableSlaveActingMaster)."""
        for broker in brokers:
            name, address = broker.broker_name, broker.master_address
            if broker.cluster and broker.addresses:
                self.clusters.setdefault(name, set()).add(broker.cluster)
                self._routed.setdefault(name, set()).add(broker.cluster)
            if address is None or address in self.slaves.get(name, ()):
                continue
            known = self.current.setdefault(name, address)
            if address != known:
                self.others.setdefault(name, set()).update((known, address))
                self.current[name] = address
