"""A consumer that is out for a while: others go on with its queues, and what they have done it does not do again."""

from __future__ import annotations

import pytest

from rmqctl.protocol.codes import RequestCode as Q
from tests.consumer.consumer_cluster import GROUP, TOPIC, Cluster, Seen, scenario
from tests.consumer.consumer_parts import MQ


def _set_stored(cluster: Cluster, offset: int) -> None:
    cluster.sandbox.brokers["broker-a"].offsets.stored[TOPIC, GROUP][0] = offset


@pytest.mark.parametrize(
    ("stored", "bodies"), [(4, ["a", "b", "e"]), (2, ["a", "b", "c", "d", "e"]), (1, ["a", "b", "c", "d", "e"])]
)
def test_what_others_have_consumed_while_the_connection_was_lost_is_not_consumed_again(
    stored: int, bodies: list[str]
) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b")
        seen = Seen()
        consumer = await cluster.started(seen)
        await cluster.passes(12)
        assert cluster.stored() == {0: 2}
        cluster.sandbox.faults.drop(Q.PULL_MESSAGE, count=None)
        while not any("Cannot pull from broker-a" in report for report in cluster.reports):
            await cluster.passes(0.1)
        # The next pull comes in a second.
        await cluster.send("c", "d")
        _set_stored(cluster, stored)
        cluster.sandbox.faults.clear()
        await cluster.passes(3)
        await cluster.send("e")
        await cluster.passes(8)
        assert seen.bodies == bodies
        assert cluster.stored() == {0: 5}
        told = [report for report in cluster.reports if "another member" in report]
        assert len(told) == (stored == 4)
        assert all("from 2 to 4, or the queue was reset" in report for report in told)
        assert consumer.holding.committed(MQ) == 5

    scenario(work)


def test_offsets_of_other_brokers_are_stored_each_5_s_while_one_says_nothing() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.started(Seen())
        await cluster.passes(12)
        cluster.sandbox.faults.silence(Q.UPDATE_CONSUMER_OFFSET, server="broker-a", count=None)
        stored = cluster.sandbox.faults.delay(0, Q.UPDATE_CONSUMER_OFFSET, server="broker-b", count=None)
        await cluster.passes(8)
        before = stored.struck_count
        await cluster.passes(50)
        # A queue of the topic and one of its retries.
        assert stored.struck_count - before >= 9 * 2
        assert any(report.startswith("No offsets are stored at broker-a") for report in cluster.reports)

    scenario(work, brokers=2)


def test_after_a_partition_beyond_the_brokers_patience_nothing_that_others_did_is_done_again() -> None:
    async def work(cluster: Cluster) -> None:
        one, other = Seen(), Seen()
        first = await cluster.started(one)
        await cluster.started(other)
        await cluster.passes(15)
        assert cluster.sandbox.faults.partition(first.client_id, server="broker-a")
        # The broker takes a client for gone that it has not heard of for 120 s, and looks every 10 s.
        await cluster.passes(140)
        for number in range(8):
            await cluster.send(f"out-{number}", queue_id=number % 4)
        await cluster.passes(20)
        assert len(other.bodies) == 8
        cluster.sandbox.faults.heal()
        await cluster.passes(8)
        for number in range(8):
            await cluster.send(f"back-{number}", queue_id=number % 4)
        await cluster.passes(30)
        everything = sorted(f"{when}-{number}" for when in ("out", "back") for number in range(8))
        assert sorted(one.bodies + other.bodies) == everything
        assert one.bodies

    scenario(work, queue_count=4)
