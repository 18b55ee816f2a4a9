"""`message find` over a million messages beside the pull loop that only decodes them; `message tail`'s latency."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time

from tests.bench.measure import Run, median, rmqctl, run_process
from tests.bench.pull_rate import QUEUE_COUNT, pull_rate
from tests.real.harness.cluster import Cluster

TOPIC = "BenchFind"
MESSAGE_COUNT = 1_000_000
SIZE_BYTES = 256
NEEDLE_COUNT = 5


def fill(cluster: Cluster) -> str:
    """Store the messages on one broker, evenly over 8 queues, a few that can be found; return the broker's address."""
    cluster.create_topic(TOPIC, queue_count=QUEUE_COUNT, brokers=("broker-a",))
    per_queue = MESSAGE_COUNT // QUEUE_COUNT
    for queue_id in range(QUEUE_COUNT):
        cluster.java.produce(TOPIC, per_queue, size=SIZE_BYTES, queue=f"broker-a:{queue_id}", batch=100)
    cluster.java.produce(TOPIC, NEEDLE_COUNT, prefix="needle", size=SIZE_BYTES, queue="broker-a:3")
    return cluster.brokers["broker-a"].address


def find_rates(cluster: Cluster, address: str) -> tuple[float, float, float]:
    """Return messages a second of `message find` and of the bare loop in turn, and the largest memory in MiB.

    `message find` is the whole process, its start included; the loop runs in this one.
    """
    words = ("message", "find", TOPIC, "--since", "1h", "--contains", "needle")
    found, bare, memory = [], [], []
    for number in range(4):
        run: Run = run_process(rmqctl("-n", cluster.namesrv, *words))
        rate = asyncio.run(pull_rate(cluster.namesrv, address, TOPIC, MESSAGE_COUNT))
        if number:
            found.append(MESSAGE_COUNT / run.wall_s)
            bare.append(rate)
        memory.append(run.rss_mib)
    shown = subprocess.run(
        rmqctl("-n", cluster.namesrv, *words, "-o", "json"), capture_output=True, text=True, check=True
    )
    assert len(json.loads(shown.stdout)["items"]) == NEEDLE_COUNT
    return median(found), median(bare), max(memory)


def tail_latency_ms(cluster: Cluster) -> float:
    """Return how long after the broker stored a message `message tail` has printed it, the median of some."""
    cluster.create_topic("BenchTail", queue_count=4)
    count = 20
    command = rmqctl("-n", cluster.namesrv, "message", "tail", "BenchTail", "-o", "jsonl", "--count", str(count))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    time.sleep(2)  # until it follows
    late_ms = []
    for _ in range(count):
        cluster.java.produce("BenchTail", 1)
        stored_at_ms = json.loads(process.stdout.readline())["storeTimestamp"]
        late_ms.append(time.time() * 1000 - stored_at_ms)
        time.sleep(0.07)
    process.stdout.close()
    assert process.wait(10) == 0
    return median(late_ms)
