"""What `rmqctl diagnose` says of what waits: filters, slaves, pops that are not redelivered, resets, old offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.harness.conditions import wait_until
from tests.real.harness.diagnose_case import LIMIT_S, diagnose

from .harness.cluster import Cluster
from .harness.jars import VERSIONS
from .harness.rmqctl import Rmqctl

# What is not in memory any more is read from slaves, none of which is there; nothing popped is redelivered for an hour.
_SETTINGS = {"slaveReadEnable": "true", "accessMessageInMemoryMaxRatio": "0", "reviveInterval": "3600000"}
_POP_GROUP = "Waiting-Pop"


@pytest.fixture(params=VERSIONS)
def slow(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(request.param, tmp_path / "home", settings=_SETTINGS)
    try:
        yield cluster.wait()
    finally:
        cluster.stop()


@pytest.mark.timeout(LIMIT_S)
def test_what_waits_and_where(slow: Cluster) -> None:
    java, rmqctl = slow.java, Rmqctl(slow.namesrv)
    for topic in ("Filtered", "Given-Up", "Rewound", "Popped"):
        slow.create_topic(topic, queue_count=1)
    is_5 = slow.version != "4.9.7"

    java.consume("first", "Filtered", "Filtered", also="Given-Up", instance="first")
    java.produce("Given-Up", 5)
    java.produce("Filtered", 5, tag="A")
    java.wait_consumed("first", 10)
    java.persist("first")
    java.stop("first")
    java.consume("filtered", "Filtered", "Filtered", expr="A", stuck="s", instance="filtered")
    java.produce("Filtered", 1, tag="A", prefix="s")
    java.wait_started("filtered", 1)
    java.produce("Filtered", 40, tag="A", batch=20)
    java.produce("Filtered", 160, tag="B", batch=20)

    java.consume("rewound", "Rewound", "Rewound", stuck="s", threads=1, instance="rewound")
    java.produce("Rewound", 20, batch=20)
    java.wait_consumed("rewound", 20)
    java.produce("Rewound", 1, prefix="s")
    java.wait_started("rewound", 21)
    # More than a client takes of one queue, so that it does not pull.
    java.produce("Rewound", 1_500, batch=100)
    if is_5:
        address = slow.addresses["broker-a"]
        java.mqadmin("setConsumeMode", "-b", address, "-t", "Popped", "-g", _POP_GROUP, "-m", "POP", "-n", "8")
        java.consume("pop", _POP_GROUP, "Popped", pop=1, stuck="m", instance="pop")
        java.produce("Popped", 2)
        java.wait_started("pop", 1)
        reset = rmqctl("offset", "reset", "Rewound", "--topic", "Rewound", "--to-earliest", "--yes")
        assert reset.exit_code == 9, reset.stderr
    expected = {"Filtered": {"OFF012", "OFF013", "OFF014"}, "Rewound": {"OFF013"}}
    if is_5:
        expected = {"Filtered": {"OFF012", "OFF013", "OFF014"}, "Rewound": {"OFF013", "PRG003"}, _POP_GROUP: {"POP001"}}
    seen: list[dict[str, set[str]]] = []
    chosen = {code for codes in expected.values() for code in codes} | {"POP001", "PRG003"}

    def is_found() -> bool:
        found = diagnose(rmqctl, "*", "--only", ",".join(sorted(chosen)), "--settle", "0s")
        seen.append({name: {item["code"] for item in found.items.get(name, ())} for name in expected})
        return seen[-1] == expected

    # A pop is due after a minute, and late after another one.
    wait_until(is_found, timeout_s=180, why=lambda: (expected, seen[-1]))


@pytest.fixture(params=VERSIONS)
def filtering(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(request.param, tmp_path / "home", settings={"enablePropertyFilter": "true"})
    try:
        yield cluster.wait()
    finally:
        cluster.stop()


@pytest.mark.timeout(LIMIT_S)
def test_filters_that_a_broker_refuses_and_what_was_popped_or_died(filtering: Cluster) -> None:
    """The broker stops evaluating SQL92; pops are acknowledged; messages die into topics without a permission."""
    java, rmqctl = filtering.java, Rmqctl(filtering.namesrv)
    is_5 = filtering.version != "4.9.7"
    address = filtering.addresses["broker-a"]
    expected = {"Refused": {"PUL005"}, "Passed": set(), "Closed": {"DLQ002", "DLQ003"}, "Unwritable": {"DLQ002"}}
    expected |= {"Acknowledged": set()} if is_5 else {}
    for topic in expected:
        filtering.create_topic(topic, queue_count=1)
    for group, perm in (("Closed", 2), ("Unwritable", 4)):
        filtering.create_topic(f"%DLQ%{group}", queue_count=1, perm=perm)
    if is_5:
        java.mqadmin(
            "setConsumeMode", "-b", address, "-t", "Acknowledged", "-g", "Acknowledged", "-m", "POP", "-n", "8"
        )
        java.consume("popper", "Acknowledged", "Acknowledged", pop=1, instance="popper")
        java.produce("Acknowledged", 20)
        java.wait_consumed("popper", 20)
    popped_s = time.monotonic()

    # Clients ask at their start whether the broker evaluates their filters.
    java.consume("refused", "Refused", "Refused", sql="TAGS = 'A'", instance="refused")
    java.consume("passed", "Passed", "Passed", expr="A", instance="passed")
    for topic, member in (("Refused", "refused"), ("Passed", "passed")):
        java.produce(topic, 5, tag="A")
        java.wait_consumed(member, 5)
    java.mqadmin("updateBrokerConfig", "-b", address, "-k", "enablePropertyFilter", "-v", "false")
    # A pull that waits at the broker is refused when it ends, at the latest with the first message that it finds.
    for topic in ("Refused", "Passed"):
        java.produce(topic, 5, tag="A")
        java.produce(topic, 100, tag="B", batch=20)
    java.wait_consumed("passed", 10)
    # Pops are due after a minute, and late after another one.
    time.sleep(max(0.0, popped_s + 130 - time.monotonic()))
    for group in ("Closed", "Unwritable"):
        java.consume(group, group, group, fail="m", max=0, instance=group)
        java.produce(group, 1)
    chosen = sorted({"POP001", "PRG", "OFF", *(code for codes in expected.values() for code in codes)})
    seen: list[dict[str, set[str]]] = []

    def is_found() -> bool:
        found = diagnose(rmqctl, "*", "--only", ",".join(chosen), "--settle", "0s")
        seen.append({name: set(found.codes.get(name, ())) for name in expected})
        return seen[-1] == expected

    wait_until(is_found, timeout_s=120, why=lambda: (expected, seen[-1]))
    stuck = rmqctl("clean-expired", "Refused", "-o", "json")
    assert [item["why"] for item in stuck.document["items"]] == ["PAUSED"], stuck.stdout
