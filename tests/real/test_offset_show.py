"""`offset show` against real brokers and Java consumers, with mqadmin as the second opinion."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .harness.cluster import Cluster
from .harness.mqadmin import ProgressRow, consumer_progress
from .harness.queue_tables import wait_stored
from .harness.rmqctl import Rmqctl


def _progress(cluster: Cluster, group: str) -> list[ProgressRow]:
    return consumer_progress(cluster.java.mqadmin("consumerProgress", "-g", group))


@pytest.fixture(scope="session")
def quiet_group(cluster: Cluster) -> str:
    """A group whose consumer has read everything and gone."""
    cluster.create_topic("Quiet")
    cluster.java.produce("Quiet", 100)
    cluster.java.consume("quiet", "QuietGroup", "Quiet")
    cluster.java.wait_consumed("quiet", 100)
    wait_stored(cluster, "quiet", "QuietGroup", "Quiet")
    cluster.java.stop("quiet")
    cluster.java.produce("Quiet", 11)
    return "QuietGroup"


@pytest.fixture(scope="module")
def stuck_group(cluster: Cluster) -> Iterator[str]:
    """A group with one message of one queue that never ends, and everything behind it done."""
    cluster.create_topic("Stuck", queue_count=1, brokers=("broker-a",))
    cluster.java.produce("Stuck", 100, queue="broker-a:0")
    cluster.java.consume("shown", "StuckGroup", "Stuck", stuck="m10")  # m10 only: bodies are m0 to m99
    cluster.java.wait_consumed("shown", 99)
    cluster.java.persist("shown")
    yield "StuckGroup"
    cluster.java.release("shown")
    cluster.java.stop("shown")


@pytest.mark.smoke
def test_a_quiet_group_equals_consumer_progress(cluster: Cluster, rmqctl: Rmqctl, quiet_group: str) -> None:
    expected = _progress(cluster, quiet_group)
    assert sum(row.diff for row in expected) == 11

    shown = [
        ProgressRow(
            item["topic"], item["brokerName"], item["queueId"], item["maxOffset"], item["consumerOffset"], item["lag"]
        )
        for item in rmqctl.items("offset", "show", quiet_group)
    ]

    assert shown == expected


@pytest.mark.smoke
def test_an_online_group_equals_consumer_progress(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Online")
    cluster.java.produce("Online", 40)
    client_id = cluster.java.consume("online", "OnlineGroup", "Online")
    cluster.java.wait_consumed("online", 40)
    wait_stored(cluster, "online", "OnlineGroup", "Online")
    expected = _progress(cluster, "OnlineGroup")
    items = rmqctl.items("offset", "show", "OnlineGroup", "--topic", "Online")
    shown = {(item["topic"], item["brokerName"], item["queueId"], item["lag"]) for item in items}

    assert shown == {(row.topic, row.broker_name, row.queue_id, row.diff) for row in expected if row.topic == "Online"}
    assert {item["clientId"] for item in items} == {client_id}
    cluster.java.stop("online")


def test_a_stuck_message_shows_what_a_crash_would_repeat(cluster: Cluster, rmqctl: Rmqctl, stuck_group: str) -> None:
    (item,) = rmqctl.items("offset", "show", stuck_group, "--topic", "Stuck")

    assert (item["consumerOffset"], item["maxOffset"], item["lag"]) == (10, 100, 90)
    # 4.9 brokers don't note what was pulled; there the bound is what the client's flow control allows.
    assert item["duplicateRiskSource"] == ("CLIENT_WINDOW" if cluster.version == "4.9.7" else "BROKER")
    assert item["duplicateRisk"] == 89
    assert item["inflight"] == (None if cluster.version == "4.9.7" else 90)
    assert item["timeLagSource"] == "HEAD_STORE_TIME"
    assert 0 < item["timeLagMs"] < 300_000
    assert 0 < 72 * 3_600_000 - item["retentionLeftMs"] < 300_000


def test_zero_and_none_are_told_apart(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Zero", queue_count=2, brokers=("broker-a",))
    cluster.java.produce("Zero", 5, queue="broker-a:0")
    cluster.java.consume("zero", "ZeroGroup", "Zero", stuck="m0")
    cluster.java.wait_consumed("zero", 4)
    cluster.java.persist("zero")

    first, second = rmqctl.items("offset", "show", "ZeroGroup", "--topic", "Zero")
    assert (first["consumerOffset"], first["lag"]) == (0, 5)
    # An empty queue: a client stores an offset for it only after its first long poll, and the lag is 0 all the same.
    assert second["consumerOffset"] in (None, 0)
    assert second["lag"] == 0

    for item in rmqctl.items("offset", "show", "ZeroGroup", "--topic", "Quiet"):
        assert (item["consumerOffset"], item["lag"]) == (None, None)
        assert item["reasons"]["lag"] == "NEVER_COMMITTED"
    cluster.java.release("zero")
    cluster.java.stop("zero")


def test_a_group_without_a_retry_topic(cluster: Cluster, rmqctl: Rmqctl, quiet_group: str) -> None:
    for broker in cluster.brokers.values():
        cluster.java.mqadmin("updateSubGroup", "-b", broker.address, "-g", "NeverConnected")
    cluster.java.mqadmin("cloneGroupOffset", "-s", quiet_group, "-d", "NeverConnected", "-t", "Quiet")
    assert not consumer_progress(cluster.java.mqadmin("consumerProgress", "-g", "NeverConnected"))

    result = rmqctl("offset", "show", "NeverConnected", "--topic", "Quiet", "-o", "json")

    assert result.exit_code == 0
    assert result.document["summary"]["lag"] == 11
    assert result.document["summary"]["state"] == "EMPTY"
    assert "NeverConnected" in rmqctl("group", "list", "-o", "name").stdout.split()


def test_a_group_that_never_consumed(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.java.mqadmin("updateSubGroup", "-b", cluster.brokers["broker-b"].address, "-g", "BrandNew")

    result = rmqctl("offset", "show", "BrandNew")

    assert (result.exit_code, result.stdout) == (0, "")
    assert "has never consumed" in result.stderr


def test_a_broadcasting_group_has_no_lag_on_brokers(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Radio", queue_count=1)
    cluster.java.consume("radio", "RadioGroup", "Radio", broadcast="yes")

    items = rmqctl.items("offset", "show", "RadioGroup", "--topic", "Radio")

    assert {item["reasons"]["lag"] for item in items} == {"BROADCASTING"}
    (listed,) = (item for item in rmqctl.items("group", "list") if item["group"] == "RadioGroup")
    assert (listed["lag"], listed["reasons"]["lag"]) == (None, "BROADCASTING")
    cluster.java.stop("radio")


@pytest.mark.since_5
def test_a_popping_group_is_told_from_a_pulling_one(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Popped", queue_count=2)
    for broker in cluster.brokers.values():
        cluster.java.mqadmin(
            "setConsumeMode", "-b", broker.address, "-t", "Popped", "-g", "PopGroup", "-m", "POP", "-q", "0"
        )
    client_id = cluster.java.consume("pop", "PopGroup", "Popped", pop="yes", stuck="m")
    cluster.java.produce("Popped", 12)
    cluster.java.wait_started("pop", 1)

    result = rmqctl("offset", "show", "PopGroup", "--topic", "Popped", "-o", "json")

    # Popped messages count as consumed at once: rmqctl must not call them finished.
    assert result.exit_code == 0, result.stderr
    items = result.document["items"]
    assert {item["clientId"] for item in items} == {client_id}
    assert {(item["inflight"], item["reasons"]["inflight"]) for item in items} == {(None, "POP")}
    assert "Members pop" in rmqctl("offset", "show", "PopGroup", "--topic", "Popped").stderr
    cluster.java.release("pop")
