"""Mission 7.12: at brokers from 5.1.1 on, a retry that is sent as a new message must not become a dead letter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rmqctl.consumer.guards.retry_guard import RetryGuard, explain
from rmqctl.consumer.rules.retry_locks import PossibleLocker
from rmqctl.model.consumption import ConsumerWarning
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.protocol.versions import version_ordinal
from tests.consumer.consumer_cluster import DEAD, GROUP, RETRY, TOPIC, Cluster, Seen, both, scenario
from tests.consumer.consumer_parts import LATER
from tests.consumer.group import OWN_ID, ScriptedGroup
from tests.sandbox.peer import Peer, consumer_data, subscription
from tests.sandbox.sender import pairs, send
from tests.scripted_peer import DROP, SILENCE, Late, ok, passing, refused, run

JAVA = "10.0.0.7@java"
ORDERLY, SILENT = PossibleLocker(JAVA, is_orderly=True), PossibleLocker(JAVA, is_orderly=False)


def _info(*held: str, orderly: str | None = "true") -> Command:
    """Return what a member says of itself that holds queues of these brokers."""
    queues = "".join(
        f'{"," * bool(number)}{{"brokerName":"{name}","queueId":0,"topic":"T"}}:{{"locked":true}}'
        for number, name in enumerate(held)
    )
    properties = {"PROP_CONSUME_TYPE": "x"} | ({} if orderly is None else {"PROP_CONSUMEORDERLY": orderly})
    return ok(f'{{"mqTable":{{{queues}}},"properties":{json.dumps(properties)}}}'.encode())


class _Guarded:
    """A guard in a scripted group of two brokers, with the Java member that is asked through each of them."""

    def __init__(self) -> None:
        self.group = ScriptedGroup(2)
        self.group.set_ids(OWN_ID, JAVA)
        self.reports: list[tuple[ConsumerWarning, str]] = []
        self.clock = self.group.clock
        self.says(_info("broker-a"))

    def says(self, reply: Any) -> None:
        for broker in self.group.brokers:
            broker.master.table[Q.GET_CONSUMER_RUNNING_INFO] = reply

    @asynccontextmanager
    async def running(self) -> AsyncIterator[_Guarded]:
        async with self.group.client() as client:
            self.guard = RetryGuard(client, "G", OWN_ID, lambda *said: self.reports.append(said))
            self._route = await client.fresh_route("T")
            yield self

    async def find(self) -> dict[str, PossibleLocker]:
        return await passing(self.clock, self.guard.find_hindrances(self._route.brokers))

    async def settled(self) -> None:
        """Look, and let the time pass in which shares move."""
        await self.find()
        await self.clock.advance(26)

    def asked(self, code: int) -> int:
        return sum(broker.master.codes().count(code) for broker in self.group.brokers)


def _guarded(work: Callable[[_Guarded], Coroutine[Any, Any, None]]) -> None:
    async def go() -> None:
        async with _Guarded().running() as guarded:
            await work(guarded)

    run(go())


def test_7_12_an_orderly_member_hinders_where_it_holds_queues() -> None:
    async def work(guarded: _Guarded) -> None:
        assert await guarded.find() == {"broker-a": ORDERLY, "broker-b": ORDERLY}  # it may be taking more just now
        await guarded.clock.advance(26)
        assert await guarded.find() == {"broker-a": ORDERLY}
        # It has given all up: a lock that it did not give back lives on for a minute.
        guarded.says(_info())
        await guarded.clock.advance(5)
        assert await guarded.find() == {"broker-a": ORDERLY}
        await guarded.clock.advance(61)
        assert await guarded.find() == {}

    _guarded(work)


def test_7_12_locks_outlive_an_orderly_member_that_dies() -> None:
    async def work(guarded: _Guarded) -> None:
        await guarded.settled()
        guarded.group.set_ids(OWN_ID)
        assert set(await guarded.find()) == {"broker-a", "broker-b"}
        await guarded.clock.advance(30)
        assert await guarded.find() == {"broker-a": ORDERLY}
        await guarded.clock.advance(31)
        assert await guarded.find() == {}

    _guarded(work)


def test_7_12_who_left_between_rebalances_without_being_asked_may_have_been_orderly() -> None:
    async def work(guarded: _Guarded) -> None:
        for name in ("broker-a", "broker-b"):
            guarded.guard.saw(name, [OWN_ID, JAVA])
        await guarded.clock.advance(19)
        # It has been there until now, for all that is known.
        guarded.group.set_ids(OWN_ID)
        for name in ("broker-a", "broker-b"):
            guarded.guard.saw(name, [OWN_ID])
        assert await guarded.find() == {"broker-a": SILENT, "broker-b": SILENT}
        await guarded.clock.advance(55)
        assert await guarded.find() == {"broker-a": SILENT, "broker-b": SILENT}
        await guarded.clock.advance(6)
        assert await guarded.find() == {}

    _guarded(work)


@pytest.mark.parametrize(("listed", "expected"), [([JAVA], {"broker-a"}), ([], {"broker-a", "broker-b"})])
def test_a_broker_that_was_not_heard_of_before_is_no_change_unless_it_names_somebody_new(
    listed: list[str], expected: set[str]
) -> None:
    async def work(guarded: _Guarded) -> None:
        guarded.guard.saw("broker-a", [OWN_ID, *listed])
        await guarded.clock.advance(26)
        if not listed:
            guarded.group.brokers[0].ids = [OWN_ID, JAVA]
        assert set(await guarded.find()) == expected

    _guarded(work)


@pytest.mark.parametrize("orderly", ["false", "False", None])
def test_concurrent_members_and_those_that_only_pull_hinder_nothing(orderly: str | None) -> None:
    async def work(guarded: _Guarded) -> None:
        guarded.says(_info("broker-a", "broker-b", orderly=orderly))
        assert await guarded.find() == {}
        assert guarded.reports == []

    _guarded(work)


def test_brokers_before_5_1_1_look_at_no_locks_and_nobody_is_asked_there() -> None:
    async def work(guarded: _Guarded) -> None:
        first, second = guarded.group.brokers
        first.master.version, second.master.version = version_ordinal(5, 1, 0), version_ordinal(4, 9, 7)
        assert await guarded.find() == {}
        assert guarded.asked(Q.GET_CONSUMER_RUNNING_INFO) == 0
        await guarded.clock.advance(5)
        first.master.version = version_ordinal(5, 1, 1)
        assert await guarded.find() == {"broker-a": ORDERLY}

    _guarded(work)


@pytest.mark.parametrize("silent", [0, 1])
@pytest.mark.parametrize("reply", [SILENCE, refused(R.SYSTEM_ERROR, "not online")])
def test_a_member_that_one_broker_does_not_reach_is_asked_through_another(silent: int, reply: Any) -> None:
    async def work(guarded: _Guarded) -> None:
        guarded.says(_info(orderly="false"))
        guarded.group.brokers[silent].master.table[Q.GET_CONSUMER_RUNNING_INFO] = reply
        assert await guarded.find() == {}

    _guarded(work)


@pytest.mark.parametrize(
    "reply",
    [
        SILENCE, refused(R.SYSTEM_ERROR, "not online"), refused(R.REQUEST_CODE_NOT_SUPPORTED), DROP, ok(), ok(b"{}"),
        ok(b"?"),
    ],
    ids=["silent", "refused", "a proxy", "lost", "no body", "empty", "damaged"],
)  # fmt: skip
def test_a_member_that_does_not_tell_is_waited_for_a_minute_and_then_told_of_once(reply: Any) -> None:
    async def work(guarded: _Guarded) -> None:
        guarded.says(reply)
        assert await guarded.find() == {"broker-a": SILENT, "broker-b": SILENT}
        await guarded.clock.advance(50)
        assert await guarded.find() == {"broker-a": SILENT, "broker-b": SILENT}
        assert guarded.reports == []
        for _ in range(3):
            await guarded.clock.advance(14)
            assert await guarded.find() == {}
        ((trouble, said),) = guarded.reports
        assert trouble is ConsumerWarning.GROUP
        assert f"{JAVA} does not report whether it consumes orderly" in said
        # It tells at last.
        guarded.says(_info("broker-b"))
        await guarded.clock.advance(5)
        assert await guarded.find() == {"broker-b": ORDERLY}

    _guarded(work)


def test_an_orderly_member_that_falls_silent_stays_one() -> None:
    async def work(guarded: _Guarded) -> None:
        await guarded.settled()
        guarded.says(SILENCE)
        for _ in range(10):
            await guarded.clock.advance(20)
            assert await guarded.find() == {"broker-a": ORDERLY}

    _guarded(work)


def test_a_storm_of_failures_asks_once_in_five_seconds() -> None:
    async def work(guarded: _Guarded) -> None:
        guarded.says(Late(0.5, _info("broker-a", orderly="false")))
        await passing(
            guarded.clock,
            asyncio.gather(*(guarded.guard.find_hindrances(guarded._route.brokers) for _ in range(500))),  # type: ignore[arg-type]
        )
        assert guarded.asked(Q.GET_CONSUMER_LIST_BY_GROUP) == 2
        # Through one broker only, and those that are concurrent not again for a minute.
        assert guarded.asked(Q.GET_CONSUMER_RUNNING_INFO) == 1
        for _ in range(20):
            await guarded.find()
            await guarded.clock.advance(1)
        assert guarded.asked(Q.GET_CONSUMER_LIST_BY_GROUP) == 2 + 2 * 4
        assert guarded.asked(Q.GET_CONSUMER_RUNNING_INFO) == 1
        await guarded.clock.advance(60)
        await guarded.find()
        assert guarded.asked(Q.GET_CONSUMER_RUNNING_INFO) == 2

    _guarded(work)


def test_whoever_comes_is_looked_at_at_once() -> None:
    async def work(guarded: _Guarded) -> None:
        guarded.group.set_ids(OWN_ID)
        assert await guarded.find() == {}
        guarded.group.set_ids(OWN_ID, JAVA)
        assert await guarded.find() == {}
        # A rebalance hears of it.
        guarded.guard.saw("broker-b", [OWN_ID, JAVA])
        assert set(await guarded.find()) == {"broker-a", "broker-b"}

    _guarded(work)


@pytest.mark.parametrize("reply", [SILENCE, DROP, refused(R.SYSTEM_ERROR, "no consumer for this group, G")])
def test_a_broker_that_names_nobody_hinders_nothing_and_holds_nobody_up(reply: Any) -> None:
    async def work(guarded: _Guarded) -> None:
        await guarded.settled()
        guarded.group.brokers[1].master.table[Q.GET_CONSUMER_LIST_BY_GROUP] = reply
        began_s = guarded.clock.monotonic_s()
        assert "broker-a" in await guarded.find()
        assert guarded.clock.monotonic_s() - began_s <= 3.5

    _guarded(work)


def test_it_says_why() -> None:
    said = explain([("a", SILENT), ("b", ORDERLY)], "G")
    assert said.startswith("Not sent as a new message, because b would make it a dead letter: ")
    assert ": 10.0.0.7@java consumes orderly in group G" in said
    assert "does not report it" in explain([("a", SILENT)], "G")


# With brokers that do as RocketMQ's do


class _Java:
    """A member that consumes orderly and has locked a queue of one broker, until it dies."""

    def __init__(self, peers: list[Peer], broker_name: str) -> None:
        self._peers = peers
        self._answering = asyncio.ensure_future(self._answer(broker_name))

    @classmethod
    async def joins(cls, running: Cluster, broker_name: str) -> _Java:
        peers = {name: await Peer.of_broker(running.sandbox, name) for name in running.sandbox.brokers}
        for peer in peers.values():
            await peer.heartbeat(JAVA, consumer_data(GROUP, subscription(TOPIC), subscription(RETRY)))
        mq = {"topic": TOPIC, "brokerName": broker_name, "queueId": 0}
        body = {"clientId": JAVA, "consumerGroup": GROUP, "mqSet": [mq]}
        await peers[broker_name].ask_ok(Q.LOCK_BATCH_MQ, body)
        return cls(list(peers.values()), broker_name)

    async def _answer(self, broker_name: str) -> None:
        while True:
            for peer in self._peers:
                while peer.pushed:
                    request = peer.pushed.pop(0)
                    if request.code == Q.GET_CONSUMER_RUNNING_INFO:
                        peer.answer(request, _info(broker_name))
            await asyncio.sleep(0)

    async def dies(self) -> None:
        self._answering.cancel()
        await asyncio.gather(self._answering, return_exceptions=True)
        for peer in self._peers:
            await peer.aclose()


def _dead_count(running: Cluster) -> int:
    return sum(broker.store.max_offset(DEAD, 0) for broker in running.sandbox.brokers.values())


def _waiting_counts(running: Cluster) -> dict[str, int]:
    """Return how many messages wait to come again at each broker."""
    return {
        name: sum(broker.store.max_offset("SCHEDULE_TOPIC_XXXX", level) for level in range(18))
        for name, broker in running.sandbox.brokers.items()
    }


@both
def test_7_12_a_retry_waits_here_while_an_orderly_member_lives_and_then_goes(plays: str) -> None:
    async def work(running: Cluster) -> None:
        running.sandbox.faults.answer(Q.CONSUMER_SEND_MSG_BACK, R.SYSTEM_ERROR, count=10_000)
        java = await _Java.joins(running, "broker-a")
        await running.send("bad", queue_id=0)
        await running.send("bad", queue_id=1)  # one of the two is ours
        consumer = await running.started(Seen({"bad": LATER}), force=True, local_retry_limit=2)
        await running.passes(40)
        if plays == "4.9.7":
            assert (_waiting_counts(running), _dead_count(running)) == ({"broker-a": 1}, 0)
            assert consumer.unfinished() == []
        else:
            assert (_waiting_counts(running), _dead_count(running)) == ({"broker-a": 0}, 0)
            assert [each.count for each in consumer.unfinished()] == [1]
            assert any("consumes orderly in group G" in said for said in running.reports)
        await java.dies()
        if plays == "5.4.0":
            await running.passes(90)
            assert _dead_count(running) == 0
            assert sum(_waiting_counts(running).values()) > 0

    scenario(work, plays=plays, queue_count=2)


@both
def test_7_12_it_goes_to_a_broker_without_locks(plays: str) -> None:
    async def work(running: Cluster) -> None:
        running.sandbox.faults.answer(Q.CONSUMER_SEND_MSG_BACK, R.SYSTEM_ERROR, count=10_000)
        java = await _Java.joins(running, "broker-a")
        consumer = await running.started(Seen({"bad": LATER}), force=True)
        await running.passes(30)
        # One broker's queues are ours, whichever sorts so.
        for name in running.sandbox.brokers:
            peer = await Peer.of_broker(running.sandbox, name)
            for number in range(4):
                await send(peer, TOPIC, b"bad", e=number % 2, properties=pairs(UNIQ_KEY=f"{name}-{number}"))
            await peer.aclose()
        await running.passes(5)
        waiting = _waiting_counts(running)
        assert (sum(waiting.values()), _dead_count(running), consumer.unfinished()) == (4, 0, [])
        assert (waiting["broker-a"] == 0) is (plays == "5.4.0")
        await java.dies()

    scenario(work, plays=plays, queue_count=2, brokers=2)


def test_7_12_a_member_that_a_rebalance_saw_leave_is_waited_for() -> None:
    async def work(running: Cluster) -> None:
        running.sandbox.faults.answer(Q.CONSUMER_SEND_MSG_BACK, R.SYSTEM_ERROR, count=10_000)
        peer = await Peer.of_broker(running.sandbox)
        await peer.heartbeat(JAVA, consumer_data(GROUP, subscription(TOPIC), subscription(RETRY)))
        consumer = await running.started(Seen({"bad": LATER}))
        await peer.aclose()
        await running.passes(3)
        await running.send("bad")
        await running.passes(40)
        assert [each.count for each in consumer.unfinished()] == [1]
        await running.passes(40)
        assert (_waiting_counts(running)["broker-a"] > 0, consumer.unfinished()) == (True, [])

    scenario(work, plays="5.4.0")


def test_a_dead_letter_goes_whoever_holds_a_lock() -> None:
    async def work(running: Cluster) -> None:
        running.sandbox.faults.answer(Q.CONSUMER_SEND_MSG_BACK, R.SYSTEM_ERROR, count=10_000)
        java = await _Java.joins(running, "broker-a")
        consumer = await running.started(Seen({"bad": LATER}), force=True, max_reconsume_times=0)
        await running.send("bad", queue_id=0)
        await running.send("bad", queue_id=1)
        await running.passes(5)
        assert (_dead_count(running), consumer.unfinished()) == (1, [])
        await java.dies()

    scenario(work, plays="5.4.0", queue_count=2)
