"""What a program changes while it consumes: it pauses queues and moves them; and what it learns of its health."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace

from rmqctl.consumer.core import ConsumerCore
from rmqctl.consumer.health import HeldQueueHealth
from rmqctl.consumer.rebalance_listener import RebalanceListener
from rmqctl.errors import RefusedError, RmqctlError
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode as Q
from tests.consumer.consumer_cluster import TOPIC, Cluster, Seen, scenario
from tests.consumer.consumer_parts import LATER, MQ

OTHER = MQ._replace(queue_id=1)


def test_a_paused_queue_passes_on_nothing_and_the_others_go_on() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b")
        seen = Seen()
        seen.hold("a")
        consumer = await cluster.started(seen, worker_count=1)
        consumer.holding.pauses.pause([MQ])
        # What is running ends as usual; what was pulled waits, and what comes is not pulled.
        seen.let_go()
        await cluster.send("c")
        await cluster.send("x", queue_id=1)
        await cluster.passes(200, step_s=1)
        assert (seen.bodies, cluster.stored()[0]) == (["a", "x"], 1)
        assert consumer.holding.queues[MQ].count == 1
        consumer.holding.pauses.resume([MQ])
        await cluster.passes(2)
        assert seen.bodies == ["a", "x", "b", "c"]
        with pytest.raises(RefusedError, match="does not hold T@broker-a:7"):
            consumer.holding.pauses.pause([MQ._replace(queue_id=7)])

    scenario(work, queue_count=2)


def test_a_paused_consumer_takes_queues_and_leaves_without_waiting_for_them() -> None:
    async def work(cluster: Cluster) -> None:
        seen = Seen()
        consumer = cluster.consumer(seen)
        consumer.holding.pauses.pause([])
        await cluster.during(consumer.start())
        await cluster.send("a", "b")
        await cluster.passes(3)
        assert (seen.bodies, len(consumer.holding.held())) == ([], 2)
        consumer.holding.pauses.resume([])
        await cluster.passes(1.5)
        assert seen.bodies == ["a", "b"]
        seen.hold("c")
        await cluster.send("c", "d")
        await cluster.passes(1)
        consumer.holding.pauses.pause([])
        seen.let_go()
        began_s = cluster.clock.monotonic_s()
        left = await cluster.during(consumer.drain(60))
        assert cluster.clock.monotonic_s() - began_s < 10
        assert sum(each.count for each in left) + len(seen.bodies) == 4
        assert cluster.stored() == {0: len(seen.bodies)}

    scenario(work)


@pytest.mark.parametrize(
    ("offset", "found", "bodies"), [(1, 1, ["b", "c"]), (3, 3, []), (-5, 0, ["a", "b", "c"]), (999, 3, [])]
)
def test_a_queue_continues_at_another_offset(offset: int, found: int, bodies: list[str]) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b", "c")
        seen = Seen({"c": [LATER]})
        seen.hold("c")
        consumer = await cluster.started(seen, worker_count=1)
        assert seen.bodies == ["a", "b", "c"]
        taken_at_ms = consumer.holding.queues[MQ].taken_at_ms
        assert await cluster.during(_seek(consumer, offset)) == found
        assert consumer.holding.queues[MQ].taken_at_ms == taken_at_ms
        assert cluster.stored()[0] == found
        # The result of what is running no longer counts: it failed, and is not sent back.
        seen.let_go()
        await cluster.passes(12)
        assert seen.bodies[3:] == bodies
        assert consumer.counts.sent_back == 0
        await cluster.during(consumer.drain(5))
        assert cluster.stored()[0] == 3

    scenario(work)


async def _seek(consumer: ConsumerCore, offset: int, mq: MessageQueue = MQ) -> int:
    return await consumer.holding.seek(mq, lambda starts: starts.nearest(mq, offset))


def test_a_queue_continues_at_a_time() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a")
        await cluster.passes(10)
        at_ms = cluster.clock.now_ms() - 5000
        await cluster.send("b")
        seen = Seen()
        consumer = await cluster.started(seen)
        assert await cluster.during(consumer.holding.seek(MQ, lambda starts: starts.at(MQ, at_ms))) == 1
        await cluster.passes(1.5)
        assert seen.bodies == ["a", "b", "b"]

    scenario(work)


def test_a_program_that_keeps_its_own_offsets_seeks_when_a_queue_is_assigned() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b", "c")
        seen = Seen()

        class Own(RebalanceListener):
            async def assigned(self, starts: Mapping[MessageQueue, int]) -> None:
                for mq in starts:
                    if mq == MQ:
                        await _seek(consumer, 2)

        consumer = cluster.consumer(seen, rebalance_listener=Own())
        await cluster.during(consumer.start())
        await cluster.passes(3)
        assert seen.bodies == ["c"]

    scenario(work)


def test_a_queue_that_cannot_be_moved_says_what_happened() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a")
        seen = Seen()
        consumer = await cluster.started(seen)
        with pytest.raises(RefusedError, match="does not hold"):
            await _seek(consumer, 0, OTHER)
        cluster.sandbox.faults.drop(Q.GET_MIN_OFFSET, count=None)
        with pytest.raises(RmqctlError, match="T@broker-a:0 was not moved: "):
            await cluster.during(_seek(consumer, 0))
        assert consumer.offsets.read(MQ) == 1
        cluster.sandbox.faults.clear()
        cluster.sandbox.faults.drop(Q.UPDATE_CONSUMER_OFFSET, count=None)
        with pytest.raises(RmqctlError, match="T@broker-a:0 continues at 0, but this is not stored: "):
            await cluster.during(_seek(consumer, 0))
        await cluster.passes(2)
        assert seen.bodies == ["a", "a"]
        cluster.sandbox.faults.clear()

    scenario(work)


def test_health_says_what_a_member_knows() -> None:
    async def work(cluster: Cluster) -> None:
        consumer = cluster.consumer(seen := Seen())
        assert not consumer.health().is_member
        await cluster.during(consumer.start())
        await cluster.passes(1.5)
        await cluster.send("a", "b")
        seen.hold("b")
        await cluster.passes(100, step_s=1)
        health = consumer.health()
        assert (health.is_member, [broker.error for broker in health.brokers], health.problems) == (True, [None], ())

        def queue() -> HeldQueueHealth:
            return next(each for each in consumer.health().queues if each.mq.topic == TOPIC)

        of_t, now_ms = queue(), cluster.clock.now_ms()
        assert (of_t.offset, of_t.lag, of_t.in_flight_count, of_t.head_offset) == (1, 1, 1, 1)
        assert of_t.head_age_ms is not None
        assert 98_000 < of_t.head_age_ms <= 100_000
        assert now_ms - (of_t.pulled_at_ms or 0) < 16_000
        assert now_ms - (of_t.consumed_at_ms or 0) > 98_000
        assert consumer.health().stuck(120) == []
        assert [each.mq for each in consumer.health().stuck(60)] == [MQ]
        assert msgspec.json.decode(msgspec.json.encode(health))["is_member"] is True
        # The others have taken the queues of a member that the broker does not list.
        balances = consumer.rebalance.outcomes
        balances[TOPIC] = replace(balance := balances[TOPIC], client_ids=("0",))
        assert not consumer.health().is_member
        balances[TOPIC] = balance
        # A broker that no longer answers: what is seen is old, and says so.
        cluster.sandbox.faults.silence(server="broker-a", count=None)
        await cluster.passes(20, step_s=1)
        last_pull_at_ms = queue().pulled_at_ms
        await cluster.passes(40, step_s=1)
        health = consumer.health()
        assert not health.is_member
        assert health.brokers[0].error is not None
        assert any("Cannot pull from broker-a" in problem for problem in health.problems)
        assert queue().pulled_at_ms == last_pull_at_ms
        seen.let_go()

    scenario(work)
