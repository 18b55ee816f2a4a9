"""`consume run` in one group with Java's consumers: who gets what while members come and go, and with what filter."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import find_strategy, sort_client_ids
from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.consumer import OurConsumer, OurConsumers, our_consumers
from .harness.traffic import Traffic

pytestmark = pytest.mark.timeout(90)

_CLASSES = {
    "averagely": "AllocateMessageQueueAveragely",
    "circle": "AllocateMessageQueueAveragelyByCircle",
    "consistent-hash": "AllocateMessageQueueConsistentHash",
}


@pytest.fixture
def ours(cluster: Cluster, tmp_path: Path) -> Iterator[OurConsumers]:
    with our_consumers(cluster.namesrv, tmp_path / "ours") as made:
        yield made


class _Group:
    """A group of Java's members and ours, and which of its messages came to whom, when."""

    def __init__(self, cluster: Cluster, topic: str, strategy: str, traffic: Traffic) -> None:
        self._cluster, self._topic, self._strategy, self._traffic = cluster, topic, strategy, traffic
        # Members, also those that have left; `ids` are those of the present ones.
        self._java: list[str] = []
        self._ours: list[OurConsumer] = []
        self._ids: dict[str, str] = {}
        self._queues = [MessageQueue(topic, broker, number) for broker in cluster.addresses for number in range(4)]
        # From when a member comes or goes until all share as they should.
        self.windows: list[tuple[float, float]] = []

    def java_joins(self, name: str) -> None:
        with self._changing():
            self._cluster.java.consume(
                name, self._topic, self._topic, collect=1, instance=name, strategy=_CLASSES[self._strategy]
            )
            self._java.append(name)
            self._ids[name] = self._cluster.java.call("client-id", id=name)

    def java_leaves(self, name: str) -> None:
        with self._changing():
            del self._ids[name]
            self._cluster.java.call("shutdown", id=name)

    def ours_joins(self, ours: OurConsumers, name: str) -> None:
        with self._changing():
            made = ours(name, self._topic, self._topic, "--strategy", self._strategy)
            self._ours.append(made)
            self._ids[name] = made.wait_joined()

    def ours_leaves(self, name: str) -> None:
        with self._changing():
            del self._ids[name]
            (made,) = [each for each in self._ours if each.name == name]
            assert made.terminate() == 0, made.said

    @contextmanager
    def _changing(self) -> Iterator[None]:
        began_s = time.time()
        yield
        expected = self._expected()
        wait_until(
            lambda: all(self._held_by_java(name) == expected[name] for name in self._java if name in self._ids),
            why=lambda: (expected, {name: self._held_by_java(name) for name in self._java}),
        )
        # Which queues ours hold is seen by who is given what comes; a queue that has just moved may still go to both.
        wait_until(lambda: self._given(time.time()) == expected, 15, lambda: (expected, self._given(time.time() - 2)))
        self.windows.append((began_s, time.time()))

    def _expected(self) -> dict[str, set[str]]:
        names = {client_id: name for name, client_id in self._ids.items()}
        shares = find_strategy(self._strategy).allocate(self._queues, sort_client_ids(names))
        return {
            names[client_id]: {f"{mq.broker_name}:{mq.queue_id}" for mq in share} for client_id, share in shares.items()
        }

    def _held_by_java(self, name: str) -> set[str]:
        return self._cluster.java.queues(name, self._topic) if name in self._ids else set()

    def _given(self, since_s: float) -> dict[str, set[str]]:
        """Return from which queues each member is given what is sent from now on, once all has come."""
        time.sleep(0.5)
        sent_at_s, until_s = dict(self._traffic.sent_at_s), time.time() - 0.2
        wanted = {body for body in self._traffic.bodies & sent_at_s.keys() if since_s <= sent_at_s[body] < until_s}
        given: dict[str, set[str]] = {name: set() for name in self._ids}
        for name, body, _, queue in self.deliveries():
            if body in wanted:
                given.setdefault(name, set()).add(queue)
        return given

    def deliveries(self) -> list[tuple[str, str, float, str]]:
        """Return what members were given: who, body, when (epoch s), and the queue it came from."""
        found = []
        for name in self._java:
            for each in self._cluster.java.attempts(name):
                at_s = self._traffic.sent_at_s[each.body] + each.age_ms / 1000
                found.append((name, each.body, at_s, each.queue))
        for made in self._ours:
            found += [(made.name, each.body, each.at_ms / 1000, each.queue) for each in made.heard("BEGAN")]
        return found


@pytest.mark.parametrize("strategy", _CLASSES)
def test_ours_and_javas_share_queues_while_members_come_and_go(
    cluster: Cluster, ours: OurConsumers, strategy: str
) -> None:
    topic = f"Mixed-{strategy}"
    cluster.create_topic(topic, queue_count=4)
    traffic = Traffic(cluster, topic)
    group = _Group(cluster, topic, strategy, traffic)
    with traffic.running():
        group.java_joins(f"java-1-{strategy}")
        group.ours_joins(ours, "ours-1")
        group.java_joins(f"java-2-{strategy}")
        group.ours_joins(ours, "ours-2")
        group.ours_leaves("ours-1")
        group.java_leaves(f"java-1-{strategy}")
    everything = traffic.bodies
    wait_until(lambda: everything <= {body for _, body, _, _ in group.deliveries()})
    time.sleep(1)
    times: dict[str, list[float]] = {}
    for _, body, at_s, _ in group.deliveries():
        times.setdefault(body, []).append(at_s)
    assert set(times) == everything
    again = [at_s for found in times.values() for at_s in sorted(found)[1:]]
    assert [at_s for at_s in again if not any(begin <= at_s <= end for begin, end in group.windows)] == []
    cluster.java.stop(f"java-2-{strategy}")
