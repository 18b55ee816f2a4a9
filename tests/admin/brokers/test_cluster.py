from __future__ import annotations

import json

import pytest

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.brokers.rules.runtime_table import Rates, read_runtime
from rmqctl.admin.brokers.status import ReplicaStatus, fetch_broker_statuses
from rmqctl.errors import NoBrokerError
from rmqctl.model.failure import Failure
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.versions import plain_version
from tests.admin.cluster import BrokerState, Cluster
from tests.scripted_peer import SILENCE, ok, passing, run


def _fetch(cluster: Cluster) -> tuple[list[ReplicaStatus], list[Failure]]:
    async def scenario() -> tuple[list[ReplicaStatus], list[Failure]]:
        async with cluster.client() as client:
            found = await fetch_cluster(client)
            return await passing(cluster.clock, fetch_broker_statuses(client, found))

    return run(scenario())


def _answering(**values: str) -> ReplicaStatus:
    cluster = Cluster(BrokerState("broker-a"))
    cluster.servers["broker-a"].table[Q.GET_BROKER_RUNTIME_INFO] = ok(json.dumps({"table": values}).encode())
    rows, failures = _fetch(cluster)
    assert failures == []
    return rows[0]


def test_every_broker_has_a_row_with_what_its_runtime_table_says() -> None:
    rows, failures = _fetch(Cluster(BrokerState("broker-b"), BrokerState("broker-a")))
    assert failures == []
    assert [(row.broker.broker_name, row.broker_id, row.address) for row in rows] == [
        ("broker-a", 0, "a:1"),
        ("broker-b", 0, "b:1"),
    ]
    row, runtime = rows[0], rows[0].runtime
    assert (row.version, runtime.put_tps.last_10s, runtime.get_tps.last_10s) == ("5.4.0", 4.5, 2.0)
    assert (runtime.put_today_count, runtime.get_today_count, runtime.commit_log_disk_ratio) == (40, 5, 0.5)
    assert (runtime.earliest_message_at_ms, runtime.boot_at_ms) == (1_795_238_110_000, 1_795_238_100_000)
    assert (runtime.is_active, row.error) == (True, None)


def test_a_broker_that_does_not_answer_keeps_its_row_with_the_errors_name() -> None:
    cluster = Cluster(BrokerState("broker-a"), BrokerState("broker-b"), BrokerState("broker-c"))
    cluster.stop("broker-b")
    cluster.servers["broker-c"].table[Q.GET_BROKER_RUNTIME_INFO] = SILENCE
    rows, failures = _fetch(cluster)
    assert [row.error for row in rows] == [None, "UNREACHABLE", "TIMED_OUT"]
    assert (rows[1].version, rows[1].runtime.put_tps.last_10s) == (None, None)
    assert [(failure.broker_name, failure.what) for failure in failures] == [
        ("broker-b", "runtime"),
        ("broker-c", "runtime"),
    ]


def test_every_replica_is_asked() -> None:
    cluster = Cluster(BrokerState("broker-a"))
    info = b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{1:"slave:1",0:"a:1"},"brokerName":"broker-a"}}}'
    cluster.name_server.table[Q.GET_BROKER_CLUSTER_INFO] = ok(info)
    rows, failures = _fetch(cluster)
    assert [(row.broker_id, row.address, row.error) for row in rows] == [
        (0, "a:1", None),
        (1, "slave:1", "UNREACHABLE"),
    ]
    assert len(failures) == 1


def test_an_older_brokers_misspelt_rate_is_read_and_its_version_taken_from_the_header() -> None:
    row = _answering(getTransferedTps="7.0 1.0 1.0")
    assert (row.runtime.get_tps.last_10s, row.version) == (7.0, "5.4.0")


def test_an_empty_runtime_table_is_all_unknown() -> None:
    row = _answering()
    assert (row.runtime, row.error) == (read_runtime({}), None)
    counts = (row.runtime.put_today_count, row.runtime.boot_at_ms, row.runtime.is_active)
    assert (row.runtime.put_tps, row.runtime.get_tps, *counts) == (Rates(), Rates(), None, None, None)


def test_a_name_server_that_lists_no_broker_is_named() -> None:
    with pytest.raises(NoBrokerError) as caught:
        _fetch(Cluster())
    assert caught.value.sentence == "No broker has registered with name server ns:1 (yet)."
    assert caught.value.exit_code == 6


@pytest.mark.parametrize(
    ("name", "shown"), [("V5_4_0", "5.4.0"), ("HIGHER_VERSION", "HIGHER_VERSION"), ("ORDINAL_3", "ORDINAL_3"), ("", "")]
)
def test_a_version_is_shown_with_dots_and_what_is_none_as_it_is(name: str, shown: str) -> None:
    assert plain_version(name) == shown
