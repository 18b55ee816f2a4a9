from __future__ import annotations

from rmqctl.consumer.broker_time import BrokerTime
from rmqctl.model.route import BrokerData
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.consumer.group import ScriptedGroup
from tests.scripted_peer import SILENCE, Late, ok, passing, refused

HOUR_MS = 3_600_000


def brokers_of(group: ScriptedGroup) -> list[BrokerData]:
    return [BrokerData("C", broker.name, broker.addresses) for broker in group.brokers]


async def test_without_an_answer_it_is_our_own_time() -> None:
    group = ScriptedGroup()
    async with group.client() as client:
        time = BrokerTime(client)
        assert (time.now_ms(), time.skew()) == (group.clock.now_ms(), None)
        group.brokers[0].master.table[Q.QUERY_CONSUME_TIME_SPAN] = SILENCE
        await passing(group.clock, time.measure(brokers_of(group)))
        assert (time.now_ms(), time.skew()) == (group.clock.now_ms(), None)
        assert "no answer" in time.errors["broker-a"].sentence


async def test_versions_are_the_brokers_time_however_wrong_our_clock_is() -> None:
    group = ScriptedGroup()
    group.brokers[0].skew_ms = -HOUR_MS
    async with group.client() as client:
        time = BrokerTime(client)
        await time.measure(brokers_of(group))
        real_ms = group.clock.now_ms() - HOUR_MS
        assert abs(time.now_ms() - real_ms) <= 1
        skew = time.skew()
        assert skew is not None
        assert skew.low_ms <= -HOUR_MS <= skew.high_ms
        assert skew.exceeds(1000) is True
        await group.clock.advance(100)
        assert abs(time.next_version_ms(0) - (real_ms + 100_000)) <= 1


async def test_an_answer_on_a_slow_way_proves_less() -> None:
    group = ScriptedGroup()
    broker = group.brokers[0]
    broker.master.table[Q.QUERY_CONSUME_TIME_SPAN] = Late(1.0, broker._time)
    async with group.client() as client:
        time = BrokerTime(client)
        await passing(group.clock, time.measure(brokers_of(group)))
        skew = time.skew()
        assert skew is not None
        # The answer was made right before it came.
        assert skew.low_ms <= 0 <= skew.high_ms
        assert skew.high_ms - skew.low_ms >= 1000
        # One quick answer says more than all the slow ones.
        broker.master.table[Q.QUERY_CONSUME_TIME_SPAN] = broker._time
        assert await time.sample(brokers_of(group)[0])
        skew = time.skew()
        assert skew is not None
        assert skew.high_ms - skew.low_ms <= 4
        # And it goes on to do so.
        broker.master.table[Q.QUERY_CONSUME_TIME_SPAN] = Late(1.0, broker._time)
        await passing(group.clock, time.sample(brokers_of(group)[0]))
        assert time.skew() == skew


async def test_setting_our_own_clock_moves_nothing() -> None:
    group = ScriptedGroup()
    async with group.client() as client:
        time = BrokerTime(client)
        await time.measure(brokers_of(group))
        before_ms = time.now_ms()
        group.clock._start_ms += HOUR_MS
        assert time.now_ms() == before_ms
        skew = time.skew()
        assert skew is not None
        assert skew.low_ms <= -HOUR_MS <= skew.high_ms


async def test_of_brokers_that_differ_the_middle_one_counts() -> None:
    group = ScriptedGroup(3)
    for broker, skew_ms in zip(group.brokers, (HOUR_MS, 5, -7), strict=True):
        broker.skew_ms = skew_ms
    async with group.client() as client:
        time = BrokerTime(client)
        await time.measure(brokers_of(group))
        assert abs(time.now_ms() - group.clock.now_ms() - 5) <= 1
        assert abs(time.skews()["broker-a"].middle_ms - HOUR_MS) <= 2
        # Who is gone does not count any more.
        await time.measure(brokers_of(group)[2:])
        assert set(time.skews()) == {"broker-c"}
        assert abs(time.now_ms() - group.clock.now_ms() + 7) <= 1


async def test_one_that_may_not_be_asked_is_not_asked_again() -> None:
    group = ScriptedGroup()
    broker = group.brokers[0]
    broker.master.table[Q.QUERY_CONSUME_TIME_SPAN] = refused(R.NO_PERMISSION, "no permission")
    async with group.client() as client:
        time = BrokerTime(client)
        await time.measure(brokers_of(group))
        assert await time.sample(brokers_of(group)[0]) is False
        assert broker.master.codes() == [Q.QUERY_CONSUME_TIME_SPAN]
        assert "broker-a" in time.errors


async def test_one_that_has_a_message_to_tell_of_tells_no_time_and_one_without_a_master_is_not_asked() -> None:
    group = ScriptedGroup()
    span = b'{"consumeTimeSpanSet":[{"delayTime":5,"messageQueue":{"brokerName":"b","queueId":0,"topic":"T"}}]}'
    group.brokers[0].master.table[Q.QUERY_CONSUME_TIME_SPAN] = ok(span)
    async with group.client() as client:
        time = BrokerTime(client)
        assert await time.sample(brokers_of(group)[0]) is False
        assert await time.sample(BrokerData("C", "broker-b", {1: "slave:1"})) is False
        assert (time.skews(), time.errors) == ({}, {})


async def test_a_version_is_never_older_than_the_one_before() -> None:
    group = ScriptedGroup()
    async with group.client() as client:
        time = BrokerTime(client)
        now_ms = time.now_ms()
        assert time.next_version_ms(now_ms - 5) == now_ms
        assert time.next_version_ms(now_ms) == now_ms + 1
        assert time.next_version_ms(now_ms + HOUR_MS) == now_ms + HOUR_MS + 1
