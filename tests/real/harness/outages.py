"""A group of Java's member and ours, of which ours is out for a while: stopped, or cut off from a broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from tests.real.harness.conditions import wait_until

from .cluster import Cluster
from .consumer import OurConsumer, OurConsumers
from .traffic import Traffic

# Offsets are stored every 5 s, the first after 10 s.
_SETTLED_S = 12.0
_LATE_S = 60.0


class Delivery(NamedTuple):
    """A message that a member was given; `queue` is broker:id, `at_s` epoch seconds."""

    at_s: float
    body: str
    queue: str
    who: str


class Outage(NamedTuple):
    """What came of it.

    `again` are deliveries beyond the first, with the first. `went_on_s` is when ours was given something out of what it
    had been cut off from, after the end. `others_s` is the longest that a message of other queues took meanwhile, and
    `taken_over` are queues that Java's member held meanwhile.
    """

    began_s: float
    ended_s: float
    sent_count: int
    lost: frozenset[str]
    again: list[tuple[Delivery, Delivery]]
    went_on_s: float
    others_s: float
    taken_over: frozenset[str]
    said: str

    def __str__(self) -> str:
        again_s = sorted({round(second.at_s - self.began_s) for _, second in self.again})
        first_s = sorted({round(first.at_s - self.began_s) for first, _ in self.again})
        return (
            f"{self.sent_count:,} sent, {len(self.lost)} lost, {len(self.again)} delivered again, first at "
            f"{_stretch(first_s)} and again at {_stretch(again_s)} after the beginning; went on {self.went_on_s:.1f} s "
            f"after the end; others waited for {self.others_s:.1f} s at most; {len(self.taken_over)} queues taken over"
        )


def _stretch(seconds: list[int]) -> str:
    return f"{seconds[0]}-{seconds[-1]} s" if seconds else "-"


def run_outage(
    cluster: Cluster, make: OurConsumers, topic: str, *words: str, out_s: float, begin: Callable[[OurConsumer], object],
    end: Callable[[OurConsumer], object], is_cut: Callable[[str], bool] = lambda _: True, after_s: float = 8.0,
) -> Outage:  # fmt: skip
    """Have messages sent all the time, and ours out for out_s of it; `is_cut` tells which of its queues that hits."""
    cluster.create_topic(topic, queue_count=4)
    traffic, java = Traffic(cluster, topic), f"java-{topic}"
    # See tests/real/test_consumer_groups.py for the heartbeats.
    cluster.java.consume(java, topic, topic, collect=1, instance=java, heartbeat=1000)
    member = make(f"ours-{topic}", topic, topic, *words, EACH_S=0.02)
    every = {f"{name}:{number}" for name in cluster.addresses for number in range(4)}
    wait_until(lambda: len(cluster.java.queues(java, topic)) == len(every) // 2)
    taken_over: set[str] = set()
    with traffic.running():
        time.sleep(_SETTLED_S)
        own = every - cluster.java.queues(java, topic)
        began_s = time.time()
        begin(member)
        while time.time() < began_s + out_s:
            time.sleep(min(1.0, max(0.0, began_s + out_s - time.time())))
            taken_over |= own & cluster.java.queues(java, topic)
        end(member)
        ended_s = time.time()
        time.sleep(after_s)

    def deliveries() -> list[Delivery]:
        ours = [Delivery(each.at_ms / 1000, each.body, each.queue, "ours") for each in member.heard("BEGAN")]
        theirs = [
            Delivery(traffic.sent_at_s[each.body] + each.age_ms / 1000, each.body, each.queue, "java")
            for each in cluster.java.attempts(java)
        ]
        return sorted(ours + theirs)

    give_up_s = time.monotonic() + _LATE_S
    found = deliveries()
    while not traffic.bodies <= {each.body for each in found} and time.monotonic() < give_up_s:
        time.sleep(0.5)
        found = deliveries()
    time.sleep(1)
    found = deliveries()
    first: dict[str, Delivery] = {}
    again = [(first[each.body], each) for each in found if first.setdefault(each.body, each) is not each]
    back = [each.at_s for each in found if each.who == "ours" and each.at_s > ended_s and is_cut(each.queue)]
    elsewhere = [
        each.at_s - traffic.sent_at_s[each.body] for each in first.values()
        if began_s <= traffic.sent_at_s[each.body] < ended_s and not (each.queue in own and is_cut(each.queue))
    ]  # fmt: skip
    cluster.java.stop(java)
    return Outage(
        began_s, ended_s, len(traffic.bodies), frozenset(traffic.bodies - first.keys()), again,
        min(back, default=float("inf")) - ended_s, max(elsewhere, default=0.0), frozenset(taken_over), member.said,
    )  # fmt: skip
