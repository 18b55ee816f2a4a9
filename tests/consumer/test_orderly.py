"""Orderly consumers in a group: the order, the locks, and what happens to a batch that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rmqctl.consumer import orderly_consumption
from rmqctl.consumer.batch import OrderlyBatch
from rmqctl.consumer.control.direct_consumption import consume_directly, make_batch
from rmqctl.consumer.process_queue import UnackedMessages
from rmqctl.consumer.rebalance_listener import RebalanceListener
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.model.consumption import ConsumeOrderlyStatus
from rmqctl.model.group import BROADCASTING
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import VirtualClock, pause
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.java_json import loads
from rmqctl.protocol.message import StoredMessage
from tests.consumer.consumer_cluster import DEAD, GROUP, TOPIC, Cluster, both, scenario
from tests.consumer.consumer_parts import MQ, message
from tests.sandbox.peer import Peer

SUCCESS, SUSPEND = ConsumeOrderlyStatus.SUCCESS, ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
COMMIT, ROLLBACK = ConsumeOrderlyStatus.COMMIT, ConsumeOrderlyStatus.ROLLBACK
OTHER = MQ._replace(queue_id=1)
Tune = Callable[[OrderlyBatch], object]


class Hearing:
    """An orderly listener: what it answers for each body in turn, and what it was given, with the number of tries."""

    def __init__(self, plan: dict[str, Any] | None = None, tune: Tune = lambda _: None) -> None:
        self.plan = {body: list(answers) for body, answers in (plan or {}).items()}
        self.tune = tune
        self.calls: list[str] = []
        self.busy: set[MessageQueue] = set()
        self.gates: dict[str, asyncio.Event] = {}

    def hold(self, body: str) -> asyncio.Event:
        """Return what a message waits for."""
        return self.gates.setdefault(body, asyncio.Event())

    async def __call__(self, messages: Sequence[StoredMessage], batch: OrderlyBatch) -> Any:
        assert batch.mq not in self.busy, "two batches of one queue at once"
        self.busy.add(batch.mq)
        try:
            self.tune(batch)
            self.calls.append("+".join(f"{each.body.decode()}{each.reconsume_times or ''}" for each in messages))
            body = messages[-1].body.decode()
            if body in self.gates:
                await self.gates[body].wait()
            answers = self.plan.get(body)
            answer = answers.pop(0) if answers else SUCCESS
            if isinstance(answer, BaseException):
                raise answer
            return answer
        finally:
            self.busy.discard(batch.mq)


def holder(cluster: Cluster, mq: MessageQueue = MQ) -> str | None:
    """Return who has the lock of a queue."""
    return cluster.sandbox.brokers[mq.broker_name].locks.holder(GROUP, mq)


@both
def test_a_queue_waits_for_what_fails_and_the_others_go_on(plays: str) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b", "c", "d")
        await cluster.send("x", "y", queue_id=1)
        hearing = Hearing({"b": [SUSPEND, ValueError("no"), None, "COMMIT"]})
        consumer = await cluster.started(hearing, is_orderly=True)
        assert [each for each in hearing.calls if each in "xy"] == ["x", "y"]
        await cluster.passes(12)
        assert [each for each in hearing.calls if each not in "xy"] == ["a", "b", "b1", "b2", "b3", "c", "d"]
        assert cluster.stored() == {0: 4, 1: 2}
        counts = consumer.counts
        assert (counts.ok, counts.failed, counts.sent_back, counts.dead) == (6, 3, 0, 0)
        assert sum("The queue waits for 1 s" in report for report in cluster.reports) == 3

    scenario(work, plays=plays, queue_count=2)


def test_a_plain_function_gets_each_queue_in_order_from_whichever_thread() -> None:
    async def work(cluster: Cluster) -> None:
        for queue_id in range(4):
            await cluster.send(*[f"{queue_id}-{number}" for number in range(100)], queue_id=queue_id)
        busy: set[MessageQueue] = set()
        seen: dict[MessageQueue, list[tuple[int, int]]] = {}
        bad: list[str] = []

        def hear(messages: Sequence[StoredMessage], batch: OrderlyBatch) -> ConsumeOrderlyStatus:
            if batch.mq in busy:
                bad.append("two at once")
            busy.add(batch.mq)
            found = messages[0]
            seen.setdefault(batch.mq, []).append((found.queue_offset, found.reconsume_times))
            busy.discard(batch.mq)
            return SUSPEND if found.queue_offset == 50 and not found.reconsume_times else SUCCESS

        await cluster.started(hear, is_orderly=True, worker_count=3, suspend_s=0.1)
        await cluster.until(lambda: sum(map(len, seen.values())) == 404)
        await cluster.until(lambda: cluster.stored() == dict.fromkeys(range(4), 100))
        in_order = [(number, 0) for number in range(51)] + [(50, 1)] + [(number, 0) for number in range(51, 100)]
        assert (list(seen.values()), bad) == ([in_order] * 4, [])

    scenario(work, queue_count=4)


def test_a_worker_leaves_a_queue_that_never_ends_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orderly_consumption, "TURN_S", 5.0)

    async def work(cluster: Cluster) -> None:
        await cluster.send(*(["a"] * 20))
        await cluster.send("x", queue_id=1)
        calls: list[str] = []

        async def hear(messages: Sequence[StoredMessage], _: OrderlyBatch) -> ConsumeOrderlyStatus:
            calls.append(messages[0].body.decode())
            await pause(cluster.clock, 1.0)
            return SUCCESS

        await cluster.started(hear, is_orderly=True, worker_count=1)
        await cluster.passes(30)
        assert sorted(calls) == ["a"] * 20 + ["x"]
        assert calls.index("x") <= 6

    scenario(work, queue_count=2)


def test_broadcasting_needs_no_locks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        await cluster.send("a", "b")
        hearing = Hearing({"a": [SUSPEND]})
        await cluster.started(hearing, is_orderly=True, message_model=BROADCASTING)
        await cluster.passes(40)
        assert (hearing.calls, holder(cluster)) == (["a", "a1", "b"], None)

    scenario(work)


def test_revoked_is_called_once_the_batch_has_ended_however_long_that_takes() -> None:
    revoked: list[int] = []

    class Listening(RebalanceListener):
        async def revoked(self, mqs: Sequence[MessageQueue]) -> None:
            revoked.extend(mq.queue_id for mq in mqs if mq.topic == TOPIC)

    async def work(cluster: Cluster) -> None:
        await cluster.send("x", queue_id=1)
        first, second = Hearing(), Hearing()
        gate = first.hold("x")
        await cluster.started(first, is_orderly=True, instance_name="1", rebalance_listener=Listening())
        two = cluster.consumer(second, is_orderly=True, instance_name="2")
        await cluster.during(two.start())
        await cluster.passes(60)
        assert not revoked
        gate.set()
        await cluster.passes(5)
        assert revoked == [1]
        assert (holder(cluster, OTHER), second.calls) == (two.client_id, [])

    scenario(work, queue_count=2)


MANUAL: list[tuple[str, dict[str, list[Any]], list[str], list[int]]] = [
    # What the listener answers without auto_commit, what it gets, and the offsets that are stored then.
    ("no commit", {}, ["a", "b", "c", "d"], []),
    ("commit in the middle", {"c": [COMMIT]}, ["a", "b", "c", "d"], [3]),
    ("rollback", {"b": [ROLLBACK], "d": [COMMIT]}, ["a", "b", "a", "b", "c", "d"], [4]),
    ("rollback after a commit", {"b": [COMMIT], "d": [ROLLBACK]}, ["a", "b", "c", "d", "c", "d"], [2]),
    ("failure", {"b": [SUSPEND], "c": [COMMIT]}, ["a", "b", "b1", "c", "d"], [3]),
]


@pytest.mark.parametrize(("plan", "calls", "stored"), [row[1:] for row in MANUAL], ids=[row[0] for row in MANUAL])
def test_without_auto_commit_only_commit_counts(
    plan: dict[str, list[Any]], calls: list[str], stored: list[int]
) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b", "c", "d")
        hearing = Hearing(plan, lambda batch: setattr(batch, "auto_commit", False))
        consumer = await cluster.started(hearing, is_orderly=True)
        await cluster.passes(12)
        assert hearing.calls == calls
        assert [offset for offset in cluster.stored().values() if offset] == stored
        assert consumer.counts.ok == (stored or [0])[0]

    scenario(work)


@pytest.mark.parametrize(
    ("suspend_ms", "pause_s"), [(-1, 1.0), (0, 0.01), (400, 0.4), (30_000, 30.0), (99_000, 30.0), ("soon", 1.0)]
)
def test_the_listener_chooses_the_pause_of_a_queue_from_10_ms_to_30_s(suspend_ms: int, pause_s: float) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a")
        times: list[float] = []

        def tune(batch: OrderlyBatch) -> None:
            times.append(cluster.clock.monotonic_s())
            batch.suspend_ms = suspend_ms

        await cluster.started(Hearing({"a": [SUSPEND] * 2}, tune), is_orderly=True)
        await cluster.passes(pause_s - 1.0 if pause_s > 1 else 0.0)
        while len(times) < 2:
            await cluster.passes(0.01, step_s=0.01)
        assert 0 <= times[1] - times[0] - pause_s < 0.05

    scenario(work)


@both
def test_what_fails_too_often_becomes_a_dead_letter_once_and_the_rest_of_its_batch_comes_again(plays: str) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b", "c")
        hearing = Hearing({"b": [SUSPEND] * 3, "c": [SUSPEND] * 3})
        consumer = await cluster.started(hearing, is_orderly=True, max_reconsume_times=2)
        await cluster.passes(15)
        assert hearing.calls == ["a", "b", "b1", "b2", "c", "c1", "c2"]
        assert (await cluster.count(DEAD), cluster.stored()) == (2, {0: 3})
        assert (consumer.counts.dead, consumer.counts.failed) == (2, 6)

    scenario(work, plays=plays)


def test_while_no_broker_takes_a_dead_letter_its_queue_waits_and_that_is_reported() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b")
        hearing = Hearing({"a": [SUSPEND] * 9})
        for code in (Q.CONSUMER_SEND_MSG_BACK, Q.SEND_MESSAGE, Q.SEND_MESSAGE_V2):
            cluster.sandbox.faults.answer(code, R.SYSTEM_ERROR, count=None)
        consumer = await cluster.started(hearing, is_orderly=True, max_reconsume_times=0)
        await cluster.passes(5)
        assert hearing.calls[:2] == ["a", "a1"]
        assert "b" not in hearing.calls
        assert any("waits, because no broker accepts" in report for report in cluster.reports)
        assert consumer.health().stuck(600)
        cluster.sandbox.faults.clear()
        await cluster.passes(20)
        assert (hearing.calls[-1], await cluster.count(DEAD)) == ("b", 1)
        assert any("continues" in report for report in cluster.reports)
        assert not consumer.health().stuck(600)

    scenario(work)


# Locks


@both
def test_a_queue_is_locked_from_before_its_first_pull_until_its_member_has_left(plays: str) -> None:
    async def work(cluster: Cluster) -> None:
        pulls = cluster.sandbox.faults.delay(0, Q.PULL_MESSAGE, count=None)
        consumer = cluster.consumer(Hearing(), is_orderly=True)
        cluster.sandbox.brokers["broker-a"].locks.lock(GROUP, [MQ], "another")
        await cluster.during(consumer.start())
        await cluster.passes(5)
        held = list(consumer.holding.queues)
        assert (MQ in held, holder(cluster)) == (False, "another")
        # Only this queue waits: the other ones are pulled.
        assert OTHER in held
        assert pulls.struck_count
        cluster.sandbox.brokers["broker-a"].locks.unlock(GROUP, [MQ], "another")
        await cluster.passes(3)
        # Renewed for longer than a lock lives.
        await cluster.passes(100, step_s=1)
        assert (MQ in consumer.holding.queues, holder(cluster)) == (True, consumer.client_id)
        await cluster.during(consumer.drain(5))
        assert (holder(cluster), holder(cluster, OTHER)) == (None, None)

    scenario(work, plays=plays, queue_count=2)


@pytest.mark.parametrize("is_moved", [False, True], ids=["", "moved past it meanwhile"])
def test_a_queue_goes_to_another_member_once_its_batch_has_ended(is_moved: bool) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b")
        await cluster.send("x", "y", queue_id=1)
        first, second = Hearing(), Hearing()
        gate = first.hold("x")
        one = await cluster.started(first, is_orderly=True, instance_name="1")
        if is_moved:
            await cluster.during(one.holding.seek(OTHER, lambda starts: starts.nearest(OTHER, 1)))
            await cluster.passes(1)
            reported = await _reported(cluster, one.client_id, OTHER)
            # What the listener has belongs to the queue as it was before.
            assert [reported[name] for name in ("cachedMsgMinOffset", "transactionMsgCount")] == [1, 0]
        two = cluster.consumer(second, is_orderly=True, instance_name="2")
        await cluster.during(two.start())
        await cluster.passes(70, step_s=0.5)
        assert (first.calls, second.calls) == (["a", "b", "x"], []) or first.calls == ["a", "x", "b"]
        assert holder(cluster, OTHER) == one.client_id
        assert any(f"{OTHER} is not given up yet" in report for report in cluster.reports)
        reported = await _reported(cluster, one.client_id, OTHER)
        assert (reported["droped"], reported["tryUnlockTimes"] > 0) == (True, True)
        gate.set()
        await cluster.passes(5)
        assert (holder(cluster, OTHER), second.calls) == (two.client_id, ["y"])
        assert cluster.stored() == {0: 2, 1: 2}

    scenario(work, queue_count=2)


def test_what_runs_when_another_member_gets_the_lock_does_not_count_and_nothing_behind_it_runs() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b")
        hearing = Hearing()
        gate = hearing.hold("a")
        consumer = await cluster.started(hearing, is_orderly=True)
        locks = cluster.sandbox.brokers["broker-a"].locks
        locks.unlock(GROUP, [MQ], consumer.client_id)
        locks.lock(GROUP, [MQ], "another")
        await cluster.passes(25)
        gate.set()
        await cluster.passes(10)
        assert (hearing.calls, cluster.stored().get(0, 0), MQ in consumer.holding.queues) == (["a"], 0, False)
        assert any("another member has the lock now" in report for report in cluster.reports)
        # It gets the lock again, and starts where the broker says.
        await cluster.commit(0, 1)
        locks.unlock(GROUP, [MQ], "another")
        await cluster.passes(20)
        assert (hearing.calls, cluster.stored()) == (["a", "b"], {0: 2})

    scenario(work)


def test_nothing_is_consumed_on_a_lock_that_was_not_renewed_for_30_s() -> None:
    async def work(cluster: Cluster) -> None:
        hearing = Hearing()
        consumer = await cluster.started(hearing, is_orderly=True)
        gate = hearing.hold("a")
        await cluster.send("a", "b", "c")
        await cluster.passes(1)
        cluster.sandbox.faults.silence(Q.LOCK_BATCH_MQ, count=None)
        await cluster.passes(60)
        gate.set()
        await cluster.passes(5)
        assert (hearing.calls, consumer.counts.ok) == (["a"], 0)
        assert any("2 locks are not renewed" in report for report in cluster.reports)
        cluster.sandbox.faults.clear()
        await cluster.passes(30)
        # Nobody else had it: what ended meanwhile counts.
        assert (hearing.calls, cluster.stored()) == (["a", "b", "c"], {0: 3})

    scenario(work)


@pytest.mark.parametrize("is_lost", [False, True])
def test_after_a_lost_connection_nothing_counts_until_the_lock_is_renewed(is_lost: bool) -> None:
    """A broker that restarts knows no locks."""

    async def work(cluster: Cluster) -> None:
        hearing = Hearing()
        consumer = await cluster.started(hearing, is_orderly=True)
        gate = hearing.hold("a")
        await cluster.send("a", "b")
        await cluster.passes(1)
        cluster.sandbox.faults.silence(Q.LOCK_BATCH_MQ, count=None)
        cluster.sandbox.faults.drop(Q.PULL_MESSAGE)
        await cluster.send("c")
        await cluster.passes(1)
        gate.set()
        await cluster.passes(5)
        assert (hearing.calls, consumer.counts.ok) == (["a"], 0)
        if is_lost:
            locks = cluster.sandbox.brokers["broker-a"].locks
            locks.unlock(GROUP, [MQ], consumer.client_id)
            locks.lock(GROUP, [MQ], "another")
        cluster.sandbox.faults.clear()
        await cluster.passes(20)
        assert (hearing.calls, cluster.stored()) == ((["a"], {0: 0}) if is_lost else (["a", "b", "c"], {0: 3}))

    scenario(work)


def test_after_a_lost_connection_other_queues_are_taken_when_no_old_lock_can_count_any_more() -> None:
    async def work(cluster: Cluster) -> None:
        one = await cluster.started(Hearing(), is_orderly=True, instance_name="1")
        two = await cluster.started(Hearing(), is_orderly=True, instance_name="2")

        def held_count() -> int:
            return sum(mq.topic == TOPIC for mq in one.holding.queues)

        await cluster.passes(30)
        assert held_count() == 1
        one.locks.disconnected(str(one.routes.address("broker-a")))
        await cluster.during(two.drain(5))
        await cluster.passes(20)
        assert held_count() == 1
        await cluster.passes(15)
        assert held_count() == 2

    scenario(work, queue_count=2)


# The end


def test_a_drain_does_not_wait_for_what_fails_again_and_again_and_gives_its_lock_back() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b")
        consumer = await cluster.started(Hearing({"a": [SUSPEND] * 999}), is_orderly=True)
        began_s = cluster.clock.monotonic_s()
        left = await cluster.during(consumer.drain(60))
        assert cluster.clock.monotonic_s() - began_s < 5
        assert (left, holder(cluster)) == ([UnackedMessages(MQ, 0, 2)], None)

    scenario(work)


def test_a_lock_that_was_granted_and_not_used_is_given_back_too() -> None:
    async def work(cluster: Cluster) -> None:
        consumer = await cluster.started(Hearing(), is_orderly=True)
        await cluster.during(consumer.drain(3))
        cluster.sandbox.faults.corrupt(Q.LOCK_BATCH_MQ, count=None)
        again = await cluster.started(Hearing(), is_orderly=True)
        assert (list(again.process_queues()), holder(cluster)) == ([], again.client_id)
        await cluster.during(again.drain(3))
        assert holder(cluster) is None

    scenario(work)


def test_a_lock_is_not_given_back_while_its_batch_still_runs() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b")
        hearing = Hearing()
        hearing.hold("a")
        consumer = await cluster.started(hearing, is_orderly=True)
        await cluster.during(consumer.drain(3))
        assert holder(cluster) == consumer.client_id

    scenario(work)


# What brokers ask


async def _ask(cluster: Cluster, client_id: str, code: int, body: bytes = b"", **fields: str) -> Any:
    peer = await Peer.of_broker(cluster.sandbox)
    answer = await peer.ask(code, body, consumerGroup=GROUP, clientId=client_id, **fields)
    await peer.aclose()
    assert answer.code == R.SUCCESS, answer.remark
    return answer


async def _reported(cluster: Cluster, client_id: str, mq: MessageQueue) -> Any:
    """Return what an orderly member reports of a queue."""
    answer = await cluster.during(_ask(cluster, client_id, Q.GET_CONSUMER_RUNNING_INFO))
    info = loads(answer.body)
    assert info["properties"]["PROP_CONSUMEORDERLY"] == "true"
    queues = {(each["topic"], each["queueId"]): queue for each, queue in info["mqTable"].items()}
    return queues[mq.topic, mq.queue_id]


@pytest.mark.parametrize(("auto_commit", "uncommitted"), [(True, 0), (False, 2)])
def test_a_member_reports_that_it_is_orderly_its_locks_and_what_its_listener_has(
    auto_commit: bool, uncommitted: int
) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send(*"abcdef")
        hearing = Hearing(tune=lambda batch: setattr(batch, "auto_commit", auto_commit))
        hearing.hold("d")
        consumer = await cluster.started(hearing, is_orderly=True, batch_size=2)
        queue = await _reported(cluster, consumer.client_id, MQ)
        assert (queue["locked"], queue["lastLockTimestamp"] > 0) == (True, True)
        found = {name: value for name, value in queue.items() if name.endswith(("Count", "MinOffset", "MaxOffset"))}
        assert found == {
            "transactionMsgCount": 2 + uncommitted, "transactionMsgMinOffset": 2 - uncommitted,
            "transactionMsgMaxOffset": 3,
            "cachedMsgCount": 2, "cachedMsgMinOffset": 4, "cachedMsgMaxOffset": 5,
            **({"uncommittedMsgCount": uncommitted} if uncommitted else {}),
        }  # fmt: skip

    scenario(work)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (SUCCESS, "CR_SUCCESS"),
        (SUSPEND, "CR_LATER"),
        (COMMIT, "CR_COMMIT"),
        (ROLLBACK, "CR_ROLLBACK"),
        (None, "CR_RETURN_NULL"),
    ],
)
async def test_a_single_message_on_request(answer: ConsumeOrderlyStatus | None, result: str) -> None:
    settings = ConsumerSettings(group=GROUP, is_orderly=True)
    batch = make_batch(settings, "broker-a", message(0, b"a").record)
    hearing = Hearing({"a": [answer]}, lambda batch: setattr(batch, "auto_commit", False))
    found = await consume_directly(hearing, VirtualClock(), batch)
    assert (found["consumeResult"], found["order"], found["autoCommit"]) == (result, True, False)
