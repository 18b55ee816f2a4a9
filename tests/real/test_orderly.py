"""Orderly members of ours beside Java's, in one group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.consumer import OurConsumers, our_consumers
from .harness.mqadmin import client_status, direct_results
from .harness.rmqctl import Rmqctl

pytestmark = pytest.mark.timeout(300)
_COUNT = 20_000


@pytest.fixture
def ours(cluster: Cluster, tmp_path: Path) -> Iterator[OurConsumers]:
    with our_consumers(cluster.namesrv, tmp_path / "ours") as made:
        yield made


def test_three_of_ours_and_two_of_javas_consume_each_queue_in_order(cluster: Cluster, ours: OurConsumers) -> None:
    """20,000 messages with sharding keys in 16 queues: each once, and within a queue none before all smaller ones."""
    topic = group = "in-order"
    rmqctl = Rmqctl(cluster.namesrv)
    cluster.create_topic(topic, queue_count=8)
    for name in ("one", "two"):
        cluster.java.consume(name, group, topic, orderly=1, collect=1, instance=name)
    made = [ours(f"ours-{number}", group, topic, "--orderly") for number in range(3)]

    def holds() -> list[int]:
        items = rmqctl.items("group", "members", group)
        return sorted(sum(each.startswith(f"{topic}@") for each in item["queues"] or ()) for item in items)

    wait_until(lambda: holds() == [3, 3, 3, 3, 4], 60, why=holds)
    cluster.java.produce(topic, _COUNT, prefix="m", shards=500)

    def lag() -> int:
        return sum(item["lag"] for item in rmqctl.items("offset", "show", group))

    wait_until(lambda: lag() == 0, 120, why=lag)
    bodies: list[str] = []
    for name in ("one", "two"):
        by_queue: dict[str, list[int]] = defaultdict(list)
        for attempt in cluster.java.attempts(name):
            by_queue[attempt.queue].append(int(attempt.body.removeprefix("m")))
            bodies.append(attempt.body)
        assert by_queue
        assert all(sent == sorted(sent) for sent in by_queue.values())
    for member in made:
        # A message begins once the one before it has ended.
        noted: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for each in member.heard("BEGAN", "DONE"):
            noted[each.queue].append((each.offset, each.event))
        assert noted
        for events in noted.values():
            assert events == [(offset, event) for offset in range(len(events) // 2) for event in ("BEGAN", "DONE")]
        bodies += [each.body for each in member.heard()]
        status = client_status(cluster.java.mqadmin("consumerStatus", "-g", group, "-i", member.wait_joined()))
        assert status.properties["PROP_CONSUMEORDERLY"] == "true"
        assert all(fields["locked"] == "true" for fields in status.queues.values())
    assert len(bodies) == len(set(bodies)) == _COUNT
    assert [member.terminate() for member in made] == [0, 0, 0]


def test_a_message_that_always_fails_becomes_one_dead_letter_and_then_the_queue_goes_on(
    cluster: Cluster, ours: OurConsumers
) -> None:
    topic = group = "poison"
    rmqctl = Rmqctl(cluster.namesrv)
    cluster.create_topic(topic, queue_count=1)
    message_id = cluster.java.produce(topic, 3, prefix="before", queue="broker-a:0").split("\t")[1]
    cluster.java.produce(topic, 1, prefix="bad", queue="broker-a:0")
    cluster.java.produce(topic, 3, prefix="after", queue="broker-a:0")
    member = ours("ours", group, topic, "--orderly", "--max-reconsume-times", "2", NOTHING="bad")
    wait_until(lambda: len(member.heard()) == 6, 60, why=lambda: member.said)
    assert [each.offset for each in member.heard()] == [0, 1, 2, 4, 5, 6]
    assert [each.reconsume_times for each in member.heard("FAILED")] == [0, 1, 2]
    assert [item["reconsumeTimes"] for item in rmqctl.items("dlq", "show", group)] == [1]
    # A single message on request.
    words = () if cluster.version == "4.9.7" else ("-t", topic)
    told = cluster.java.mqadmin("queryMsgById", "-i", message_id, *words, "-g", group, "-d", member.wait_joined())
    assert [(each.order, each.result) for each in direct_results(told)] == [("true", "CR_SUCCESS")]
    assert member.terminate() == 0
    assert "1 dead letter" in member.said


@pytest.mark.parametrize("kind", ["orderly", "concurrently"])
def test_a_group_has_either_orderly_or_concurrent_members(cluster: Cluster, ours: OurConsumers, kind: str) -> None:
    """With both kinds, order is lost, and brokers from 5.1.1 on make dead letters of some retries."""
    topic, group = "one-kind", f"one-kind-{kind}"
    java: dict[str, object] = {"orderly": 1} if kind == "orderly" else {}
    words = () if kind == "orderly" else ("--orderly",)
    cluster.create_topic(topic, queue_count=1)
    cluster.java.consume(group, group, topic, instance=group, **java)
    refused = ours(f"refused-{kind}", group, topic, *words, joins=False)
    assert refused.process.wait(60) == 1, refused.said
    assert f"{group} has members that consume {kind}: " in refused.said
    forced = ours(f"forced-{kind}", group, topic, *words, "--force")
    wait_until(lambda: f": consumes {kind}, this member" in forced.said, 20, why=lambda: forced.said)
    assert forced.terminate() == 0
    cluster.java.stop(group)
    # Java's comes to ours.
    first = ours(f"first-{kind}", group, topic, *words)
    cluster.java.consume(f"{group}-2", group, topic, instance=f"{group}-2", **java)
    wait_until(lambda: f": consumes {kind}, this member" in first.said, 60, why=lambda: first.said)
    assert first.terminate() == 0
    cluster.java.stop(f"{group}-2")
