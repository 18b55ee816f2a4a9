from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rmqctl.client.fresh_routes import FreshRoutes
from rmqctl.consumer.broker_time import BrokerTime
from rmqctl.consumer.membership import Membership
from rmqctl.consumer.routes import Routes
from rmqctl.consumer.rules.subscriptions import make_subscription, retry_subscription
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.consumer.group import OWN_ID, BrokerOfGroup, ScriptedGroup
from tests.scripted_peer import DROP, SILENCE, Late, ok, passing, refused

HOUR_MS = 3_600_000


@asynccontextmanager
async def joining(group: ScriptedGroup) -> AsyncIterator[Membership]:
    """A member that has subscribed and told nobody yet."""
    async with group.client() as client:
        routes, time = Routes(FreshRoutes(client, 30.0)), BrokerTime(client)
        await routes.refresh(["T", "%RETRY%G"])
        await time.measure(routes.brokers())
        membership = Membership(client, ConsumerSettings(group="G"), OWN_ID, routes, time)
        membership.subscribe(make_subscription("T", "TagA"))
        membership.subscribe(retry_subscription("G"))
        client.server_requests.join("G", {}, membership.connected)
        yield membership


@asynccontextmanager
async def running(membership: Membership) -> AsyncIterator[asyncio.Task[None]]:
    """Heartbeats go on."""
    task = asyncio.ensure_future(membership.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def count(broker: BrokerOfGroup, replica: int = 0) -> int:
    return broker.servers[replica].codes().count(Q.HEART_BEAT)


async def test_all_replicas_of_all_brokers_are_told_and_each_says_what_it_heard() -> None:
    group = ScriptedGroup(2, replica_count=2)
    async with joining(group) as membership:
        assert membership.heard() == []
        await membership.beat()
        assert [count(broker, replica) for broker in group.brokers for replica in (0, 1)] == [1, 1, 1, 1]
        heard = {(each.broker_name, each.broker_id): each for each in membership.heard()}
        assert set(heard) == {(name, number) for name in ("broker-a", "broker-b") for number in (0, 1)}
        one = heard["broker-b", 1]
        assert (one.address, one.error, one.version) == ("broker-b-1:1", None, 493)
        assert one.at_ms == group.clock.now_ms()
        (said,) = group.brokers[0].heartbeats()
        assert said["clientID"] == OWN_ID
        (consumer,) = said["consumerDataSet"]
        assert consumer["groupName"] == "G"
        topics = [(item["topic"], item["subString"]) for item in consumer["subscriptionDataSet"]]
        assert topics == [("%RETRY%G", "*"), ("T", "TagA")]


async def test_a_broker_that_hangs_and_one_that_refuses_keep_nobody_from_telling_the_others() -> None:
    group = ScriptedGroup(3)
    hanging, refusing, well = group.brokers
    async with joining(group) as membership:
        hanging.master.table[Q.HEART_BEAT] = SILENCE
        refusing.master.table[Q.HEART_BEAT] = refused(R.SYSTEM_ERROR, "out of luck")
        async with running(membership):
            await group.clock.advance(90)
            # At once, and each 30 s.
            assert count(well) == 4
            heard = {each.broker_name: each for each in membership.heard()}
            assert heard["broker-c"].error is None
            assert "out of luck" in str(heard["broker-b"].error)
            assert "no answer" in str(heard["broker-a"].error)
            assert (heard["broker-a"].at_ms, heard["broker-b"].at_ms) == (None, None)
            # What changes meanwhile is told to those that listen as soon as ever.
            membership.beat_soon()
            await group.clock.await_idle()
            assert count(well) == 5


async def test_an_error_stands_beside_the_time_of_the_last_heartbeat_that_was_taken() -> None:
    group = ScriptedGroup()
    broker = group.brokers[0]
    async with joining(group) as membership:
        await membership.beat()
        at_ms = group.clock.now_ms()
        await group.clock.advance(5)
        broker.master.fail_next(Q.HEART_BEAT, refused(R.SYSTEM_ERROR, "not now"))
        await membership.beat()
        (heard,) = membership.heard()
        assert (heard.at_ms, "not now" in str(heard.error)) == (at_ms, True)
        await membership.beat()
        (heard,) = membership.heard()
        assert (heard.at_ms, heard.error) == (at_ms + 5000, None)


async def test_what_asks_for_a_heartbeat_while_one_is_under_way_is_told_of_by_one_more() -> None:
    group = ScriptedGroup()
    broker = group.brokers[0]
    async with joining(group) as membership:
        broker.master.fail_next(Q.HEART_BEAT, Late(2.0, ok()))
        broker.master.fail_next(Q.HEART_BEAT, Late(2.0, ok()))
        first = asyncio.ensure_future(membership.beat())
        await group.clock.await_idle()
        membership.subscribe(make_subscription("T", "TagB"))
        more = [asyncio.ensure_future(membership.beat()) for _ in range(50)]
        await group.clock.advance(3)
        await first
        # It ended with what it had told, which pulls name no more.
        agreed = membership.subscription("T")
        assert agreed is not None
        assert agreed.expression == "TagB"
        await group.clock.advance(3)
        await asyncio.gather(*more)
        expressions = [
            said["consumerDataSet"][0]["subscriptionDataSet"][1]["subString"] for said in broker.heartbeats()
        ]
        assert expressions == ["TagA", "TagB"]


async def test_a_new_version_is_named_by_pulls_only_once_brokers_were_told() -> None:
    group = ScriptedGroup()
    broker = group.brokers[0]
    async with joining(group) as membership:
        await membership.beat()
        before = membership.subscription("T")
        assert before is not None
        await group.clock.advance(7)
        membership.renew(["T", "Gone"])
        assert membership.subscription("T") == before
        broker.master.fail_next(Q.HEART_BEAT, Late(1.0, ok()))
        beat = asyncio.ensure_future(membership.beat())
        await group.clock.advance(0.9)
        assert membership.subscription("T") == before
        await group.clock.advance(0.1)
        await beat
        after = membership.subscription("T")
        assert after is not None
        assert after.version_ms >= before.version_ms + 7000
        assert (after.expression, after.codes) == (before.expression, before.codes)
        assert broker.versions()[-1] == {"T": after.version_ms, "%RETRY%G": broker.versions()[0]["%RETRY%G"]}


async def test_another_filter_is_named_by_pulls_at_once_so_that_the_old_one_serves_none_of_them() -> None:
    group = ScriptedGroup()
    async with joining(group) as membership:
        await membership.beat()
        before = membership.subscription("T")
        assert before is not None
        membership.subscribe(make_subscription("T", "TagB"))
        after = membership.subscription("T")
        assert after is not None
        assert (after.expression, after.version_ms > before.version_ms) == ("TagB", True)
        membership.unsubscribe("T")
        assert membership.subscription("T") is None
        await membership.beat()
        assert list(group.brokers[0].versions()[-1]) == ["%RETRY%G"]
        assert membership.subscription("T") is None


async def test_versions_come_from_the_brokers_clock() -> None:
    group = ScriptedGroup()
    group.brokers[0].skew_ms = -HOUR_MS
    async with joining(group) as membership:
        await membership.beat()
        (versions,) = group.brokers[0].versions()
        assert abs(versions["T"] - (group.clock.now_ms() - HOUR_MS)) <= 2


async def test_the_brokers_clocks_are_looked_at_with_the_heartbeats() -> None:
    group = ScriptedGroup()
    broker = group.brokers[0]
    async with joining(group) as membership, running(membership):
        before_count = broker.master.codes().count(Q.QUERY_CONSUME_TIME_SPAN)
        await group.clock.advance(60)
        assert broker.master.codes().count(Q.QUERY_CONSUME_TIME_SPAN) == before_count + 2


async def test_a_broker_that_forgot_us_is_told_again_once_a_second_however_many_ask() -> None:
    group = ScriptedGroup(2)
    first, second = group.brokers
    async with joining(group) as membership:
        await membership.beat()
        await group.clock.advance(2)
        await asyncio.gather(*(membership.tell("broker-a") for _ in range(16)))
        await membership.tell("broker-a")
        await membership.tell("nobody")
        assert (count(first), count(second)) == (2, 1)
        await group.clock.advance(1)
        await membership.tell("broker-a")
        assert (count(first), count(second)) == (3, 1)


async def test_a_lost_connection_is_opened_again_by_the_next_heartbeat() -> None:
    group = ScriptedGroup()
    async with joining(group) as membership:
        await membership.beat()
        await group.brokers[0].master.drop()
        await group.clock.await_idle()
        await membership.beat()
        (heard,) = membership.heard()
        assert heard.error is None
        assert count(group.brokers[0]) == 2


async def test_a_broker_is_told_at_once_on_a_new_connection_whatever_opened_it() -> None:
    group = ScriptedGroup(2)
    first, second = group.brokers
    async with joining(group) as membership, running(membership):
        await group.clock.await_idle()
        assert (count(first), count(second)) == (1, 1)
        await first.master.drop()
        await group.clock.advance(1)
        # Such as a pull that is held: it goes on with a new connection, and nobody hears of the old one's end.
        await membership._client.ask(first.master.address, Command(Q.UNREGISTER_CLIENT))
        await group.clock.await_idle()
        assert (count(first), count(second)) == (2, 1)
        # One that a heartbeat opens needs no other one.
        await second.master.drop()
        await group.clock.advance(29)
        assert (count(first), count(second)) == (3, 2)


async def test_who_leaves_says_so_where_it_was_heard_and_tells_of_those_that_did_not_listen() -> None:
    group = ScriptedGroup(3)
    well, gone, never = group.brokers
    never.master.table[Q.HEART_BEAT] = refused(R.SYSTEM_ERROR, "no")
    async with joining(group) as membership:
        async with running(membership):
            await group.clock.await_idle()
        gone.master.table[Q.UNREGISTER_CLIENT] = DROP
        left = await passing(group.clock, membership.leave())
        assert [heard.broker_name for heard in left] == ["broker-b"]
        (request,) = [each for each in well.master.asked if each.code == Q.UNREGISTER_CLIENT]
        assert request.ext_fields == {
            "clientID": OWN_ID, "consumerGroup": "G", "producerGroup": "CLIENT_INNER_PRODUCER"
        }  # fmt: skip
        assert gone.master.codes().count(Q.UNREGISTER_CLIENT) == 1
        assert Q.UNREGISTER_CLIENT not in never.master.codes()
        # Nothing brings it back.
        await membership.beat()
        assert count(well) == 1


async def test_brokers_that_no_route_names_any_more_are_not_told() -> None:
    group = ScriptedGroup(2)
    async with group.client() as client:
        routes = Routes(FreshRoutes(client, 0.0))
        await routes.refresh(["T"])
        membership = Membership(client, ConsumerSettings(group="G"), OWN_ID, routes, BrokerTime(client))
        membership.subscribe(make_subscription("T"))
        await membership.beat()
        second = group.brokers.pop()
        await routes.refresh(["T"])
        await membership.beat()
        assert [heard.broker_name for heard in membership.heard()] == ["broker-a"]
        assert (count(group.brokers[0]), count(second)) == (2, 1)


async def test_a_broker_that_can_not_be_reached_is_told_as_soon_as_it_can() -> None:
    group = ScriptedGroup(2)
    cut, well = group.brokers
    async with joining(group) as membership, running(membership):
        await group.clock.advance(1)
        cut.master.table[Q.HEART_BEAT] = SILENCE
        await group.clock.advance(40)
        before = count(cut)
        cut.master.table[Q.HEART_BEAT] = ok()
        # A second between two attempts, of which each takes 3 s to fail.
        await group.clock.advance(4.1)
        assert count(cut) == before + 1
        assert all(each.error is None for each in membership.heard())
        await group.clock.advance(14)
        # And no oftener than others once it is.
        assert count(cut) == before + 1
        assert count(well) == 2


async def test_a_broker_that_can_not_be_reached_is_told_no_more_once_it_or_we_have_gone() -> None:
    group = ScriptedGroup(3)
    cut, other, _ = group.brokers
    async with group.client() as client:
        routes = Routes(FreshRoutes(client, 0.0))
        await routes.refresh(["T"])
        membership = Membership(client, ConsumerSettings(group="G"), OWN_ID, routes, BrokerTime(client))
        membership.subscribe(make_subscription("T"))
        await membership.beat()
        cut.master.table[Q.HEART_BEAT] = other.master.table[Q.HEART_BEAT] = SILENCE
        await passing(group.clock, membership.beat())
        await group.clock.advance(10)
        before = (count(cut), count(other))
        assert min(before) >= 4
        group.brokers.pop(0)
        await routes.refresh(["T"])
        await passing(group.clock, membership.beat())
        await group.clock.advance(20)
        assert count(cut) <= before[0] + 1
        assert count(other) >= before[1] + 4
        before = (count(cut), count(other))
        await membership.leave()
        await group.clock.advance(20)
        assert (count(cut), count(other)) == before
