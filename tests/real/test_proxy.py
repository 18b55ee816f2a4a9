"""What a proxy keeps from the brokers behind it: the footing of the tests of rmqctl on such clusters."""

from __future__ import annotations

from .harness.cluster import Cluster
from .harness.proxy import Proxy


def test_a_grpc_consumer_consumes_but_is_no_member_at_the_broker(proxy: Proxy) -> None:
    cluster = proxy.cluster
    cluster.create_topic("Proxied")
    cluster.java.produce("Proxied", 8)
    proxy.consumers.consume("one", "ProxiedGroup", "Proxied")
    proxy.consumers.wait_consumed("one", 8)

    assert not _has_members(cluster, "ProxiedGroup")
    assert _has_members(cluster, "CID_DefaultHeartBeatSyncerTopic")  # the proxy itself


def test_a_remoting_consumer_through_the_proxy_is_no_member_either(proxy: Proxy) -> None:
    cluster = proxy.cluster
    cluster.create_topic("Passed")
    cluster.java.produce("Passed", 8)
    proxy.remoting_clients.consume("one", "PassedGroup", "Passed")
    proxy.remoting_clients.wait_consumed("one", 8)

    assert not _has_members(cluster, "PassedGroup")


def _has_members(cluster: Cluster, group: str) -> bool:
    (broker,) = cluster.brokers.values()
    return "#ClientId" in cluster.java.mqadmin("consumerConnection", "-g", group, "-b", broker.address)
