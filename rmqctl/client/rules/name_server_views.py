"""Combine the answers of several name servers: their union, and what each of them leaves out."""

from __future__ import annotations

from collections.abc import Mapping

from rmqctl.model.route import MASTER_ID, BrokerData, ClusterInfo, QueueData, TopicRoute

from .views import differing_views


def merge_clusters(views: Mapping[str, ClusterInfo]) -> ClusterInfo:
    """Return all brokers that any name server lists; where addresses differ, the first name server's count."""
    brokers: dict[str, BrokerData] = {}
    for view in views.values():
        for broker in view.brokers:
            brokers[broker.broker_name] = _merged(brokers.get(broker.broker_name), broker)
    return ClusterInfo(tuple(sorted(brokers.values(), key=lambda broker: (broker.cluster, broker.broker_name))))


def _merged(known: BrokerData | None, other: BrokerData) -> BrokerData:
    if known is None or known.addresses == other.addresses:
        return known or other
    return BrokerData(known.cluster, known.broker_name, {**other.addresses, **known.addresses})


def merge_routes(topic: str, routes: Mapping[str, TopicRoute]) -> TopicRoute:
    """Return the union of several name servers' routes of one topic; there is at least one.

    Where they report different numbers of queues for a broker, the larger counts: no queue is left out.
    """
    if len(routes) == 1:
        return next(iter(routes.values()))
    queues: dict[str, QueueData] = {}
    brokers: dict[str, BrokerData] = {}
    for route in routes.values():
        for data in route.queue_data:
            known = queues.get(data.broker_name)
            if known is None or known.read_queue_count < data.read_queue_count:
                queues[data.broker_name] = data
        for broker in route.brokers:
            brokers[broker.broker_name] = _merged(brokers.get(broker.broker_name), broker)
    mappings = {mapping.broker_name: mapping for route in routes.values() for mapping in route.mappings}
    return TopicRoute(
        topic,
        tuple(data for _, data in sorted(queues.items())),
        tuple(broker for _, broker in sorted(brokers.items())),
        is_static=any(route.is_static for route in routes.values()),
        order_conf=next((route.order_conf for route in routes.values() if route.order_conf is not None), None),
        mappings=tuple(mapping for _, mapping in sorted(mappings.items())),
    )


def unlisted_brokers(views: Mapping[str, ClusterInfo]) -> dict[str, tuple[str, ...]]:
    """Return by name server the brokers (as name, or name/id for slaves) that it does not list but others do."""
    return differing_views(
        {
            address: {
                broker.broker_name if broker_id == MASTER_ID else f"{broker.broker_name}/{broker_id}"
                for broker in view.brokers
                for broker_id in broker.addresses
            }
            for address, view in views.items()
        }
    )


def differing_addresses(views: Mapping[str, ClusterInfo]) -> dict[str, dict[str, str]]:
    """Return each name server's address for every broker whose master has several addresses."""
    reported: dict[str, dict[str, str]] = {}
    for name_server, view in views.items():
        for broker in view.brokers:
            if broker.master_address is not None:
                reported.setdefault(broker.broker_name, {})[name_server] = broker.master_address
    return {name: each for name, each in reported.items() if len(set(each.values())) > 1}


def without_queues(routes: Mapping[str, TopicRoute | None]) -> dict[str, tuple[str, ...]]:
    """Return by name server the brokers whose queues of a topic it does not list but others do."""
    return differing_views(
        {
            address: set() if route is None else {data.broker_name for data in route.queue_data}
            for address, route in routes.items()
        }
    )
