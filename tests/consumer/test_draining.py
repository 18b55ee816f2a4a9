"""How a consumer ends: what was pulled is consumed within a time, offsets are stored, the group is left."""

from __future__ import annotations

import asyncio

from rmqctl.consumer.process_queue import UnackedMessages
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.consumer.consumer_cluster import GROUP, TOPIC, Cluster, Seen, scenario
from tests.consumer.consumer_parts import MQ
from tests.sandbox.peer import Peer, consumer_data, subscription

# Draining


def test_drain_waits_for_what_was_pulled_and_pulls_no_more() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b")
        seen = Seen()
        seen.hold("a")
        consumer = await cluster.started(seen, worker_count=1)
        draining = asyncio.ensure_future(consumer.drain(30))
        await cluster.passes(3)
        await cluster.send("late")
        await cluster.passes(3)
        assert (draining.done(), seen.bodies) == (False, ["a"])
        assert await cluster.members() == [consumer.client_id]
        seen.let_go()
        await cluster.passes(0.5)
        assert (await draining, seen.bodies, cluster.stored()) == ([], ["a", "b"], {0: 2})

    scenario(work)


def test_drain_with_something_stuck_ends_in_time_and_says_what_is_left() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b", "c")
        seen = Seen()
        seen.hold("b")
        consumer = await cluster.started(seen)
        began_s = cluster.clock.monotonic_s()
        left = await cluster.during(consumer.drain(7))
        assert 7 <= cluster.clock.monotonic_s() - began_s < 8
        assert left == [UnackedMessages(MQ, 1, 1)] == consumer.unfinished()
        assert (cluster.stored(), await cluster.members()) == ({0: 1}, [])
        # What comes back later is not heard.
        seen.let_go()
        await cluster.passes(20)
        assert (cluster.stored(), consumer.counts.ok) == ({0: 1}, 2)

    scenario(work)


def test_nothing_that_waits_is_consumed_after_a_drain_that_was_too_short() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send(*"abcdef")
        seen = Seen()
        seen.hold("b")
        consumer = await cluster.started(seen, worker_count=1)
        await cluster.during(consumer.drain(1))
        seen.let_go()
        await cluster.passes(20)
        assert (seen.bodies, cluster.stored()) == (["a", "b"], {0: 1})
        assert consumer.unfinished() == [UnackedMessages(MQ, 1, 5)]

    scenario(work)


def test_a_drain_that_is_cancelled_leaves_at_once() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b")
        seen = Seen()
        seen.hold("b")
        consumer = await cluster.started(seen)
        draining = asyncio.ensure_future(consumer.drain(3600))
        await cluster.passes(2)
        draining.cancel()
        await cluster.passes(0.5)
        assert draining.cancelled()
        assert (cluster.stored(), await cluster.members()) == ({0: 1}, [])
        assert consumer.unfinished() == [UnackedMessages(MQ, 1, 1)]

    scenario(work)


def test_no_queue_is_taken_while_it_drains() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("mine", queue_id=1)
        seen = Seen()
        seen.hold("mine")
        peer = await Peer.of_broker(cluster.sandbox)
        await peer.heartbeat("0", consumer_data(GROUP, subscription(TOPIC)))
        consumer = await cluster.started(seen)
        assert [mq.queue_id for mq in consumer.holding.held() if mq.topic == TOPIC] == [1]
        draining = asyncio.ensure_future(consumer.drain(60))
        await cluster.passes(1)
        # The other one goes; its queue is the only member's now, who takes nothing any more.
        await peer.aclose()
        await cluster.send("others", queue_id=0)
        await cluster.passes(25)
        assert [mq.queue_id for mq in consumer.holding.held() if mq.topic == TOPIC] == [1]
        seen.let_go()
        await cluster.passes(1)
        assert (await draining, seen.bodies) == ([], ["mine"])

    scenario(work, queue_count=2)


def test_offsets_that_can_not_be_stored_at_the_end_are_told() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a")
        consumer = await cluster.started(Seen())
        cluster.sandbox.faults.answer(Q.UPDATE_CONSUMER_OFFSET, R.SYSTEM_ERROR, remark="no", count=None)
        await cluster.during(consumer.drain(5))
        assert any(report.startswith("Not stored at broker-a: offset of T:0: ") for report in cluster.reports)
        assert [(each.broker_name, each.what) for each in consumer.unstored] == [("broker-a", "offset of T:0")]
        assert await cluster.members() == []

    scenario(work)


def test_a_drain_of_any_length_keeps_its_queues() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b")
        seen = Seen()
        seen.hold("a")
        consumer = await cluster.started(seen, worker_count=1)
        draining = asyncio.ensure_future(consumer.drain(1000))
        # Longer than the two minutes after which a silent member or queue is given up.
        await cluster.passes(200, step_s=1)
        assert seen.bodies == ["a"]
        seen.let_go()
        await cluster.passes(1)
        assert (await draining, seen.bodies, cluster.stored()) == ([], ["a", "b"], {0: 2})

    scenario(work)


def test_what_goes_to_another_member_while_it_drains_is_not_acknowledged() -> None:
    async def work(cluster: Cluster) -> None:
        for queue_id in (0, 1):
            await cluster.send(f"{queue_id}", queue_id=queue_id)
        seen = Seen()
        seen.hold("0", "1")
        consumer = await cluster.started(seen)
        draining = asyncio.ensure_future(consumer.drain(60))
        await cluster.passes(1)
        # It sorts before ours, so it gets the first queue.
        peer = await Peer.of_broker(cluster.sandbox)
        await peer.heartbeat("0", consumer_data(GROUP, subscription(TOPIC)))
        await cluster.passes(3)
        seen.let_go()
        await cluster.passes(1)
        assert await draining == [UnackedMessages(MQ, 0, 1)] == consumer.unfinished()
        assert (cluster.stored().get(0, 0), cluster.stored()[1]) == (0, 1)
        await peer.aclose()

    scenario(work, queue_count=2)
