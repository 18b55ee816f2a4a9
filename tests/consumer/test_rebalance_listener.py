"""What an application does when queues come and go: it prepares before the first pull, and finishes before they go."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rmqctl.consumer.core import ConsumerCore
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.consumer.rebalance_listener import RebalanceCalls, RebalanceListener
from rmqctl.consumer.reports.problems import Problem, Problems
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import SystemClock
from tests.consumer.consumer_cluster import GROUP, TOPIC, Cluster, Seen, scenario
from tests.consumer.consumer_parts import MQ
from tests.sandbox.peer import Peer, consumer_data, subscription

OTHER = MQ._replace(queue_id=1)


class Notes(RebalanceListener):
    """Notes what it was called for, and when; each method can be held, and fail so many times."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.called: list[Any] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.failures: dict[str, int] = {}

    def hold(self, name: str) -> None:
        self.gates[name] = asyncio.Event()

    async def _note(self, name: str, what: object) -> None:
        self.called.append((name, what))
        if name in self.gates:
            await self.gates[name].wait()
        if self.failures.get(name, 0) > 0:
            self.failures[name] -= 1
            raise KeyError(name)

    async def assigned(self, starts: Mapping[MessageQueue, int]) -> None:
        if of_topic := {mq.queue_id: offset for mq, offset in starts.items() if mq.topic == TOPIC}:
            await self._note("assigned", of_topic)

    async def revoked(self, mqs: Sequence[MessageQueue]) -> None:
        if of_topic := [mq.queue_id for mq in mqs if mq.topic == TOPIC]:
            await self._note("revoked", of_topic)

    def has_reported(self, what: str) -> bool:
        return any(f"() of the rebalance listener {what}" in sentence for sentence in self.cluster.reports)

    def of(self, name: str) -> list[Any]:
        return [what for called, what in self.called if called == name]


async def _joins(cluster: Cluster) -> Peer:
    """Let a member join that gets the first queues: it sorts before ours."""
    peer = await Peer.of_broker(cluster.sandbox)
    await peer.heartbeat("0", consumer_data(GROUP, subscription(TOPIC)))
    return peer


def _held(starts: Mapping[MessageQueue, int]) -> dict[MessageQueue, ProcessQueue]:
    return {mq: ProcessQueue(mq, next_offset=offset) for mq, offset in starts.items()}


async def _started(cluster: Cluster, seen: Seen, notes: Notes, **settings: Any) -> ConsumerCore:
    return await cluster.started(seen, rebalance_listener=notes, **settings)


def test_queues_are_prepared_before_the_first_pull_and_finished_before_they_go() -> None:
    async def work(cluster: Cluster) -> None:
        notes, seen = Notes(cluster), Seen()
        notes.hold("assigned")
        for body in ("a", "b", "c"):
            await cluster.send(body)
        await cluster.commit(0, 1)
        seen.hold("b", "c")
        consumer = await _started(cluster, seen, notes, worker_count=1)
        await cluster.passes(130, step_s=1)
        # It has not expired, and is not pulled.
        assert (notes.of("assigned"), seen.bodies) == ([{0: 1, 1: 0}], [])
        assert notes.has_reported("has not returned after 30 s")
        notes.gates["assigned"].set()
        await cluster.passes(2)
        assert seen.bodies == ["b"]
        peer = await _joins(cluster)
        await cluster.passes(3)
        # It is given up, and still waits for what is running; the next message is left to the other member.
        assert notes.of("revoked") == []
        seen.gates["b"].set()
        await cluster.passes(1)
        assert notes.of("revoked") == [[0]]
        assert (seen.bodies, cluster.stored()[0]) == (["b"], 2)
        await cluster.during(consumer.drain(5))
        # At the end the rest.
        assert notes.of("revoked")[1:] == [[1]]
        await peer.aclose()

    scenario(work, queue_count=2)


def test_what_fails_to_prepare_is_called_again_while_its_queues_wait() -> None:
    async def work(cluster: Cluster) -> None:
        notes, seen = Notes(cluster), Seen()
        notes.failures["assigned"] = 2
        await cluster.send("a")
        await _started(cluster, seen, notes)
        await cluster.passes(3)
        assert seen.bodies == []
        assert notes.has_reported("failed (KeyError: 'assigned')")
        await cluster.passes(20)
        assert (seen.bodies, len(notes.called)) == (["a"], 3)
        assert notes.has_reported("works again after")

    scenario(work)


def test_a_call_that_is_repeated_gets_the_offset_to_which_the_failed_one_moved_a_queue() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send(*"abcdef")
        starts: list[int] = []

        class Moving(RebalanceListener):
            async def assigned(self, found: Mapping[MessageQueue, int]) -> None:
                if MQ in found:
                    starts.append(found[MQ])
                    if len(starts) == 1:
                        await consumer.holding.seek(MQ, lambda offsets: offsets.nearest(MQ, 4))
                        raise ValueError

        seen = Seen()
        consumer = cluster.consumer(seen, rebalance_listener=Moving())
        await cluster.during(consumer.start())
        await cluster.passes(10)
        assert (starts, seen.bodies) == ([0, 4], ["e", "f"])

    scenario(work)


def test_a_call_that_keeps_others_waiting_is_the_one_that_is_named() -> None:
    async def work(cluster: Cluster) -> None:
        notes = Notes(cluster)
        notes.hold("assigned")
        consumer = await _started(cluster, Seen(), notes)
        await cluster.during(consumer.drain(0))
        (report,) = [each for each in cluster.reports if "has not returned" in each]
        assert report.startswith("assigned() of the rebalance listener has not returned after 5 s")
        assert report.endswith("before revoked() is called.")

    scenario(work)


@pytest.mark.parametrize("stays", ["listener", "revoked"])
def test_a_queue_is_given_up_although_the_application_does_not_finish(stays: str) -> None:
    async def work(cluster: Cluster) -> None:
        notes, seen = Notes(cluster), Seen()
        await cluster.send("a")
        if stays == "listener":
            seen.hold("a")
        else:
            notes.hold("revoked")
        consumer = await _started(cluster, seen, notes)
        peer = await _joins(cluster)
        await cluster.passes(3)
        assert MQ in consumer.holding.held()
        await cluster.passes(5)
        assert MQ not in consumer.holding.held()
        assert notes.of("revoked") == [[0]]
        assert cluster.stored()[0] == (0 if stays == "listener" else 1)
        assert notes.has_reported("has not returned after 5 s") == (stays == "revoked")
        seen.let_go()
        await peer.aclose()

    scenario(work, queue_count=2)


async def test_each_queue_that_is_assigned_is_revoked_or_lost_in_order_and_plain_functions_run_in_threads() -> None:
    called: list[tuple[str, object]] = []
    loop, is_idle = asyncio.get_running_loop(), asyncio.Event()

    class Plain(RebalanceListener):
        def assigned(self, starts: Mapping[MessageQueue, int]) -> None:
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            called.append(("assigned", list(starts)))

        async def revoked(self, mqs: Sequence[MessageQueue]) -> None:
            assert asyncio.get_running_loop() is loop
            called.append(("revoked", mqs))
            if len(called) == 6:
                is_idle.set()
            raise SystemExit(3)

    told: list[Problem] = []
    clock = SystemClock()
    calls = RebalanceCalls(Plain(), ConsumerSettings(revoke_wait_s=60), clock, Problems(told.append, clock))
    for mq in (MQ, OTHER):
        calls.took(mq)
    calls.announce(_held({MQ: 5, OTHER: 6}))
    calls.announce(_held({MQ: 5, OTHER: 6}))
    for mq in (OTHER, MQ):
        calls.lose(mq)
    calls.took(MQ)
    # It is taken again before the first call has returned, and waits for its own.
    calls.announce(_held({MQ: 5}))
    await calls.revoke([MQ])
    calls.took(OTHER)
    assert calls.is_waiting(OTHER)
    calls.announce(_held({OTHER: 0}))
    await calls.revoke([OTHER, MQ])
    assert called == [
        ("assigned", [MQ, OTHER]), ("revoked", [MQ, OTHER]), ("assigned", [MQ]), ("revoked", [MQ]),
        ("assigned", [OTHER]), ("revoked", [OTHER]),
    ]  # fmt: skip
    assert is_idle.is_set()
    failed = {str(each).partition(":")[0] for each in told}
    assert failed == {f"{name}() of the rebalance listener failed (SystemExit" for name in ("lost", "revoked")}
    # A call that runs at the end is waited for.
    calls.took(MQ)
    calls.announce(_held({MQ: 0}))
    await asyncio.sleep(0)
    calls.lose(MQ)
    await asyncio.sleep(0)
    await calls.aclose()
    assert called[6:] == [("assigned", [MQ]), ("revoked", [MQ])]
