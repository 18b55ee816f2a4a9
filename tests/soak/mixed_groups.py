"""Members come and go, Java's and ours in one group: nothing is lost, and no queue has two owners for long."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.real.harness.cluster import Cluster
from tests.real.harness.consumer import OurConsumer, OurConsumers, our_consumers
from tests.real.harness.traffic import Traffic

_CLASSES = {
    "averagely": "AllocateMessageQueueAveragely",
    "circle": "AllocateMessageQueueAveragelyByCircle",
    "consistent-hash": "AllocateMessageQueueConsistentHash",
}
# Members share every 20 s at the latest, and a pull that was under way brings one more answer.
_MOST_OVERLAP_S = 25.0
_LATE_S = 40.0
_PAUSE_S = 3.0


class Seen(NamedTuple):
    """What came of a run: `again_count` are deliveries beyond the first, `overlap_s` the longest double ownership."""

    sent_count: int
    lost_count: int
    again_count: int
    overlap_s: float
    change_count: int

    @property
    def is_good(self) -> bool:
        """Whether all came, and owners overlapped no longer than the protocol lets them."""
        return self.lost_count == 0 and self.overlap_s <= _MOST_OVERLAP_S

    def __str__(self) -> str:
        return (
            f"{self.sent_count:,} sent, {self.lost_count} lost, {self.again_count} delivered again, "
            f"{self.change_count} joins and leaves, two owners for {self.overlap_s:.1f} s at most"
        )


class _Delivery(NamedTuple):
    body: str
    queue: str
    who: str
    at_s: float


class _Members:
    """Those of a group, present and gone."""

    def __init__(self, cluster: Cluster, ours: OurConsumers, topic: str, strategy: str, *words: str) -> None:
        self._cluster, self._make, self._topic, self._strategy, self._words = cluster, ours, topic, strategy, words
        self._all_java: list[str] = []
        self._java: list[str] = []
        self._all_ours: list[OurConsumer] = []
        self._ours: list[OurConsumer] = []
        self.change_count = 0

    def join_java(self) -> None:
        name = f"{self._topic}-java-{len(self._all_java)}"
        # See tests/real/test_consumer_groups.py for the heartbeats.
        self._cluster.java.consume(
            name, self._topic, self._topic, collect=1, instance=name, heartbeat=1000, strategy=_CLASSES[self._strategy]
        )
        self._all_java.append(name)
        self._java.append(name)
        self.change_count += 1

    def join_ours(self) -> None:
        name = f"ours-{len(self._all_ours)}"
        made = self._make(name, self._topic, self._topic, "--strategy", self._strategy, *self._words)
        self._all_ours.append(made)
        self._ours.append(made)
        self.change_count += 1

    def leave_java(self) -> None:
        self._cluster.java.call("shutdown", id=self._java.pop(0))
        self.change_count += 1

    def leave_ours(self) -> None:
        made = self._ours.pop()
        code = made.terminate(40)
        assert code in (0, 8), made.said
        self.change_count += 1

    def change(self) -> None:
        """Let somebody come or go; two of each at most, and one of each at least."""
        ways = [self.join_java] * (len(self._java) < 2) + [self.join_ours] * (len(self._ours) < 2)
        ways += [self.leave_java] * (len(self._java) > 1) + [self.leave_ours] * (len(self._ours) > 1)
        random.choice(ways)()

    def deliveries(self, traffic: Traffic) -> list[_Delivery]:
        found = [
            _Delivery(each.body, each.queue, name, traffic.sent_at_s[each.body] + each.age_ms / 1000)
            for name in self._all_java
            for each in self._cluster.java.attempts(name)
        ]
        for made in self._all_ours:
            found += [_Delivery(each.body, each.queue, made.name, each.at_ms / 1000) for each in made.heard("BEGAN")]
        return found


def run_mixed(cluster: Cluster, folder: Path, strategy: str, seconds: float) -> Seen:
    """Let members of both kinds come and go at random."""
    topic = f"Soak-{strategy}"
    cluster.create_topic(topic, queue_count=4)
    traffic = Traffic(cluster, topic)
    with our_consumers(cluster.namesrv, folder) as ours:
        members = _Members(cluster, ours, topic, strategy)
        with traffic.running():
            members.join_java()
            members.join_ours()
            until_s = time.monotonic() + seconds
            while time.monotonic() < until_s:
                time.sleep(random.uniform(2, 8))
                members.change()
        return _look(members, traffic)


def run_flapping(cluster: Cluster, folder: Path, protect: str, seconds: float) -> Seen:
    """Let one of three of our members come and go all the time, with a protection or without."""
    topic = f"Flap-{protect}"
    cluster.create_topic(topic, queue_count=4)
    traffic = Traffic(cluster, topic)
    with our_consumers(cluster.namesrv, folder) as ours:
        members = _Members(cluster, ours, topic, "averagely", "--protect", protect)
        with traffic.running():
            members.join_ours()
            members.join_ours()
            until_s = time.monotonic() + seconds
            while time.monotonic() < until_s:
                members.join_ours()
                time.sleep(4)
                members.leave_ours()
                time.sleep(2)
        return _look(members, traffic)


def _look(members: _Members, traffic: Traffic) -> Seen:
    """Wait for what is under way, and see who was given what."""
    give_up_s = time.monotonic() + _LATE_S
    found = members.deliveries(traffic)
    while not traffic.bodies <= {each.body for each in found} and time.monotonic() < give_up_s:
        time.sleep(1)
        found = members.deliveries(traffic)
    times = Counter(each.body for each in found)
    return Seen(
        sent_count=len(traffic.bodies),
        lost_count=len(traffic.bodies - times.keys()),
        again_count=sum(times.values()) - len(times),
        overlap_s=_longest_overlap_s(found),
        change_count=members.change_count,
    )


def _longest_overlap_s(found: list[_Delivery]) -> float:
    """Return for how long at most messages of a queue were given to one member after the other.

    Two owners are seen by what is given to both; a stretch of that ends where it pauses for _PAUSE_S.
    """
    first: dict[str, _Delivery] = {}
    again: dict[str, list[float]] = {}
    for each in sorted(found, key=lambda each: each.at_s):
        if first.setdefault(each.body, each) is not each:
            again.setdefault(each.queue, []).append(each.at_s)
    longest_s = 0.0
    for times in again.values():
        began_s = before_s = times[0]
        for at_s in times:
            if at_s - before_s > _PAUSE_S:
                began_s = at_s
            before_s = at_s
            longest_s = max(longest_s, at_s - began_s)
    return longest_s
