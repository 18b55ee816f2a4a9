"""Messages of 1 KiB from Java's producer into a sandbox, and out of it to a push consumer; beside a real broker."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Self

from tests.real.harness.cluster import Reachable
from tests.real.harness.sandbox import SandboxProcess

from .measure import median

SIZE_BYTES = 1024
BATCH_COUNT = 100
SENT_COUNT = 60_000
SINGLE_COUNT = 4_000
PULLED_COUNT = 200_000
QUEUE_COUNT = 8
VERSION = "5.4.0"
_ROUNDS = 3


class _Servers:
    """The same clients against a sandbox in memory, one with a folder, and the real cluster."""

    def __init__(self, real: Reachable) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rmqctl-sandbox-bench-"))
        self.memory = SandboxProcess(VERSION, self.folder / "memory", broker_count=1, jvm=())
        data = self.folder / "data"
        self.disk = SandboxProcess(VERSION, self.folder / "disk", broker_count=1, jvm=(), directory=data)
        self.real = real
        self.all: dict[str, Reachable] = {"memory": self.memory, "disk": self.disk, "real": real}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.memory.stop()
        self.disk.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def measure_sends(real: Reachable) -> list[tuple[str, str, str, bool]]:
    """Return messages a second of one producer, the servers in turn."""
    rows = []
    with _Servers(real) as servers:
        for server in servers.all.values():
            server.create_topic("SandboxIn", queue_count=QUEUE_COUNT, brokers=("broker-a",))
            server.java.produce("SandboxIn", SENT_COUNT // 2, size=SIZE_BYTES, batch=BATCH_COUNT)
            server.java.produce("SandboxIn", SINGLE_COUNT // 2, size=SIZE_BYTES)
        for what, count, batch in (("batches of 100", SENT_COUNT, BATCH_COUNT), ("one by one", SINGLE_COUNT, 1)):
            rates = _in_turn(servers.all, lambda server, count=count, batch=batch: _sent(server, count, batch))
            for name, goal in (("memory", 20_000), ("disk", 0)):
                figure = f"{rates[name]:,.0f} msg/s ({rates[name] / rates['real']:.2f} of the real broker's)"
                wanted = goal if batch > 1 else 0
                rows.append((f"sandbox in {name}: Java's producer, 1 KiB, {what}", figure,
                             f">= {wanted:,} msg/s" if wanted else "", rates[name] >= wanted))  # fmt: skip
    return rows


def measure_pulls(real: Reachable) -> list[tuple[str, str, str, bool]]:
    """Return messages a second of one push consumer, from its first message to its last, the servers in turn."""
    rows = []
    with _Servers(real) as servers:
        for server in servers.all.values():
            server.create_topic("SandboxOut", queue_count=QUEUE_COUNT, brokers=("broker-a",))
            server.java.produce("SandboxOut", PULLED_COUNT, size=SIZE_BYTES, batch=BATCH_COUNT)
        for batch in (32, 1):
            rates = _in_turn(servers.all, lambda server, batch=batch: _pulled(server, batch))
            for name, goal in (("memory", 60_000), ("disk", 0)):
                figure = f"{rates[name]:,.0f} msg/s ({rates[name] / rates['real']:.2f} of the real broker's)"
                rows.append((f"sandbox in {name}: Java's push consumer, 1 KiB, {batch} a listener's call", figure,
                             f">= {goal:,} msg/s" if goal else "", rates[name] >= goal))  # fmt: skip
    return rows


def _in_turn(servers, measure):  # type: ignore[no-untyped-def]
    """Return the median of each server; the first round, which warms Java up, is not counted."""
    rates: dict[str, list[float]] = {name: [] for name in servers}
    for number in range(_ROUNDS + 1):
        for name, server in servers.items():
            rate = measure(server)
            if number:
                rates[name].append(rate)
    return {name: median(found) for name, found in rates.items()}


def _sent(server: Reachable, count: int, batch: int) -> float:
    started = time.perf_counter()
    server.java.produce("SandboxIn", count, size=SIZE_BYTES, batch=batch)
    return count / (time.perf_counter() - started)


def _pulled(server: Reachable, batch: int) -> float:
    name = f"out{time.monotonic_ns()}"
    server.java.consume(name, name, "SandboxOut", batch=batch)
    while int(server.java.call("consumed", id=name)) == 0:
        pass
    started, first = time.perf_counter(), int(server.java.call("consumed", id=name))
    server.java.wait_consumed(name, PULLED_COUNT, timeout_s=120)
    rate = (PULLED_COUNT - first) / (time.perf_counter() - started)
    server.java.stop(name)
    return rate
