"""A group in which one client leaves and rejoins again and again, as it is and as rmqctl simulates it.

`python -m tests.real.churn VERSION SECONDS java|rmqctl` runs three Java clients and three of ours on a cluster of its
own, of which one of that kind flaps every 10 s, and prints what was observed and what is simulated.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from .harness.cluster import Cluster
from .harness.conditions import wait_until
from .harness.consumer import OurConsumer, our_consumers
from .harness.process import QUICK_START
from .harness.rmqctl import Rmqctl
from .harness.workbench import Workbench

PERIOD_S, RATE, CONSUME_MS = 10.0, 100, 5
_QUEUES_PER_BROKER = 4
# How often a message comes in a queue of two brokers, and when none is begun although there are some.
_INTERVAL_S = 2 * _QUEUES_PER_BROKER / RATE
_LEAST_PAUSE_S = 5 * _INTERVAL_S


class Consumed(NamedTuple):
    """A message that a listener began, by the monotonic clock of the machine."""

    queue: str
    offset: int
    at_s: float
    consumer: str


class Observed(NamedTuple):
    """What listeners saw: times are summed over queues, `shared_s` with two consumers and `paused_s` with none."""

    message_count: int
    duplicate_count: int
    shared_s: float
    paused_s: float


def observe(consumed: Sequence[Consumed], ended_s: float) -> Observed:
    """Return what happened to the messages of a time in which each queue had messages all the time."""
    by_queue: dict[str, list[Consumed]] = defaultdict(list)
    for each in consumed:
        by_queue[each.queue].append(each)
    shared_s = paused_s = 0.0
    for queue in by_queue.values():
        starts_s = sorted(each.at_s for each in queue)
        gaps_s = [after_s - before_s for before_s, after_s in pairwise([*starts_s, ended_s])]
        # On average, the last message before a pause is half an interval old.
        paused_s += sum(gap_s - _INTERVAL_S / 2 for gap_s in gaps_s if gap_s >= _LEAST_PAUSE_S)
        sessions = sorted(session for name in {each.consumer for each in queue} for session in _sessions(queue, name))
        shared_s += sum(max(0.0, min(a[1], b[1]) - b[0]) for a, b in pairwise(sessions))
    distinct = {(each.queue, each.offset) for each in consumed}
    return Observed(len(distinct), len(consumed) - len(distinct), shared_s, paused_s)


def _sessions(queue: Sequence[Consumed], consumer: str) -> Iterator[tuple[float, float]]:
    """Yield when a consumer began and ended to consume a queue."""
    times_s = sorted(each.at_s for each in queue if each.consumer == consumer)
    begun_s = times_s[0]
    for before_s, after_s in pairwise(times_s):
        if after_s - before_s > 2:
            yield begun_s, before_s
            begun_s = after_s
    yield begun_s, times_s[-1]


class Flapping:
    """Three Java clients and three of ours in one group, whose listeners note what they begin."""

    def __init__(self, cluster: Cluster, topic: str, folder: Path, start_ours: Callable[..., OurConsumer]) -> None:
        self.topic, self.name = topic, f"{topic}Group"
        self._java, self._folder, self._start_ours = cluster.java, folder, start_ours
        self._run_counts: dict[str, int] = defaultdict(int)
        self._ours: dict[str, OurConsumer] = {}
        self._running: set[str] = set()

    def start(self, name: str) -> None:
        """Start a client; the names of Java's begin with "java"."""
        self._running.add(name)
        if not name.startswith("java"):
            self._ours[name] = self._start_ours(name, self.name, self.topic, EACH_S=CONSUME_MS / 1000)
            return
        self._run_counts[name] += 1
        spans = self._folder / f"{name}.{self._run_counts[name]}"
        # As clients do by default, not each second as elsewhere here.
        self._java.consume(name, self.name, self.topic, each=CONSUME_MS, heartbeat=30_000, spans=spans)

    def stop(self, name: str) -> None:
        """Shut a client down."""
        self._running.remove(name)
        if name.startswith("java"):
            self._java.stop(name)
        else:
            self._ours[name].terminate()

    def stop_all(self) -> None:
        """Shut all down."""
        for name in sorted(self._running):
            self.stop(name)

    def consumed(self) -> list[Consumed]:
        """Return all that the listeners began."""
        found = [
            Consumed(each.queue, each.offset, each.clock_s, name)
            for name, ours in self._ours.items()
            for each in ours.heard("BEGAN")
        ]
        for path in self._folder.glob("java*.*"):
            words = [line.split() for line in path.read_text().splitlines()]
            found += [Consumed(queue, int(offset), int(at_ns) / 1e9, path.name) for queue, offset, at_ns, _ in words]
        return found


def flap(cluster: Cluster, folder: Path, *, for_s: float, flapper: str) -> tuple[Observed, Path]:
    """Have one client leave and rejoin; return what was observed meanwhile, and the recording of it."""
    topic = f"Flapping-{flapper}"
    rmqctl, recording = Rmqctl(cluster.namesrv), folder / "flapping.jsonl"
    (folder / "producer").mkdir()
    cluster.create_topic(topic, queue_count=_QUEUES_PER_BROKER)
    producer = Workbench(cluster.version, folder / "producer", cluster.namesrv, jvm=QUICK_START)
    with closing(producer), our_consumers(cluster.namesrv, folder) as start_ours:
        group = Flapping(cluster, topic, folder, start_ours)
        names = [f"{kind}-{number}" for kind in ("java", "rmqctl") for number in (1, 2, 3)]
        for name in names:
            group.start(name)
        wait_until(lambda: _is_settled(rmqctl, group.name, len(names)), 90)
        count = round(RATE * (for_s + 20))
        with ThreadPoolExecutor(2) as threads:
            sending = threads.submit(producer.produce, topic, count, rate=RATE)
            # The recorder does not ask too often, so that its requests change nothing.
            how = ("--every", "2s", "--rate", "50", "--for", f"{for_s:g}s")
            watching = threads.submit(rmqctl, "watch", group.name, "--record", str(recording), *how, limit_s=for_s + 60)
            begun_s = time.monotonic()
            for number in range(1, int(for_s / PERIOD_S)):
                time.sleep(max(0.0, begun_s + number * PERIOD_S - time.monotonic()))
                (group.stop if number % 2 else group.start)(flapper)
            result = watching.result()
            ended_s = time.monotonic()
            assert result.exit_code == 0, result.stderr
            sending.result()
        group.stop_all()
        return observe([each for each in group.consumed() if each.at_s <= ended_s], ended_s), recording


def simulate(recording: Path, *, flapper: str, run_count: int) -> dict[str, Any]:
    """Return the document of what the recording is simulated as, in the observed topic."""
    words = ("--topic", f"Flapping-{flapper}", "--runs", str(run_count), "--protect", "15s", "-o", "json")
    result = Rmqctl("")("whatif", "churn", "--trace", str(recording), *words)
    assert result.exit_code == 0, result.stderr
    document: dict[str, Any] = result.document
    return document


def _is_settled(rmqctl: Rmqctl, group: str, member_count: int) -> bool:
    held = [each["queueCount"] for each in rmqctl.items("group", "members", group)]
    return len(held) == member_count and None not in held and sum(held) == 2 * _QUEUES_PER_BROKER + 2


def main(version: str, for_s: str, kind: str) -> None:
    """Print both."""
    with tempfile.TemporaryDirectory(prefix="rmqctl-churn-", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(version, Path(folder) / "home", broker_count=2)
        try:
            flapper = f"{kind}-1"
            observed, recording = flap(cluster.wait(), Path(folder), for_s=float(for_s), flapper=flapper)
        finally:
            cluster.stop()
        document = simulate(recording, flapper=flapper, run_count=100)
        print(observed)
        print(document["trace"])
        for item in document["items"]:
            print(item)


if __name__ == "__main__":
    main(*sys.argv[1:])
