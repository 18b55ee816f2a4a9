"""The rebalance of one client; details 7.1 to 7.3 of the mission by number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rmqctl.client.fresh_routes import FreshRoutes
from rmqctl.consumer.broker_time import BrokerTime
from rmqctl.consumer.membership import Membership
from rmqctl.consumer.rebalance import Rebalance
from rmqctl.consumer.reports.problems import Problems
from rmqctl.consumer.routes import Routes
from rmqctl.consumer.rules.rebalance import UnchangedReason
from rmqctl.consumer.rules.subscriptions import make_subscription, retry_subscription
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.errors import UnreachableError
from rmqctl.model.group import BROADCASTING
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.net.clock import Clock, pause
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.rules.allocate import Allocate, AllocationError, Options, find_strategy
from rmqctl.rules.allocate.base import Assignment
from tests.consumer.group import OWN_ID, ScriptedGroup
from tests.scripted_peer import SILENCE, ok, passing, run

AVERAGELY = find_strategy("averagely").allocate
RETRY = MessageQueue("%RETRY%G", "broker-a", 0)


class Holder:
    """Holds queues. `refuse` says what can't be had, `failing` what raises, `busy` what can't be given up yet."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.queues: dict[MessageQueue, int] = {}
        self.refuse: set[MessageQueue] = set()
        self.failing: set[MessageQueue] = set()
        self.busy: set[MessageQueue] = set()
        self.taken: list[MessageQueue] = []
        self.dropped: list[MessageQueue] = []
        self.take_s = 0.0
        # Queues that another member has locked, and what is said of it.
        self.locked: dict[MessageQueue, str | None] = {}

    def held(self) -> dict[MessageQueue, float]:
        return {mq: (self.clock.now_ms() - at_ms) / 1000 for mq, at_ms in self.queues.items()}

    async def claim(self, mqs: Collection[MessageQueue]) -> Mapping[MessageQueue, str | None]:
        return {mq: reason for mq, reason in self.locked.items() if mq in mqs}

    async def take(self, mq: MessageQueue) -> bool:
        if self.take_s:
            await pause(self.clock, self.take_s)
        if mq in self.failing:
            raise UnreachableError("broker-a-0:1", "the offset can't be read")
        if mq in self.refuse:
            return False
        self.taken.append(mq)
        self.queues[mq] = self.clock.now_ms()
        return True

    async def drop(self, mq: MessageQueue) -> bool:
        if mq in self.busy:
            return False
        self.dropped.append(mq)
        del self.queues[mq]
        return True

    def announce(self) -> None:
        pass

    async def revoke(self, mqs: Sequence[MessageQueue]) -> None:
        pass

    def ids(self, topic: str = "T", broker_name: str = "broker-a") -> list[int]:
        return sorted(mq.queue_id for mq in self.queues if mq[:2] == (topic, broker_name))


class Bench:
    """A client that has heartbeated, ready to rebalance."""

    def __init__(self, group: ScriptedGroup, membership: Membership, rebalance: Rebalance, holder: Holder) -> None:
        self.group, self.membership, self.rebalance, self.holder = group, membership, rebalance, holder

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = [asyncio.ensure_future(self.membership.run()), asyncio.ensure_future(self.rebalance.run())]
        try:
            await self.group.clock.await_idle()
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def in_order(_: list[BrokerData]) -> None:
    """Ask brokers as the route names them."""


@asynccontextmanager
async def ready(
    group: ScriptedGroup,
    *,
    topics: Sequence[str] = ("T",),
    allocate: Allocate = AVERAGELY,
    settings: ConsumerSettings | None = None,
    shuffle: Callable[[list[BrokerData]], object] = in_order,
    **told: Any,
) -> AsyncIterator[Bench]:
    settings = settings or ConsumerSettings(group="G")
    async with group.client() as client:
        routes, time = Routes(FreshRoutes(client, settings.route_refresh_s)), BrokerTime(client)
        await routes.refresh(topics)
        await time.measure(routes.brokers())
        membership = Membership(client, settings, OWN_ID, routes, time)
        for topic in topics:
            membership.subscribe(make_subscription(topic))
        await membership.beat()
        holder = Holder(group.clock)
        rebalance = Rebalance(client, settings, membership, routes, allocate, holder, shuffle=shuffle, **told)
        yield Bench(group, membership, rebalance, holder)


def asked_ids(group: ScriptedGroup) -> list[str]:
    """Return the brokers that were asked for members, sorted."""
    return [broker.name for broker in group.brokers for code in broker.master.codes() if code == 38]


def test_8_queues_of_3_clients_are_shared_3_3_2_detail_7_1() -> None:
    async def scenario(ids: Sequence[str]) -> list[int]:
        group = ScriptedGroup()
        group.set_ids(*ids)
        async with ready(group) as bench:
            assert await bench.rebalance.round() is True
            return bench.holder.ids()

    assert run(scenario([OWN_ID, "c2", "c3"])) == [0, 1, 2]
    # Listed in any order; this client is the second, and the third.
    assert run(scenario(["z", OWN_ID, "a"])) == [3, 4, 5]
    assert run(scenario(["b", OWN_ID, "a"])) == [6, 7]


async def test_the_members_are_asked_of_one_broker_of_the_topic_at_random_detail_7_2() -> None:
    group = ScriptedGroup(3)
    views = {"broker-a": [OWN_ID], "broker-b": [OWN_ID, "c2"], "broker-c": [OWN_ID, "c2", "c3"]}
    for broker in group.brokers:
        broker.ids = views[broker.name]
    async with ready(group, shuffle=list[BrokerData].reverse) as bench:
        await bench.rebalance.round()
        assert asked_ids(group) == ["broker-c"]
        outcome = bench.rebalance.outcomes["T"]
        assert (outcome.asked, outcome.client_ids) == ("broker-c", (OWN_ID, "c2", "c3"))
        assert len(bench.holder.queues) == 8
    seen = set()
    async with ready(group) as bench:
        bench.rebalance = Rebalance(
            bench.rebalance._client, ConsumerSettings(group="G"), bench.membership, bench.rebalance._routes,
            AVERAGELY, bench.holder,
        )  # fmt: skip
        for _ in range(200):
            await bench.rebalance.round()
            seen.add(bench.rebalance.outcomes["T"].asked)
            if len(seen) == 3:
                break
    assert seen == {"broker-a", "broker-b", "broker-c"}


async def test_another_broker_is_asked_where_the_first_one_fails() -> None:
    group = ScriptedGroup(2)
    group.set_ids(OWN_ID)
    group.brokers[0].master.table[Q.GET_CONSUMER_LIST_BY_GROUP] = SILENCE
    async with ready(group) as bench:
        await passing(group.clock, bench.rebalance.round())
        assert bench.rebalance.outcomes["T"].asked == "broker-b"
        assert len(bench.holder.queues) == 16


@pytest.mark.parametrize("fault", ["no members", "empty list", "no answer", "no queues"])
async def test_an_empty_list_and_a_failure_keep_the_old_share_detail_7_3(fault: str) -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID, "c2")
    master = group.brokers[0].master
    async with ready(group, settings=ConsumerSettings(group="G", route_refresh_s=0)) as bench:
        await bench.rebalance.round()
        if fault == "no members":
            group.set_ids()
        elif fault == "empty list":
            master.table[Q.GET_CONSUMER_LIST_BY_GROUP] = ok(b'{"consumerIdList":[]}')
        elif fault == "no answer":
            master.table[Q.GET_CONSUMER_LIST_BY_GROUP] = SILENCE
        else:
            group.topics["T"] = 0
        assert await passing(group.clock, bench.rebalance.round()) is False
        assert bench.holder.ids() == [0, 1, 2, 3]
        expected = UnchangedReason.NO_QUEUES if fault == "no queues" else UnchangedReason.NO_CLIENTS
        assert bench.rebalance.outcomes["T"].share.kept is expected
        assert bench.holder.dropped == []


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("no members", "T keeps its queues, because the members are unknown"),
        ("no queues", "T keeps its queues, because its route has no readable queues"),
        ("strategy", "T keeps its queues, because the strategy failed: No room is named."),
    ],
)
async def test_what_keeps_the_old_share_is_reported_while_it_lasts_and_is_over_only_then(fault: str, says: str) -> None:
    told: list[str] = []
    is_failing = False

    def allocate(queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> Assignment:
        if is_failing:
            raise AllocationError("No room is named.")
        return AVERAGELY(queues, client_ids)

    async def rounds() -> list[str]:
        """Return what two rounds report, and the time after them."""
        for _ in range(2):
            await passing(group.clock, bench.rebalance.round())
        await group.clock.advance(6)
        problems.look()
        new = told.copy()
        told.clear()
        return new

    group = ScriptedGroup()
    group.set_ids(OWN_ID)
    queue_count = group.topics["T"]
    problems = Problems(lambda problem: told.append(problem.sentence), group.clock)
    settings = ConsumerSettings(group="G", route_refresh_s=0)
    async with ready(group, settings=settings, allocate=allocate, problems=problems) as bench:
        assert await rounds() == []
        is_failing = fault == "strategy"
        if fault == "no members":
            group.set_ids()
        elif fault == "no queues":
            group.topics["T"] = 0
        (said,) = await rounds()
        assert said.startswith(says)
        # Another reason hides whether the first one is over.
        is_failing = False
        group.topics["T"] = 0
        assert not any(" again after " in sentence for sentence in await rounds())
        group.set_ids(OWN_ID)
        group.topics["T"] = queue_count
        over = await rounds()
        assert over
        assert all(" again after " in sentence for sentence in over)


def test_a_strategy_that_fails_keeps_the_old_share_detail_7_3() -> None:
    failing = False

    def allocate(queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> Assignment:
        if failing:
            raise AllocationError("No room is named.")
        return AVERAGELY(queues, client_ids)

    async def scenario() -> None:
        nonlocal failing
        group = ScriptedGroup()
        group.set_ids(OWN_ID)
        async with ready(group, allocate=allocate) as bench:
            await bench.rebalance.round()
            failing = True
            group.set_ids(OWN_ID, "c2")
            await bench.rebalance.round()
            assert bench.holder.ids() == list(range(8))
            assert bench.rebalance.outcomes["T"].share.detail == "No room is named."
            failing = False
            await bench.rebalance.round()
            assert bench.holder.ids() == [0, 1, 2, 3]

    run(scenario())


def test_a_strategy_that_fails_is_told_of_once_and_again_when_it_fails_anew_detail_7_3() -> None:
    failing: str | None = None
    told: list[str] = []

    def allocate(queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> Assignment:
        if failing is not None:
            raise AllocationError(failing)
        return AVERAGELY(queues, client_ids)

    async def scenario() -> None:
        nonlocal failing
        group = ScriptedGroup()
        group.set_ids(OWN_ID)
        problems = Problems(lambda problem: told.append(problem.sentence), group.clock)
        async with ready(group, allocate=allocate, problems=problems) as bench, bench.running():
            for reason in ("No room is named.", None, "Another reason."):
                failing = reason
                await group.clock.advance(50)
                problems.look()
            assert bench.holder.ids() == list(range(8))

    run(scenario())
    assert [sentence.partition(" after ")[0] for sentence in told] == [
        "T keeps its queues, because the strategy failed: No room is named.",
        "The strategy works again",
        "T keeps its queues, because the strategy failed: Another reason.",
    ]


async def test_of_what_a_strategy_gives_only_queues_of_the_topic_are_taken() -> None:
    """By configuration RocketMQ's class gives the queues of all topics for each of them, whether or not they exist."""
    configured = [MessageQueue("T", "broker-a", 3), RETRY, MessageQueue("T", "broker-a", 99)]

    group = ScriptedGroup()
    group.set_ids(OWN_ID, "c2")
    by_config = find_strategy("config", Options(configured=configured)).allocate
    async with ready(group, topics=["T", "%RETRY%G"], allocate=by_config) as bench:
        assert await bench.rebalance.round() is True
        assert sorted(bench.holder.taken) == sorted([RETRY, configured[0]])
        assert await bench.rebalance.round() is True
        assert len(bench.holder.taken) == 2


def test_whom_a_broker_lists_is_passed_on() -> None:
    seen: list[tuple[str, tuple[str, ...]]] = []

    async def scenario() -> None:
        group = ScriptedGroup()
        group.set_ids(OWN_ID, "c2")
        async with ready(group, on_ids=lambda name, ids: seen.append((name, tuple(ids)))) as bench:
            await bench.rebalance.round()

    run(scenario())
    assert seen == [("broker-a", (OWN_ID, "c2"))]


async def test_a_topic_that_fails_does_not_stop_the_others_detail_7_3() -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID)
    async with ready(group, topics=["Missing", "T"]) as bench:
        assert await bench.rebalance.round() is False
        assert bench.holder.ids() == list(range(8))
        missing = bench.rebalance.outcomes["Missing"]
        assert (missing.share.kept, missing.is_settled) == (UnchangedReason.NO_ROUTE, False)
        assert "Missing does not exist" in str(missing.share.detail)


async def test_a_queue_that_is_refused_or_fails_is_skipped_alone_and_tried_again_detail_7_3() -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID)
    async with ready(group) as bench:
        holder = bench.holder
        locked, broken = MessageQueue("T", "broker-a", 2), MessageQueue("T", "broker-a", 5)
        holder.refuse, holder.failing = {locked}, {broken}
        assert await bench.rebalance.round() is False
        assert holder.ids() == [0, 1, 3, 4, 6, 7]
        refused = bench.rebalance.outcomes["T"].refused
        assert refused[locked] == "NOT_NOW"
        assert "the offset can't be read" in refused[broken]
        holder.refuse, holder.failing = set(), set()
        assert await bench.rebalance.round() is True
        assert holder.ids() == list(range(8))
        assert (len(holder.taken), bench.rebalance.outcomes["T"].refused) == (8, {})


async def test_queues_of_a_topic_that_is_no_longer_subscribed_are_dropped_detail_7_3() -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID)
    async with ready(group, topics=["T", "%RETRY%G"]) as bench:
        await bench.rebalance.round()
        bench.membership.unsubscribe("T")
        bench.holder.busy = {MessageQueue("T", "broker-a", 4)}
        assert await bench.rebalance.round() is False
        assert set(bench.holder.queues) == {RETRY, *bench.holder.busy}
        bench.holder.busy = set()
        assert await bench.rebalance.round() is True
        assert set(bench.holder.queues) == {RETRY}
        assert set(bench.rebalance.outcomes) == {"%RETRY%G"}


async def test_the_interval_is_settable_and_a_wake_comes_at_once_but_never_closer_than_the_least_detail_7_3() -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID)
    settings = ConsumerSettings(group="G", rebalance_s=7.0, rebalance_min_s=1.0)
    async with ready(group, settings=settings) as bench, bench.running():
        assert len(asked_ids(group)) == 1
        await group.clock.advance(6.9)
        assert len(asked_ids(group)) == 1
        await group.clock.advance(0.1)
        assert len(asked_ids(group)) == 2
        await group.clock.advance(3)
        bench.rebalance.wake()
        await group.clock.await_idle()
        assert len(asked_ids(group)) == 3
        # A flood of notifications makes one rebalance a second.
        for _ in range(30):
            bench.rebalance.wake()
            await group.clock.advance(0.1)
        # The last of them is served as well, and then it is quiet again.
        await group.clock.advance(0.5)
        assert len(asked_ids(group)) == 6
        await group.clock.advance(6)
        assert len(asked_ids(group)) == 6


async def test_what_was_notified_during_a_round_is_not_lost() -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID)
    async with ready(group) as bench:
        bench.holder.take_s = 4.0
        async with bench.running():
            await group.clock.advance(2)
            group.set_ids(OWN_ID, "c2")
            bench.rebalance.wake()
            await group.clock.advance(2)
            assert bench.holder.ids() == [0, 1, 2, 3]


async def test_a_round_that_leaves_something_undone_is_repeated_soon_and_ever_more_rarely() -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID)
    del group.topics["%RETRY%G"]
    async with ready(group, topics=["T", "%RETRY%G"]) as bench, bench.running():
        times = []
        for second in range(60):
            if len(asked_ids(group)) > len(times):
                times.append(second)
            await group.clock.advance(1)
        assert times == [0, 1, 3, 7, 15, 31, 51]
        # What wakes it begins anew, in 1 s.
        bench.rebalance.wake()
        await group.clock.advance(0.5)
        group.topics["%RETRY%G"] = 1
        await group.clock.advance(1)
        assert RETRY in bench.holder.queues


async def test_a_change_of_queues_gives_their_topic_a_new_version_and_tells_brokers() -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID)
    async with ready(group, topics=["T", "%RETRY%G"]) as bench, bench.running():
        await group.clock.advance(29)
        before = group.brokers[0].versions()[-1]
        group.set_ids(OWN_ID, "c2")
        bench.rebalance.wake()
        await group.clock.await_idle()
        after = group.brokers[0].versions()[-1]
        # The retry topic's only queue stays where it was.
        assert after["%RETRY%G"] == before["%RETRY%G"]
        assert abs(after["T"] - group.clock.now_ms()) <= 2
        assert after["T"] > before["T"]
        told = len(group.brokers[0].versions())
        bench.rebalance.wake()
        await group.clock.advance(0.5)
        assert len(group.brokers[0].versions()) == told


async def test_a_client_that_a_broker_has_lost_gives_its_queues_up_and_says_that_it_is_there() -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID, "c2")
    async with ready(group) as bench, bench.running():
        told = len(group.brokers[0].heartbeats())
        group.set_ids("c2")
        bench.rebalance.wake()
        await group.clock.advance(1)
        assert bench.holder.ids() == []
        assert bench.rebalance.outcomes["T"].share.kept is None
        assert len(group.brokers[0].heartbeats()) > told
        # Also where it has nothing to give up.
        told = len(group.brokers[0].heartbeats())
        bench.rebalance.wake()
        await group.clock.advance(1)
        assert len(group.brokers[0].heartbeats()) == told + 1


async def test_a_broker_that_knows_nobody_is_told_and_nothing_moves() -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID, "c2")
    async with ready(group) as bench, bench.running():
        told = len(group.brokers[0].heartbeats())
        group.set_ids()
        bench.rebalance.wake()
        await group.clock.advance(1)
        assert bench.holder.ids() == [0, 1, 2, 3]
        assert len(group.brokers[0].heartbeats()) > told


async def test_a_queue_of_which_nothing_was_heard_is_dropped_and_taken_anew() -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID)
    async with ready(group) as bench:
        await bench.rebalance.round()
        await group.clock.advance(120)
        dead = MessageQueue("T", "broker-a", 3)
        for mq in bench.holder.queues:
            bench.holder.queues[mq] = group.clock.now_ms() - 120_000 - (mq == dead)
        await bench.rebalance.round()
        assert (bench.holder.dropped, bench.holder.taken[-1]) == ([dead], dead)
        assert bench.holder.queues[dead] == group.clock.now_ms()


async def test_a_queue_that_can_not_be_given_up_yet_is_not_taken_anew_and_tried_again() -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID)
    async with ready(group) as bench:
        await bench.rebalance.round()
        dead, lost = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 7)
        bench.holder.queues[dead] -= 120_001
        bench.holder.busy = {dead, lost}
        group.set_ids(OWN_ID, "c2")
        assert await bench.rebalance.round() is False
        assert bench.holder.ids() == [0, 1, 2, 3, 7]
        assert set(bench.rebalance.outcomes["T"].refused) == {dead, lost}
        assert len(bench.holder.taken) == 8


async def test_a_broadcasting_client_takes_all_queues_and_asks_nobody() -> None:
    group = ScriptedGroup(2)
    settings = ConsumerSettings(group="G", message_model=BROADCASTING)
    async with ready(group, settings=settings) as bench:
        assert await bench.rebalance.round() is True
        assert len(bench.holder.queues) == 16
        assert asked_ids(group) == []


async def test_with_protection_a_newcomer_moves_nothing_until_it_has_stayed_and_then_it_does_at_once() -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID)
    settings = ConsumerSettings(group="G", protect_s=65.0)
    async with ready(group, settings=settings) as bench, bench.running():
        # Nobody else is there to share with, so it needs not wait for itself.
        assert bench.holder.ids() == list(range(8))
        await group.clock.advance(5)
        group.set_ids(OWN_ID, "c2")
        bench.rebalance.wake()
        await group.clock.advance(60)
        assert bench.holder.ids() == list(range(8))
        assert bench.rebalance.outcomes["T"].client_ids == (OWN_ID, "c2")
        assert bench.rebalance.outcomes["T"].counted_ids == (OWN_ID,)
        await group.clock.advance(4.9)
        assert bench.holder.ids() == list(range(8))
        await group.clock.advance(0.2)
        assert bench.holder.ids() == [0, 1, 2, 3]


async def test_with_protection_clients_count_from_the_notification_even_just_after_another_one() -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID)
    settings = ConsumerSettings(group="G", protect_s=65.0)
    async with ready(group, settings=settings) as bench, bench.running():
        await group.clock.advance(5)
        for ids in ((OWN_ID, "c2"), (OWN_ID, "c2", "c3")):
            group.set_ids(*ids)
            bench.rebalance.wake()
            await group.clock.advance(0.4)
        await group.clock.advance(63.9)
        counts = []
        for _ in range(4):
            await group.clock.advance(0.2)
            counts.append(len(bench.holder.ids()))
        assert counts == [8, 4, 4, 3]


async def test_with_protection_a_client_is_missing_only_if_no_other_broker_lists_it() -> None:
    group = ScriptedGroup(2)
    group.set_ids(OWN_ID, "c2")
    settings = ConsumerSettings(group="G", protect_s=30.0)
    async with ready(group, settings=settings) as bench, bench.running():
        await group.clock.advance(35)
        half = bench.holder.ids()
        # A broker that has restarted; the client asks it first.
        group.brokers[0].ids = [OWN_ID]
        bench.rebalance.wake()
        await group.clock.advance(2)
        assert bench.holder.ids() == half
        assert bench.rebalance.outcomes["T"].counted_ids == (OWN_ID, "c2")
        group.brokers[1].ids = [OWN_ID]
        bench.rebalance.wake()
        await group.clock.advance(2)
        assert bench.rebalance.outcomes["T"].counted_ids == (OWN_ID,)


async def test_with_protection_a_client_that_flaps_never_counts() -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID)
    settings = ConsumerSettings(group="G", protect_s=30.0, pull_expired_s=1000.0)
    async with ready(group, settings=settings) as bench, bench.running():
        await group.clock.advance(40)
        for _ in range(10):
            for ids in ((OWN_ID, "flapping"), (OWN_ID,)):
                group.set_ids(*ids)
                bench.rebalance.wake()
                await group.clock.advance(15)
        assert bench.holder.dropped == []


def test_an_id_over_two_connections_counts_twice_as_in_rocketmq_but_once_with_protection() -> None:
    async def scenario(protect_s: float) -> list[int]:
        group = ScriptedGroup()
        group.set_ids("b", "b", OWN_ID)
        settings = ConsumerSettings(group="G", protect_s=protect_s)
        async with ready(group, settings=settings) as bench, bench.running():
            await group.clock.advance(30)
            return bench.holder.ids()

    assert run(scenario(0)) == [6, 7]
    assert run(scenario(20)) == [4, 5, 6, 7]


@pytest.mark.parametrize(("by_place", "taken"), [(False, [0, 1, 2]), (True, [0, 1, 2, 3])])
async def test_who_is_listed_twice_counts_itself_once_where_places_decide(*, by_place: bool, taken: list[int]) -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID, OWN_ID, "z")
    async with ready(group, by_place=by_place) as bench:
        await bench.rebalance.round()
        assert bench.holder.ids() == taken


async def test_the_retry_topic_is_shared_like_any_other() -> None:
    group = ScriptedGroup()
    group.set_ids(OWN_ID, "c2")
    async with ready(group, topics=["T"]) as bench:
        bench.membership.subscribe(retry_subscription("G"))
        await bench.rebalance.round()
        assert RETRY in bench.holder.queues
