"""What was popped and not acknowledged comes back: when, how often, as what, and over restarts."""

from __future__ import annotations

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.pop.check_points import CheckPoint, CheckPoints
from rmqctl.sandbox.request import RefusalError
from rmqctl.sandbox.storage.state import StateStore
from tests.sandbox.peer import Peer
from tests.sandbox.pop.test_pop import ACK, POP, acknowledge, bodies, change, messages, pop_fields, send, stored_offset

RETRY = "%RETRY%G_T"


async def test_a_message_comes_back_when_its_time_is_over_with_all_that_real_brokers_tell() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        await send(peer, "x", tags="TagA", queue_id=3)
        popped = await peer.ask_ok(POP, **pop_fields(sandbox, invisibleTime=30_000))
        waiting = peer.start(POP, **pop_fields(sandbox, invisibleTime=30_000, pollTime=60_000))
        await sandbox.advance(29.9)
        assert not waiting.done()
        await sandbox.advance(0.1)
        answer = waiting.result()
        (message,) = messages(answer)
        assert (message.topic, message.queue_id, message.reconsume_times) == ("T", 0, 1)
        assert message.born_at_ms == 1
        assert message.born_host == message.store_host
        assert message.properties["1ST_POP_TIME"] == popped.ext_fields["popTime"]
        assert message.properties["ORIGIN_GROUP"] == "G"
        assert message.properties["TAGS"] == "TagA"
        assert answer.ext_fields["msgOffsetInfo"] == "1 0 0"
        fields = answer.ext_fields
        own = message.properties["POP_CK"]
        assert own == f"0 {fields['popTime']} 30000 {fields['reviveQid']} 1 broker-a 0 0"
        assert broker.topics.topics[RETRY].read_queue_count == 1
        assert await stored_offset(peer, topic=RETRY) == "1"
        # Its handle is for the retry topic.
        await peer.ask_ok(ACK, consumerGroup="G", topic=RETRY, queueId=0, offset=0, extraInfo=own)
        assert len(broker.pop.check_points) == 0
        await peer.aclose()


async def test_a_message_comes_back_again_and_again_through_one_retry_topic() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "x")
        first = await peer.ask_ok(POP, **pop_fields(sandbox, invisibleTime=10_000))
        for count in range(1, 5):
            await sandbox.advance(10)
            answer = await peer.ask_ok(POP, **pop_fields(sandbox, invisibleTime=10_000))
            (message,) = messages(answer)
            assert message.reconsume_times == count
            assert message.properties["1ST_POP_TIME"] == first.ext_fields["popTime"]
        await peer.aclose()


async def test_only_what_is_not_acknowledged_comes_back_and_late_acknowledgements_change_nothing() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, points = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"].pop.check_points
        await send(peer, *"abc")
        popped = await peer.ask_ok(POP, **pop_fields(sandbox))
        await acknowledge(peer, popped, 0, 1)
        await acknowledge(peer, popped, 0, 1, group="Other")
        assert points.in_flight_count("G", "T") == 2
        await sandbox.advance(60)
        answer = await peer.ask_ok(POP, **pop_fields(sandbox))
        assert bodies(answer) == ["a", "c"]
        late = await acknowledge(peer, popped, 0, 0)
        assert late.code == ResponseCode.SUCCESS
        assert points.in_flight_count("G", RETRY) == 2
        await peer.aclose()


async def test_a_changed_time_counts_from_the_change_and_the_old_handle_is_dead() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, points = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"].pop.check_points
        await send(peer, *"ab")
        popped = await peer.ask_ok(POP, **pop_fields(sandbox, invisibleTime=10_000))
        await acknowledge(peer, popped, 0, 1)
        # Within the ms of the pop: the new handle is another one all the same.
        changed = await change(peer, popped, 0, 40_000)
        await acknowledge(peer, popped, 0, 0)
        assert points.in_flight_count("G", "T") == 1
        await sandbox.advance(39)
        assert (await peer.ask(POP, **pop_fields(sandbox))).code == ResponseCode.POLLING_TIMEOUT
        await sandbox.advance(2)
        assert bodies(await peer.ask_ok(POP, **pop_fields(sandbox))) == ["a"]
        assert changed.ext_fields["invisibleTime"] == "40000"
        await peer.aclose()


async def test_the_new_handle_acknowledges_a_message_whose_time_was_changed() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, points = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"].pop.check_points
        await send(peer, "a")
        popped = await peer.ask_ok(POP, **pop_fields(sandbox))
        await sandbox.advance(1)
        times = (await change(peer, popped, 0, 40_000)).ext_fields
        text = f"0 {times['popTime']} {times['invisibleTime']} {times['reviveQid']} 0 broker-a 0 0"
        await peer.ask_ok(ACK, consumerGroup="G", topic="T", queueId=0, offset=0, extraInfo=text)
        assert len(points) == 0
        await peer.aclose()


@pytest.mark.parametrize("lose_unflushed", [False, True])
async def test_what_was_out_before_a_restart_comes_back_after_it(lose_unflushed: bool) -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker, peer = sandbox.brokers["broker-a"], await Peer.of_broker(sandbox)
        await send(peer, *"abc")
        popped = await peer.ask_ok(POP, **pop_fields(sandbox))
        await acknowledge(peer, popped, 0, 0)
        await sandbox.advance(10)
        await broker.restart(lose_unflushed=lose_unflushed)
        peer = await Peer.of_broker(sandbox)
        late = await acknowledge(peer, popped, 0, 1)
        assert late.code == ResponseCode.SUCCESS
        assert (await peer.ask(POP, **pop_fields(sandbox))).code == ResponseCode.POLLING_TIMEOUT
        await sandbox.advance(50)
        assert bodies(await peer.ask_ok(POP, **pop_fields(sandbox))) == ["c"]
        await peer.aclose()


async def test_what_fell_due_while_the_broker_was_away_is_there_when_it_is_back() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker, peer = sandbox.brokers["broker-a"], await Peer.of_broker(sandbox)
        await send(peer, "a")
        await peer.ask_ok(POP, **pop_fields(sandbox))
        await broker.stop()
        await sandbox.advance(7200)
        await broker.resume()
        await sandbox.advance(0)
        peer = await Peer.of_broker(sandbox)
        assert bodies(await peer.ask_ok(POP, **pop_fields(sandbox))) == ["a"]
        await peer.aclose()


async def test_a_power_cut_right_after_a_pop_gives_the_messages_out_once_more() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker, peer = sandbox.brokers["broker-a"], await Peer.of_broker(sandbox)
        await send(peer, "a")
        await sandbox.advance(10)
        await peer.ask_ok(POP, **pop_fields(sandbox))
        await broker.restart(lose_unflushed=True)
        peer = await Peer.of_broker(sandbox)
        assert bodies(await peer.ask_ok(POP, **pop_fields(sandbox))) == ["a"]
        await peer.aclose()


async def test_nothing_comes_back_for_a_topic_or_group_that_is_gone() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker, peer = sandbox.brokers["broker-a"], await Peer.of_broker(sandbox)
        for topic, group in (("T", "G"), ("U", "H")):
            await send(peer, "a", topic=topic)
            await peer.ask_ok(POP, **pop_fields(sandbox, topic=topic, group=group))
        broker.topics.delete("T")
        broker.groups.delete("H")
        await sandbox.advance(60)
        assert len(broker.pop.check_points) == 0
        assert not [name for name in broker.topics.topics if name.startswith("%RETRY%")]
        await peer.aclose()


async def test_a_message_that_was_delayed_is_delayed_again_when_it_comes_back() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "a", delay=3)  # 10 s
        await sandbox.advance(10)
        assert bodies(await peer.ask_ok(POP, **pop_fields(sandbox, invisibleTime=20_000))) == ["a"]
        await sandbox.advance(29)
        assert (await peer.ask(POP, **pop_fields(sandbox))).code == ResponseCode.POLLING_TIMEOUT
        await sandbox.advance(1)
        assert bodies(await peer.ask_ok(POP, **pop_fields(sandbox))) == ["a"]
        await peer.aclose()


async def test_every_fifth_pop_reads_the_retry_topic_first() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, *"0123456789")
        await peer.ask_ok(POP, **pop_fields(sandbox, invisibleTime=1000))
        await sandbox.advance(1)
        await send(peer, *"abcdefghij")
        seen = [bodies(await peer.ask_ok(POP, **pop_fields(sandbox, maxMsgNums=1)))[0] for _ in range(10)]
        assert "".join(seen) == "abc0defg1h"
        await peer.aclose()


async def test_the_second_naming_of_retry_topics_reads_the_first_as_well() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker, peer = sandbox.brokers["broker-a"], await Peer.of_broker(sandbox)
        await send(peer, "old")
        await peer.ask_ok(POP, **pop_fields(sandbox, invisibleTime=1000))
        await sandbox.advance(1)
        broker.settings.update({"enableRetryTopicV2": "true"})
        await send(peer, "new")
        answer = await peer.ask_ok(POP, **pop_fields(sandbox, invisibleTime=1000, queueId=0))
        assert sorted(bodies(answer)) == ["new", "old"]
        await sandbox.advance(1)
        flags = []
        for _ in range(2):
            answer = await peer.ask_ok(POP, **pop_fields(sandbox))
            flags.append(answer.ext_fields["msgOffsetInfo"])
        assert sorted(flags) == ["1 0 1", "2 0 0"]
        assert "%RETRY%G+T" in broker.topics.topics
        await peer.aclose()


async def test_check_points_are_written_once_a_pop_and_gone_when_all_is_acknowledged() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker, peer = sandbox.brokers["broker-a"], await Peer.of_broker(sandbox)
        await send(peer, *"ab")
        popped = await peer.ask_ok(POP, **pop_fields(sandbox))
        (before,) = broker.state.load("pop_check_points").values()
        await acknowledge(peer, popped, 0, 0)
        assert list(broker.state.load("pop_check_points").values()) == [before]
        await sandbox.advance(5)
        (after,) = broker.state.load("pop_check_points").values()
        assert after != before
        await acknowledge(peer, popped, 0, 1)
        assert broker.state.load("pop_check_points") == {}
        await peer.aclose()


async def test_the_brokers_clock_decides_when_messages_come_back() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker, peer = sandbox.brokers["broker-a"], await Peer.of_broker(sandbox)
        await send(peer, "a")
        await peer.ask_ok(POP, **pop_fields(sandbox))
        broker.skew_ms = 59_000
        await sandbox.advance(1)
        fields = pop_fields(sandbox, bornTime=broker.now_ms())
        assert bodies(await peer.ask_ok(POP, **fields)) == ["a"]
        await peer.aclose()


async def test_consume_stats_count_what_is_out_as_consumed() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "a", queue_count=1)
        await peer.ask_ok(POP, **pop_fields(sandbox))
        answer = await peer.ask_json(RequestCode.GET_CONSUME_STATS, consumerGroup="G", topic="T")
        ((_, item),) = answer["offsetTable"].items()
        assert (item["brokerOffset"], item["consumerOffset"]) == (1, 1)
        await peer.aclose()


class _FullNow(StateStore):
    """Takes nothing while `is_full`."""

    is_full = False

    def _write(self, table: str, key: str, value: bytes | None) -> None:
        if self.is_full:
            raise RefusalError(ResponseCode.SERVICE_NOT_AVAILABLE, "full")


async def test_a_disk_that_is_full_for_a_while_loses_and_stops_nothing() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker = sandbox.brokers["broker-a"]
        await send(await Peer.of_broker(sandbox), "x", "y", "z")
        broker.state = state = _FullNow()
        await broker.restart()
        peer = await Peer.of_broker(sandbox)
        popped = await peer.ask_ok(POP, **pop_fields(sandbox, invisibleTime=30_000))
        await acknowledge(peer, popped, 0, 0)
        state.is_full = True
        await sandbox.advance(31)
        await broker.stop()
        assert len(broker.pop.check_points) == 1
        state.is_full = False
        await broker.resume()
        await sandbox.advance(31)
        assert len(broker.pop.check_points) == 0
        assert broker.store.max_offset(RETRY, 0) >= 2
        await peer.aclose()


def test_pops_that_last_long_leave_nothing_behind_once_they_are_acknowledged() -> None:
    points = CheckPoints(StateStore())
    points.put(CheckPoint("G", "T", 0, 0, 0, 10, [0]))
    for number in range(1, 5000):
        point = CheckPoint("G", "T", 0, number, number, 10**9, [number])
        points.put(point)
        points.acknowledge(point.key, number)
    assert len(points) == 1
    assert len(points._by_due) < 2000
    assert points.next_due_ms() == 10
