from __future__ import annotations

from rmqctl.client.rules.name_server_views import (
    differing_addresses,
    merge_clusters,
    merge_routes,
    unlisted_brokers,
    without_queues,
)
from rmqctl.model.route import BrokerData, ClusterInfo, QueueData, TopicRoute

A, B = BrokerData("C", "broker-a", {0: "a:1"}), BrokerData("C", "broker-b", {0: "b:1"})


def _data(name: str, count: int = 4) -> QueueData:
    return QueueData(name, count, count, is_readable=True, is_writable=True)


def test_clusters_are_united_sorted_and_replicas_too() -> None:
    slave = BrokerData("C", "broker-b", {1: "b:2"})
    views = {"ns1": ClusterInfo((B,)), "ns2": ClusterInfo((A, slave)), "ns3": ClusterInfo(())}
    merged = merge_clusters(views)
    assert [broker.broker_name for broker in merged.brokers] == ["broker-a", "broker-b"]
    assert dict(merged.brokers[1].addresses) == {0: "b:1", 1: "b:2"}
    assert unlisted_brokers(views) == {
        "ns1": ("broker-a", "broker-b/1"),
        "ns2": ("broker-b",),
        "ns3": ("broker-a", "broker-b", "broker-b/1"),
    }


def test_where_addresses_differ_the_first_counts_and_both_are_told() -> None:
    views = {"ns1": ClusterInfo((A,)), "ns2": ClusterInfo((BrokerData("C", "broker-a", {0: "old:1"}),))}
    assert merge_clusters(views).brokers[0].master_address == "a:1"
    assert differing_addresses(views) == {"broker-a": {"ns1": "a:1", "ns2": "old:1"}}
    assert unlisted_brokers(views) == {}


def test_routes_are_united_with_the_larger_count() -> None:
    routes = {
        "ns1": TopicRoute("T", (_data("broker-a", 4),), (A,), order_conf=None),
        "ns2": TopicRoute("T", (_data("broker-a", 8), _data("broker-b")), (A, B), order_conf="broker-a:8"),
    }
    merged = merge_routes("T", routes)
    assert [(data.broker_name, data.read_queue_count) for data in merged.queue_data] == [
        ("broker-a", 8),
        ("broker-b", 4),
    ]
    assert merged.brokers == (A, B)
    assert merged.order_conf == "broker-a:8"
    assert merge_routes("T", {"ns1": routes["ns1"]}) is routes["ns1"]
    assert without_queues({**routes, "ns3": None}) == {"ns1": ("broker-b",), "ns3": ("broker-a", "broker-b")}
