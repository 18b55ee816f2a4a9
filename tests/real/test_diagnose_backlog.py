"""What `rmqctl diagnose` says of what waits: filters, slaves, pops that are not redelivered, resets, old offsets."""

from __future__ import annotations

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
