from __future__ import annotations

import pytest

from rmqctl.admin.brokers.details import BrokerDetails, fetch_broker_details
from rmqctl.errors import NotFoundError, UnreachableError
from rmqctl.protocol.codes import RequestCode as Q
from tests.admin.cluster import BrokerState, Cluster
from tests.scripted_peer import ok, passing, run


def _fetch(cluster: Cluster, wanted: str, address: str | None = None) -> BrokerDetails:
    async def scenario() -> BrokerDetails:
        async with cluster.client() as client:
            return await passing(cluster.clock, fetch_broker_details(client, wanted, address))

    return run(scenario())


def _replicated(**slave: str) -> Cluster:
    """Return a cluster of broker-a with a slave at slave:1, and broker-b."""
    cluster = Cluster(BrokerState("broker-a", settings={"brokerId": "0"}), BrokerState("broker-b"))
    state = BrokerState("broker-a", settings={"brokerId": "1", **slave})
    cluster.network.add("slave:1", state.table())
    cluster.name_server.table[Q.GET_BROKER_CLUSTER_INFO] = ok(
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{1:"slave:1",0:"a:1"},"brokerName":"broker-a","cluster":"C"},'
        b'"broker-b":{"brokerAddrs":{0:"b:1"},"brokerName":"broker-b","cluster":"C"}}}'
    )
    return cluster


def test_every_replica_is_shown_the_master_first() -> None:
    details = _fetch(_replicated(), "broker-a")
    assert [(item.broker_id, item.address, item.version) for item in details.replicas] == [
        (0, "a:1", "5.4.0"),
        (1, "slave:1", "5.4.0"),
    ]
    assert [item.differences for item in details.replicas] == [None, {}]
    assert details.failures == ()


def test_a_slave_that_is_configured_otherwise_is_found() -> None:
    slave = _fetch(_replicated(slaveReadEnable="true"), "broker-a").replicas[1]
    assert slave.differences == {"slaveReadEnable": (None, "true")}


def test_a_broker_is_found_by_name_by_address_and_one_replica_by_both() -> None:
    assert [item.address for item in _fetch(_replicated(), "slave:1").replicas] == ["slave:1"]
    assert [item.address for item in _fetch(_replicated(), "broker-a", "a:1").replicas] == ["a:1"]
    assert _fetch(_replicated(), "slave:1").replicas[0].differences is None


def test_what_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFoundError) as raised:
        _fetch(_replicated(), "broker-aa")
    assert raised.value.suggestions[0] == "broker-a"
    with pytest.raises(NotFoundError, match="A replica of broker-a at b:1") as other:
        _fetch(_replicated(), "broker-a", "b:1")
    assert other.value.hint == "Use one of: a:1, slave:1."


def test_each_replica_is_asked_once_for_each_table() -> None:
    cluster = _replicated()
    _fetch(cluster, "broker-a")
    assert sorted(cluster.servers["broker-a"].codes()) == [Q.GET_BROKER_CONFIG, Q.GET_BROKER_RUNTIME_INFO]
    assert cluster.servers["broker-b"].codes() == []


def test_a_replica_that_is_down_keeps_its_place() -> None:
    cluster = _replicated()
    cluster.stop("broker-a")
    details = _fetch(cluster, "broker-a")
    assert [item.error.name if item.error else None for item in details.replicas] == ["UNREACHABLE", None]
    assert details.replicas[1].differences is None
    assert [failure.what for failure in details.failures] == ["runtime and configuration of a:1"]
    cluster.network.refusing.add("slave:1")
    with pytest.raises(UnreachableError):
        _fetch(cluster, "broker-a")


def test_a_broker_without_an_address_is_unreachable() -> None:
    cluster = _replicated()
    info = b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{},"brokerName":"broker-a","cluster":"C"}}}'
    cluster.name_server.table[Q.GET_BROKER_CLUSTER_INFO] = ok(info)
    with pytest.raises(UnreachableError, match="does not list its address"):
        _fetch(cluster, "broker-a")


def test_no_secret_leaves_this_layer() -> None:
    cluster = _replicated(innerClientAuthenticationCredentials='{"accessKey":"k","secretKey":"s3cret"}')
    details = _fetch(cluster, "broker-a")
    assert "s3cret" not in repr(details)


def test_delay_levels_are_named_by_the_brokers_own_setting() -> None:
    cluster = Cluster(
        BrokerState("broker-a", settings={"messageDelayLevel": "1s 2h"}, runtime={"scheduleMessageOffset_2": "4,9"})
    )
    runtime = _fetch(cluster, "broker-a").replicas[0].runtime
    assert runtime is not None
    assert [(level.level, level.delay, level.backlog) for level in runtime.delay_levels] == [(2, "2h", 5)]
