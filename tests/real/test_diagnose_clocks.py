"""Clocks that are off on real brokers and real Java clients (libfaketime): what is said of them is true."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.real.harness.conditions import wait_until
from tests.real.harness.diagnose_case import LIMIT_S, Found, another_jvm, diagnose
from tests.repetition import repeating

from .harness.cluster import Broker, Cluster
from .harness.faketime import by_a_clock
from .harness.rmqctl import Rmqctl
from .harness.workbench import Workbench

# How far the clocks are off of the second members, by group, in s. What is far off is found without waiting.
_SKEWS_S = {"Clock-None": 0, "Clock-1s": 1, "Clock-B3s": -3, "Clock-1m": 60, "Clock-B1h": -3600, "Clock-1h": 3600}
_FAR = {"Clock-1m", "Clock-B1h", "Clock-1h"}
_PROBED = ("Clock-1s", "Clock-B3s", "Clock-1h")
# A broker rounds, and a launcher's clock is set with what time its start takes.
_ROUNDING_MS = 1


class _Late(Broker):
    """A broker whose clock is 90 s behind, when it is the second one."""

    skew_s = -90

    def start(self) -> None:
        self.start_within(by_a_clock(self.skew_s) if self.name == "broker-b" else ())


def _clocks(found: Found, group: str) -> dict[str, dict[str, Any]]:
    """Return the clocks of one group by the last part of their names: "one", "two", a broker."""
    own = found.groups[group]["clocks"]
    return {clock["name"].rpartition("-" if clock["kind"] == "MEMBER" else " ")[2]: clock for clock in own}


def _codes(found: Found, group: str, *severities: str) -> set[str]:
    return {
        item["code"] for item in found.items[group] if item["code"].startswith("CLK") and item["severity"] in severities
    }


def _is_true(clock: Mapping[str, Any], skew_ms: int) -> bool:
    low_ms, high_ms = clock["skewLowMs"], clock["skewHighMs"]
    return (low_ms is None or low_ms <= skew_ms + _ROUNDING_MS) and (high_ms is None or skew_ms <= high_ms)


def _wait_shared(java: Workbench, other: Workbench, group: str) -> None:
    """Wait until both members hold half of the queues."""
    wait_until(
        lambda: [len(java.queues(f"{group} one", group)), len(other.queues(f"{group} two", group))] == [4, 4],
        timeout_s=60,
    )


def _sending(java: Workbench, topics: list[str]) -> AbstractContextManager[None]:
    """Send to the topics all the time."""
    return repeating(lambda: [java.produce(topic, 8) for topic in topics])


@pytest.mark.timeout(LIMIT_S + 200)
def test_clocks_of_members(cluster: Cluster, rmqctl: Rmqctl) -> None:
    with ExitStack() as stack:
        for group, skew_s in _SKEWS_S.items():
            cluster.create_topic(group)
            other = stack.enter_context(another_jvm(cluster, by_a_clock(skew_s) if skew_s else ()))
            cluster.java.consume(f"{group} one", group, group, instance=f"{group}-one")
            stack.callback(cluster.java.stop, f"{group} one")
            other.consume(f"{group} two", group, group, instance=f"{group}-two")
            _wait_shared(cluster.java, other, group)
        with _sending(cluster.java, list(_SKEWS_S)):
            busy = diagnose(rmqctl, "Clock-*", "--settle", "0s")
        idle = diagnose(rmqctl, "Clock-*", "--settle", "0s", "--for", "0s")
        # One group at a time: all change what they report at once, and here they share two processors.
        probes = {group: diagnose(rmqctl, group, "--settle", "0s", "--only", "CLK", "--probe") for group in _PROBED}
    for group, skew_s in _SKEWS_S.items():
        for document in (busy, idle, *([probes[group]] if group in probes else [])):
            clocks = _clocks(document, group)
            assert {name for name, clock in clocks.items() if clock["kind"] == "MEMBER"} == {"one", "two"}
            for name, clock in clocks.items():
                assert _is_true(clock, skew_s * 1000 if name == "two" else 0), (group, clock)
            assert _codes(document, group, "WARNING", "ERROR") == ({"CLK002"} if group in _FAR else set()), group
        # What is known without a probe is narrow where members work.
        widths = [_width(clock) for clock in _clocks(busy, group).values()]
        assert max(widths) < 5_000, (group, widths)
    for group, probe in probes.items():
        # 10 ms on a quiet machine.
        assert max(_width(clock) for clock in _clocks(probe, group).values()) <= 100, probe.groups
    assert _codes(probes["Clock-B3s"], "Clock-B3s", "INFO") == {"CLK002"}


def _width(clock: Mapping[str, Any]) -> int:
    assert clock["skewLowMs"] is not None
    assert clock["skewHighMs"] is not None
    return int(clock["skewHighMs"] - clock["skewLowMs"])


@pytest.mark.timeout(LIMIT_S)
def test_a_fast_clock_keeps_its_filter(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """The second member subscribes later, and the broker goes on to filter by the first one's expression."""
    cluster.create_topic("ClockFilter")
    with another_jvm(cluster, by_a_clock(3600)) as fast:
        fast.consume("fast", "ClockFilter", "ClockFilter", expr="TagA", instance="ClockFilter-fast")
        wait_until(lambda: len(fast.queues("fast", "ClockFilter")) == 8, timeout_s=60)
        cluster.java.consume("right", "ClockFilter", "ClockFilter", expr="TagB", instance="ClockFilter-right")
        try:
            with _sending(cluster.java, ["ClockFilter"]):
                found: list[Found] = []

                def is_found() -> bool:
                    found.append(diagnose(rmqctl, "ClockFilter", "--settle", "0s"))
                    return _codes(found[-1], "ClockFilter", "WARNING") == {"CLK002", "CLK003"}

                wait_until(is_found, timeout_s=120, why=lambda: found[-1])
        finally:
            cluster.java.stop("right")
    assert {"SUB001", "SUB006"} <= {item["code"] for item in found[-1].items["ClockFilter"]}


@pytest.mark.since_5
@pytest.mark.timeout(LIMIT_S)
def test_a_fast_clock_drops_what_it_pops(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("ClockPop")
    for address in cluster.addresses.values():
        cluster.java.mqadmin(
            "setConsumeMode", "-b", address, "-t", "ClockPop", "-g", "ClockPop", "-m", "POP", "-q", "0"
        )
    with another_jvm(cluster, by_a_clock(3600)) as fast:
        fast.consume("fast", "ClockPop", "ClockPop", pop=1, instance="ClockPop-fast")
        cluster.java.produce("ClockPop", 16)
        found: list[Found] = []

        def is_found() -> bool:
            found.append(diagnose(rmqctl, "ClockPop", "--settle", "0s"))
            return _codes(found[-1], "ClockPop", "ERROR") == {"CLK004"}

        wait_until(is_found, timeout_s=120, why=lambda: found[-1])
        # Its listener has seen none of them.
        assert fast.call("consumed", id="fast") == "0"


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("version", ["5.4.0", "4.9.7"])
def test_a_brokers_clock_that_is_behind(version: str, tmp_path: Path) -> None:
    cluster = Cluster(version, tmp_path, broker_count=2, broker_type=_Late)
    try:
        cluster.wait()
        rmqctl = Rmqctl(cluster.namesrv)
        cluster.create_topic("ClockBroker")
        cluster.java.consume("one", "ClockBroker", "ClockBroker", instance="ClockBroker-one")
        wait_until(lambda: len(cluster.java.queues("one", "ClockBroker")) == 8, timeout_s=60)
        cluster.java.produce("ClockBroker", 16)
        for words in ((), ("--probe", "--only", "CLK")):
            found = diagnose(rmqctl, "ClockBroker", "--settle", "0s", *words)
            clocks = _clocks(found, "ClockBroker")
            assert _is_true(clocks["broker-a"], 0)
            assert _is_true(clocks["broker-b"], _Late.skew_s * 1000)
            assert _is_true(clocks["one"], 0)
            assert max(_width(clocks[name]) for name in ("broker-a", "broker-b")) <= 10
            # The member's clock is one broker's: not the one that is off.
            assert _codes(found, "ClockBroker", "WARNING", "ERROR", "INFO") == {"CLK001"}
        (finding,) = [item for item in found.items["ClockBroker"] if item["code"] == "CLK001"]
        assert {fact["reportedBy"] for fact in finding["evidence"]} == {"broker-a", "broker-b"}
    finally:
        cluster.stop()
