"""A process that was stopped: what it holds is consumed only once the broker says that nobody else has done it."""

from __future__ import annotations

import asyncio

import pytest

from rmqctl.consumer.stand_still import StandStill
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.consumer.consumer_cluster import GROUP, TOPIC, Cluster, Seen, scenario
from tests.consumer.consumer_parts import LATER
from tests.sandbox.peer import Peer
from tests.scripted_peer import run


def test_a_stop_is_found_by_the_next_beat_or_look_once() -> None:
    async def go() -> None:
        clock = VirtualClock()
        found: list[float] = []
        beats: list[None] = []
        still = StandStill(clock, found.append, lambda: beats.append(None))
        still.start()
        await clock.advance(10)
        assert (found, len(beats)) == ([], 21)
        clock._elapsed_s += 36
        assert still.is_over(clock.monotonic_s())
        still.look()
        assert (found, still.is_over(clock.monotonic_s())) == ([36.0], False)
        await clock.advance(1)
        clock._elapsed_s += 8
        await clock.advance(1)
        assert [round(each) for each in found] == [36, 8]
        still.close()

    run(go())


async def _stop(cluster: Cluster, seconds: float) -> None:
    """Let the consumers find that they were stopped."""
    for consumer in cluster.consumers:
        consumer.holding.stand_still._beat_s -= seconds


@pytest.mark.parametrize(
    ("stored", "consumed"), [(None, ["a", "b", "c", "d"]), (3, ["a", "d"]), (4, ["a"])], ids=["none", "some", "all"]
)
def test_after_a_stop_only_what_nobody_else_has_consumed_is_consumed(stored: int | None, consumed: list[str]) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send(*"abcd")
        seen = Seen()
        seen.hold("a")
        consumer = await cluster.started(seen, worker_count=1)
        if stored is not None:
            await cluster.commit(0, stored)
        await _stop(cluster, 8)
        seen.let_go()
        await cluster.passes(5)
        assert (seen.bodies, consumer.is_idle) == (consumed, True)
        assert any("another member has consumed" in said for said in cluster.reports) == (stored is not None)
        assert await cluster.during(consumer.drain(5)) == []
        assert cluster.stored() == {0: 4}

    scenario(work)


def test_a_reset_that_a_stopped_process_gets_late_leaves_what_others_have_consumed() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send(*"abcd")
        seen = Seen()
        seen.hold("a")
        await cluster.started(seen, worker_count=1)
        await cluster.commit(0, 4)
        await _stop(cluster, 130)
        peer = await Peer.of_broker(cluster.sandbox)
        await peer.ask_ok(Q.INVOKE_BROKER_TO_RESET_OFFSET, topic=TOPIC, group=GROUP, timestamp=0, isForce="true")
        await cluster.passes(30)
        assert cluster.stored() == {0: 4}
        assert "A broker reset T: this member holds none of the queues." in cluster.reports

    scenario(work, plays="4.9.7")


def test_while_the_broker_does_not_say_nothing_is_consumed_or_stored() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send(*"ab")
        seen = Seen()
        seen.hold("a")
        await cluster.started(seen, worker_count=1)
        await cluster.passes(1)
        cluster.sandbox.faults.answer(Q.QUERY_CONSUMER_OFFSET, R.SYSTEM_ERROR, remark="no", count=None)
        await _stop(cluster, 8)
        seen.let_go()
        await cluster.passes(20)
        assert (seen.bodies, cluster.stored().get(0, 0)) == (["a"], 0)
        cluster.sandbox.faults.clear()
        await cluster.passes(8)
        assert (seen.bodies, cluster.stored()) == (["a", "b"], {0: 2})

    scenario(work)


def test_a_stop_while_it_drains() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send(*"abc")
        seen = Seen()
        seen.hold("a")
        consumer = await cluster.started(seen, worker_count=1)
        draining = asyncio.ensure_future(consumer.drain(60))
        await cluster.passes(1)
        await _stop(cluster, 8)
        seen.let_go()
        await cluster.passes(5)
        assert (await draining, seen.bodies, cluster.stored()) == ([], ["a", "b", "c"], {0: 3})

    scenario(work)


def test_after_a_stop_no_older_offset_is_stored_than_another_members() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send(*"abc")
        consumer = await cluster.started(Seen())
        await cluster.commit(0, 9)
        await _stop(cluster, 8)
        assert len(await consumer.holding.persist()) == 1
        assert cluster.stored() == {0: 9}

    scenario(work)


def test_what_failed_before_a_stop_is_sent_back_only_if_it_is_still_this_members() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a")
        back = cluster.sandbox.faults.answer(Q.CONSUMER_SEND_MSG_BACK, R.SYSTEM_ERROR, remark="no", count=None)
        cluster.sandbox.faults.answer(Q.SEND_MESSAGE_V2, R.NO_PERMISSION, remark="no", count=None)
        await cluster.started(Seen({"a": LATER}), local_retry_limit=0)
        await cluster.passes(1)
        tried = back.struck_count
        assert tried
        await cluster.commit(0, 1)
        await _stop(cluster, 8)
        await cluster.passes(20)
        assert back.struck_count == tried

    scenario(work)
