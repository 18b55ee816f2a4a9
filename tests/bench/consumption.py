"""Consuming 200,000 messages of 1 KiB from 8 queues: ours beside Java's and Go's push consumers, in turn.

What a batch of 1 and of 32 do in messages a second and in CPU time, and how old messages are when 1,000 come a second.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.bench.decoder import MESSAGE_COUNT, TOPIC
from tests.bench.measure import java, median
from tests.real.harness.cluster import Cluster
from tests.real.harness.go import go_consumer, missing_go

_ROUNDS = 3
# Latency: so many messages at so many a second.
_OFFERED_COUNT, _OFFERED_PER_S = 10_000, 1_000
_STUCK_TOPIC, _STUCK_COUNT = "BenchStuck", 1_000_000


class _Run(NamedTuple):
    rate: float
    cpu_us: float


def measure_rates(cluster: Cluster) -> list[tuple[str, str, str, bool]]:
    """Return rows of figures, for batches of 32 and of 1. The topic must be filled (decoding.fill)."""
    rows = []
    for batch in (32, 1):
        runs = _run_in_turn(cluster, batch, [name for name in _PEERS if name != "Go" or missing_go() is None])
        rate = {name: median([run.rate for run in found]) for name, found in runs.items()}
        cpu_us = {name: median([run.cpu_us for run in found]) for name, found in runs.items()}
        said = ", ".join(f"{name} {rate[name]:,.0f}" for name in runs)
        wanted = {"Java": 1.5 if batch == 32 else 1.0, **({"Go": 1.2} if batch == 32 and "Go" in runs else {})}
        for peer, factor in wanted.items():
            ratio = rate["ours"] / rate[peer]
            what = f"consuming, batch {batch}: beside {peer}'s push consumer"
            rows.append((what, f"{ratio:.2f} times ({said} msg/s)", f">= {factor:g} times", ratio >= factor))
        share = cpu_us["ours"] / cpu_us["Java"]
        spent = ", ".join(f"{name} {cpu_us[name]:.1f}" for name in runs)
        rows.append((f"consuming, batch {batch}: CPU time beside Java's", f"{share:.2f} of it ({spent} us a message)",
                     "<= 0.5 of it", share <= 0.5))  # fmt: skip
    return rows


def measure_orderly(cluster: Cluster) -> list[tuple[str, str, str, bool]]:
    """Return rows of figures for consumption in order, as measure_rates() does."""
    rows = []
    for batch in (32, 1):
        runs = _run_in_turn(cluster, batch, ["ours", "Java"], "orderly")
        ours, peer = (median([run.rate for run in found]) for found in runs.values())
        what = f"consuming in order, batch {batch}: beside Java's push consumer"
        rows.append(
            (what, f"{ours / peer:.2f} times (ours {ours:,.0f}, Java {peer:,.0f} msg/s)", ">= 1 times", ours >= peer)
        )
    return rows


def _run_in_turn(cluster: Cluster, batch: int, names: Sequence[str], *words: str) -> dict[str, list[_Run]]:
    """Have each of these consume the whole topic, one after the other, several times."""
    runs: dict[str, list[_Run]] = {name: [] for name in names}
    for _ in range(_ROUNDS):
        for name, found in runs.items():
            found.append(_run([*_PEERS[name](cluster, batch, TOPIC, MESSAGE_COUNT), *words]))
    return runs


def measure_latency(cluster: Cluster) -> list[tuple[str, str, str, bool]]:
    """Return rows of figures: from the producer's clock to the listener, both on this machine."""
    ages_ms: dict[str, list[tuple[int, int]]] = {"ours": [], "Java": []}
    for number in range(_ROUNDS):
        for name, found in ages_ms.items():
            # A topic of its own, for consumers begin at its start.
            topic = f"BenchLatency{name}{number}"
            cluster.create_topic(topic, queue_count=8, brokers=("broker-a",))
            found.append(_latency(cluster, topic, _PEERS[name](cluster, 1, topic, _OFFERED_COUNT)))
    rows = []
    for at, percent in enumerate(("p50", "p99")):
        ours, java = (median([ages[at] for ages in ages_ms[name]]) for name in ("ours", "Java"))
        # Whole ms: one more or less is the clocks'.
        is_reached = ours <= max(1.2 * java, java + 1)
        what = f"consuming {_OFFERED_PER_S:,} msg/s: {percent} from send to listener"
        rows.append((what, f"{ours:.0f} ms (Java {java:.0f} ms)", "<= 1.2 times Java's", is_reached))
    return rows


def measure_memory(cluster: Cluster) -> list[tuple[str, str, str, bool]]:
    """Return a row: a million messages behind a listener that never comes back."""
    cluster.create_topic(_STUCK_TOPIC, queue_count=8, brokers=("broker-a",))
    cluster.java.produce(_STUCK_TOPIC, _STUCK_COUNT, size=1024, batch=100)
    words = [sys.executable, "-m", "tests.bench.consume_stuck", cluster.namesrv, _group(), _STUCK_TOPIC, "15"]
    printed = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout
    held, rss_mib = map(float, printed.split())
    what = f"consuming, {_STUCK_COUNT:,} messages behind a listener that hangs: memory"
    return [(what, f"{rss_mib:.0f} MiB ({held:,.0f} messages held)", "< 250 MiB", held > 0 and rss_mib < 250)]


def _latency(cluster: Cluster, topic: str, words: Sequence[str]) -> tuple[int, int]:
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("started"):
            assert process.poll() is None
        # Queues are shared within a second or two of the start.
        time.sleep(4)
        cluster.java.produce(topic, _OFFERED_COUNT, size=1024, rate=_OFFERED_PER_S)
        *_, p50_ms, p99_ms = process.stdout.read().split()
    return int(p50_ms), int(p99_ms)


def _run(words: Sequence[str]) -> _Run:
    printed = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout
    seconds, cpu_s, *_ = map(float, printed.split("\n")[-2].split())
    return _Run(MESSAGE_COUNT / seconds, cpu_s / MESSAGE_COUNT * 1e6)


def _group() -> str:
    return f"bench-{secrets.token_hex(4)}"


def _ours(cluster: Cluster, batch: int, topic: str, count: int) -> list[str]:
    return [sys.executable, "-m", "tests.bench.consume_ours", cluster.namesrv, _group(), topic, str(batch),
            str(count)]  # fmt: skip


def _java(cluster: Cluster, batch: int, topic: str, count: int) -> list[str]:
    words = (cluster.namesrv, _group(), topic, str(batch), str(count))
    return java(cluster.version, cluster.folder, "ConsumeBench", *words)


def _go(cluster: Cluster, batch: int, topic: str, count: int) -> list[str]:
    log = cluster.folder / "go-bench.log"
    return [str(go_consumer()), "-namesrv", cluster.namesrv, "-group", _group(), "-topics", topic, "-instance", "bench",
            "-log", str(log), "-workers", "20", "-batch", str(batch), "-count", str(count)]  # fmt: skip


_PEERS: dict[str, Callable[[Cluster, int, str, int], list[str]]] = {"ours": _ours, "Java": _java, "Go": _go}
