from __future__ import annotations

import pytest

from rmqctl.client.rules.address_map import map_hints, unmatched_error, unmatched_keys
from rmqctl.model.cluster_memory import Expectation, SeenBroker
from rmqctl.model.route import Absence, BrokerData, ClusterInfo

CLUSTER = ClusterInfo(
    (
        BrokerData("C", "broker-a", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}),
        BrokerData("C", "broker-b", {}, Absence(5, "10.0.0.3:10911")),
    )
)
EXPECTATION = Expectation(faded={"broker-o": SeenBroker("C", "10.0.0.9:10911", 1)})


@pytest.mark.parametrize(
    ("key", "is_matched"),
    [
        ("broker-a", True), ("broker-a/1", True), ("10.0.0.1:10911", True), ("10.0.0.2:10911", True),
        ("broker-a/2", False), ("broker-z", False), ("10.0.0.7:10911", False),
        # Missing now, or for long: a map must not fail while they are away.
        ("broker-b", True), ("broker-b/1", True), ("10.0.0.3:10911", True), ("broker-o", True),
        ("10.0.0.9:10911", True),
        # A name server, a proxy.
        ("ns:9876", True), ("proxy:8080", True), ("ns:9877", False),
    ],
)  # fmt: skip
def test_a_key_is_a_name_a_slave_or_an_address_that_somebody_has(key: str, *, is_matched: bool) -> None:
    assert unmatched_keys([key], CLUSTER, EXPECTATION, ("ns:9876", "proxy:8080")) == ([] if is_matched else [key])


def test_the_error_lists_what_is_registered() -> None:
    error = unmatched_error("broker-z", "--map-address", CLUSTER)
    assert error.exit_code == 2
    assert error.hint == "Registered: broker-a (10.0.0.1:10911), broker-a/1 (10.0.0.2:10911)."
    assert unmatched_error("z", "--map-address", ClusterInfo(())).hint == "No broker is registered."


@pytest.mark.parametrize(
    ("address", "reached", "is_hinted"),
    [
        ("10.0.0.5:10911", [], True), ("172.17.0.2:10911", [], True), ("192.168.1.1:10911", [], True),
        ("127.0.0.1:10911", [], True), ("169.254.1.1:10911", [], True), ("100.64.0.1:10911", [], True),
        ("203.0.113.5:10911", [], True), ("[fd00::5]:10911", [], True), ("broker-a.internal:10911", [], True),
        # Another broker of its network answers: this one is down.
        ("10.0.0.5:10911", ["10.0.1.6:10911"], False), ("127.0.0.1:1", ["127.0.0.2:1"], False),
        ("[::1]:1", ["127.0.0.1:1"], False), ("203.0.113.5:1", ["203.0.113.9:1"], False),
        ("[fd00::5]:1", ["[fd00::6]:1"], False), ("Broker-A:1", ["broker-a:2"], False),
        # One of another network says nothing.
        ("172.17.0.2:1", ["172.18.0.2:1", "10.0.0.1:1"], True), ("10.0.0.5:1", ["10.1.0.5:1"], True),
        ("[fd00::5]:1", ["[fd01::5]:1"], True), ("broker-a:1", ["broker-b:1"], True),
    ],
)  # fmt: skip
def test_a_map_is_suggested_unless_another_broker_of_the_network_was_reached(
    address: str, reached: list[str], *, is_hinted: bool
) -> None:
    hints = map_hints([address], reached)
    assert list(hints) == [address] * is_hinted
    assert all(f"--map-address {address}=" in hint for hint in hints.values())
