"""`consume run` behind a network that breaks: a broker out of reach, lost connections, name servers that are gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.consumer import OurConsumers, our_consumers
from .harness.outages import run_outage
from .harness.relay import Relay

pytestmark = pytest.mark.timeout(150)


@pytest.fixture
def ours(cluster: Cluster, tmp_path: Path) -> Iterator[OurConsumers]:
    with our_consumers(cluster.namesrv, tmp_path / "ours") as made:
        yield made


@contextmanager
def relay_to(port: int) -> Iterator[Relay]:
    relay = Relay(port)
    try:
        yield relay
    finally:
        relay.close()


def test_a_broker_out_of_reach_disturbs_no_other_and_is_consumed_again_once_it_is_back(
    cluster: Cluster, ours: OurConsumers
) -> None:
    """For longer than a pull is waited for, so that the connection is given up; Java's member reaches the broker."""
    with relay_to(cluster.brokers["broker-a"].port) as relay:
        seen = run_outage(
            cluster, ours, "CutOff", "--map-address", f"broker-a={relay.address}", out_s=36,
            begin=lambda _: relay.swallow(), end=lambda _: relay.heal(), is_cut=lambda queue: queue[:8] == "broker-a",
        )  # fmt: skip
    assert not seen.lost, seen
    # The broker gives a client up after 120 s, so that nobody else had the queues; and it knows us from the first pull.
    assert not seen.taken_over, seen
    # Where the broker hears of the old connection's end before it hears from the new one, Java's member takes the
    # queues for a moment. What both are given then is given at once.
    assert all(second.at_s < seen.ended_s + 5 for _, second in seen.again), seen
    assert seen.went_on_s < 10, seen
    assert seen.others_s < 5, seen


@pytest.mark.since_5
@pytest.mark.parametrize("break_it", [Relay.reset, Relay.forget], ids=["reset", "forgotten"])
def test_connections_that_are_lost_are_opened_again(
    cluster: Cluster, ours: OurConsumers, break_it: Callable[[Relay], None]
) -> None:
    """A reset is seen at once, and a connection that nothing comes through any more after 30 s."""
    name = break_it.__name__
    topic = f"Lost-{name}"
    with relay_to(cluster.brokers["broker-a"].port) as relay:
        cluster.create_topic(topic, queue_count=1)
        member = ours("ours", topic, topic, "--map-address", f"broker-a={relay.address}")
        bodies: set[str] = set()

        def produce(prefix: str, *brokers: str) -> None:
            for broker in brokers:
                cluster.java.produce(topic, 10, prefix=f"{prefix}-{broker}-", queue=f"{broker}:0")
                bodies.update(f"{prefix}-{broker}-{index}" for index in range(10))

        def all_has_come() -> bool:
            return bodies <= {each.body for each in member.heard()}

        produce("before", "broker-a", "broker-b")
        wait_until(all_has_come)
        break_it(relay)
        produce("meanwhile", "broker-b")
        wait_until(all_has_come, 5)
        produce("behind", "broker-a")
        wait_until(all_has_come, 5 if name == "reset" else 40, lambda: member.said)
        time.sleep(2)
        found = [each.body for each in member.heard("BEGAN")]
        assert sorted(found) == sorted(bodies)
        listed = cluster.java.mqadmin("consumerConnection", "-g", topic)
        assert member.wait_joined() in listed
        assert member.terminate() == 0, member.said


@pytest.mark.since_5
def test_name_servers_that_are_gone_stand_in_for_each_other(cluster: Cluster, tmp_path: Path) -> None:
    """Two addresses lead to one name server; the consumer can't tell that from two."""
    cluster.create_topic("Known", queue_count=1)

    def produce(topic: str) -> set[str]:
        for broker in cluster.brokers:
            cluster.java.produce(topic, 5, prefix=f"{topic}-{number}-{broker}-", queue=f"{broker}:0")
        return {f"{topic}-{number}-{broker}-{index}" for broker in cluster.brokers for index in range(5)}

    with (
        relay_to(cluster.namesrv_port) as first,
        relay_to(cluster.namesrv_port) as second,
        our_consumers(f"{first.address};{second.address}", tmp_path / "ours") as ours,
    ):
        member = ours("ours", "Failover", "Known", "NewFirst", "NewSecond")

        def expect(bodies: set[str], limit_s: float) -> None:
            wait_until(lambda: bodies <= {each.body for each in member.heard()}, limit_s, lambda: member.said)

        number = 0
        expect(produce("Known"), 20)
        first.swallow()
        # A topic that there was not is asked for again each 20 s at the latest.
        cluster.create_topic("NewFirst", queue_count=1)
        expect(produce("NewFirst"), 40)
        first.refuse()
        second.refuse()
        number = 1
        cluster.create_topic("NewSecond", queue_count=1)
        later = produce("NewSecond")
        expect(produce("Known") | produce("NewFirst"), 5)
        first.listen_again()
        expect(later, 40)
        found = [each.body for each in member.heard("BEGAN")]
        assert len(found) == len(set(found))
        assert member.terminate() == 0, member.said


@pytest.mark.since_5
def test_ending_while_a_broker_is_out_of_reach_takes_no_long_time_and_tells_the_truth(
    cluster: Cluster, ours: OurConsumers
) -> None:
    topic = "EndsCutOff"
    cluster.create_topic(topic, queue_count=1)
    with relay_to(cluster.brokers["broker-a"].port) as relay:
        words = (topic, topic, "--map-address", f"broker-a={relay.address}", "--drain", "3s")
        member = ours("ours", *words)
        for broker in cluster.brokers:
            cluster.java.produce(topic, 20, prefix=f"{broker}-", queue=f"{broker}:0")
        bodies = {f"{broker}-{index}" for broker in cluster.brokers for index in range(20)}
        wait_until(lambda: bodies <= {each.body for each in member.heard()})
        # Before the first offsets are stored, 10 s after the start.
        relay.swallow()
        began_s = time.monotonic()
        code = member.terminate(40)
        spent_s = time.monotonic() - began_s
        assert code == 8, member.said
        assert "No offsets are stored at broker-a: " in member.said
        assert "broker-b" not in member.said.partition("Not stored")[2]
        assert spent_s < 3 + 12, spent_s
        # What was on its way when the member ended is gone; where it arrives late the offset is stored after all.
        relay.refuse()
        relay.listen_again()
        again = ours("ours", *words)
        wait_until(lambda: len(again.heard()) == 60, 20, lambda: again.said)
        time.sleep(2)
        # What was told not to be stored comes again, and nothing else.
        assert sorted(each.body for each in again.heard()[40:]) == sorted(f"broker-a-{index}" for index in range(20))
        assert again.terminate() == 0, again.said
