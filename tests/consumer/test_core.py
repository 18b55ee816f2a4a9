"""The consumer as a whole, in one event loop with a sandbox of RocketMQ whose time stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from rmqctl.consumer.batch import Batch
from rmqctl.consumer.core import ConsumerCore
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.consumer.pull_loop import PullBatch
from rmqctl.consumer.rules.subscriptions import make_subscription
from rmqctl.consumer.settings import ConsumerSettings, settings_of_4_9
from rmqctl.errors import NotFoundError, RmqctlError
from rmqctl.model.consumption import ConsumeFromWhere, ConsumeStatus
from rmqctl.model.group import BROADCASTING
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.flags import MessageFlag
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.allocate import Options, find_strategy
from rmqctl.rules.flow_control import FlowControl
from tests.consumer.consumer_cluster import DEAD, FIRST, GROUP, RETRY, TOPIC, Cluster, Seen, both, scenario
from tests.consumer.consumer_parts import LATER, MQ, SUCCESS, messages
from tests.sandbox.peer import Peer, consumer_data, subscription
from tests.scripted_peer import ScriptedNetwork, ok

# From joining to leaving


@both
def test_a_consumer_consumes_acknowledges_and_leaves(plays: str) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send(*map(str, range(40)))
        seen = Seen()
        consumer = await cluster.started(seen)
        assert await cluster.members() == [consumer.client_id]
        assert seen.bodies == list(map(str, range(40)))
        await cluster.send("new")
        await cluster.passes(0.5)
        assert seen.bodies[-1] == "new"
        left = await cluster.during(consumer.drain(30))
        assert (left, cluster.stored(), await cluster.members()) == ([], {0: 41}, [])
        assert (consumer.counts.ok, consumer.counts.failed, cluster.reports) == (41, 0, [])

    scenario(work, plays=plays)


def test_offsets_are_stored_after_10_s_and_then_every_5_s() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.started(Seen())
        # Behind a pull that is held, no other pull tells of it.
        await cluster.passes(5)
        await cluster.send("a")
        await cluster.passes(3)
        assert cluster.stored() in ({}, {0: 0})
        await cluster.passes(2)
        assert cluster.stored() == {0: 1}
        await cluster.send("b")
        await cluster.passes(5)
        assert cluster.stored() == {0: 2}

    scenario(work)


def test_topics_come_and_go_while_it_runs() -> None:
    async def work(cluster: Cluster) -> None:
        seen = Seen()
        consumer = await cluster.started(seen)
        await cluster.send("u1", topic="U")
        consumer.subscribe(make_subscription("U"))
        await cluster.passes(3)
        assert seen.bodies == ["u1"]
        consumer.unsubscribe(TOPIC)
        await cluster.passes(3)
        assert {mq.topic for mq in consumer.process_queues()} == {"U", f"%RETRY%{GROUP}"}
        await cluster.send("t1")
        await cluster.send("u2", topic="U")
        await cluster.passes(3)
        assert seen.bodies == ["u1", "u2"]

    scenario(work)


def test_a_timeout_that_is_changed_counts_for_what_is_being_consumed() -> None:
    async def work(cluster: Cluster) -> None:
        never = asyncio.Event()

        async def hang(*_: object) -> ConsumeStatus:
            await never.wait()
            return ConsumeStatus.CONSUME_SUCCESS

        await cluster.send("a")
        consumer = await cluster.started(hang)
        await cluster.passes(20)
        assert len(consumer.unfinished()) == 1
        consumer.set_consume_timeout(10)
        await cluster.passes(1)
        assert consumer.unfinished() == []
        assert any("took too long" in report for report in cluster.reports)

    scenario(work)


def test_a_topic_that_there_is_not() -> None:
    async def work(cluster: Cluster) -> None:
        consumer = cluster.consumer(Seen(), topics=[make_subscription("none")])
        with pytest.raises(NotFoundError):
            await cluster.during(consumer.start())
        assert await cluster.members() == []

    scenario(work)


def test_a_topic_of_several_that_there_is_not_is_told_and_consumed_once_it_is_there() -> None:
    async def work(cluster: Cluster) -> None:
        seen = Seen()
        await cluster.started(seen, topics=[make_subscription(TOPIC), make_subscription("later")])
        assert [report for report in cluster.reports if report.startswith("later is not consumed yet")]
        await cluster.send("x")
        await cluster.send("y", topic="later")
        await cluster.passes(60)
        assert sorted(seen.bodies) == ["x", "y"]

    scenario(work)


def test_a_group_that_no_broker_takes() -> None:
    async def work(cluster: Cluster) -> None:
        cluster.sandbox.faults.answer(Q.HEART_BEAT, R.NO_PERMISSION, remark="no", count=None)
        consumer = cluster.consumer(Seen())
        with pytest.raises(RmqctlError, match="no"):
            await cluster.during(consumer.start())

    scenario(work)


async def test_a_route_without_brokers_is_an_error_and_no_bug() -> None:
    network = ScriptedNetwork()
    network.add("ns:1", {Q.GET_ROUTEINFO_BY_TOPIC: ok(b'{"brokerDatas":[],"queueDatas":[]}')})
    client = network.client("ns:1", open_ended=True)
    consumer = ConsumerCore(
        client, ConsumerSettings(group=GROUP), [make_subscription(TOPIC)], Seen(),
        find_strategy("averagely", Options()),
    )  # fmt: skip
    with pytest.raises(RmqctlError, match="no broker"):
        await consumer.start()
    await client.aclose()


# Where queues begin


@pytest.mark.parametrize(
    ("where", "stored", "bodies"),
    [(FIRST, None, ["0", "1", "2"]), (ConsumeFromWhere.LAST_OFFSET, 1, ["1", "2"]), (FIRST, 2, ["2"])],
)
def test_7_4_a_stored_offset_always_wins(where: ConsumeFromWhere, stored: int | None, bodies: list[str]) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("0", "1", "2")
        if stored is not None:
            await cluster.commit(0, stored)
        seen = Seen()
        await cluster.started(seen, consume_from=where)
        assert seen.bodies == bodies

    scenario(work)


@both
@pytest.mark.parametrize(
    ("where", "stored", "bodies", "ends"),
    [
        # The queues begin at 0, and a group without any offset there starts where it wants.
        (ConsumeFromWhere.LAST_OFFSET, {}, [], {0: 1, 1: 2}),
        (ConsumeFromWhere.TIMESTAMP, {}, ["1b"], {0: 1, 1: 2}),
        (FIRST, {}, ["0a", "1a", "1b"], {0: 1, 1: 2}),
        # A queue that is new to a group is consumed from its start.
        (ConsumeFromWhere.LAST_OFFSET, {1: 1}, ["0a", "1b"], {0: 1, 1: 2}),
        (ConsumeFromWhere.LAST_OFFSET, {1: 0}, ["0a", "1a", "1b"], {0: 1, 1: 2}),
    ],
)  # fmt: skip
def test_a_new_group_starts_where_it_is_set_to_and_every_other_one_where_it_was(
    where: ConsumeFromWhere, stored: dict[int, int], bodies: list[str], ends: dict[int, int], plays: str
) -> None:
    if (where, plays) == (ConsumeFromWhere.TIMESTAMP, "4.9.7"):
        bodies = ["0a", *bodies]  # 4.9 finds the last message where none is as late

    async def work(cluster: Cluster) -> None:
        for body in ("0a", "1a"):
            await cluster.send(body, queue_id=int(body[0]))
        await cluster.passes(10)
        at_ms = cluster.clock.now_ms()
        await cluster.send("1b", queue_id=1)
        for queue_id, offset in stored.items():
            await cluster.commit(queue_id, offset)
        seen = Seen()
        consumer = await cluster.started(seen, consume_from=where, consume_timestamp_ms=at_ms)
        if where is ConsumeFromWhere.LAST_OFFSET and not stored:
            # At once, in all queues: another member that joins now must continue there.
            assert cluster.stored() == ends
        assert sorted(seen.bodies) == bodies
        await cluster.during(consumer.drain(5))
        assert cluster.stored() == ends

    scenario(work, plays=plays, queue_count=2)


def test_while_a_broker_does_not_say_whether_a_group_is_new_no_queue_is_taken() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a")
        cluster.sandbox.faults.silence(Q.QUERY_CONSUMER_OFFSET, count=None)
        seen = Seen()
        consumer = cluster.consumer(seen, consume_from=ConsumeFromWhere.LAST_OFFSET)
        await cluster.during(consumer.start())
        await cluster.passes(15)
        assert MQ not in consumer.process_queues()
        assert any("Cannot take" in said for said in cluster.reports)
        cluster.sandbox.faults.clear()
        await cluster.passes(20)
        await cluster.send("b")
        await cluster.passes(2)
        assert seen.bodies == ["b"]

    scenario(work)


@both
def test_an_offset_beyond_the_end_is_corrected_and_stored(plays: str) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("0", "1")
        await cluster.commit(0, 1000)
        seen = Seen()
        delays = (
            {}
            if plays == "5.4.0"
            else {"illegal_offset_s": settings_of_4_9(ConsumerSettings(group=GROUP)).illegal_offset_s}
        )
        await cluster.started(seen, **delays)
        assert any("does not have the requested offset" in report for report in cluster.reports)
        if delays:
            assert cluster.stored() == {0: 1000}
            await cluster.passes(9.5)
        await cluster.passes(3)
        assert cluster.stored() == {0: 2}
        await cluster.send("new")
        await cluster.passes(0.5)
        assert seen.bodies == ["new"]

    scenario(work, plays=plays)


def test_7_6_a_correction_may_take_progress_back() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("0", "1", "2")
        seen = Seen()
        consumer = await cluster.started(seen)
        assert consumer.offsets.read(MQ) == 3
        # A broker that lost its end says so to a pull.
        await cluster.during(consumer.holding.illegal_offset(consumer.process_queues()[MQ], 1, is_reset=False))
        assert cluster.stored() == {0: 1}
        await cluster.passes(3)
        assert seen.bodies == ["0", "1", "2", "1", "2"]

    scenario(work)


def test_an_offset_that_was_deleted_goes_on_with_the_first_that_is_left() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("old")
        await cluster.passes(1)
        await cluster.send("new")
        cluster.sandbox.brokers["broker-a"].store.drop_stored_before(cluster.clock.now_ms())
        seen = Seen()
        await cluster.started(seen)
        await cluster.passes(3)
        assert seen.bodies == ["new"]

    scenario(work)


# What fails


@both
def test_7_11_a_message_that_failed_comes_again_after_10_s_under_its_own_topic_and_id(plays: str) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b", "c")
        seen = Seen({"b": [LATER, None, SUCCESS]})
        consumer = await cluster.started(seen)
        assert seen.bodies == ["a", "b", "c"]
        assert (consumer.counts.ok, consumer.counts.failed) == (2, 1)
        # Once stored again, it counts as consumed.
        await cluster.passes(15)
        assert seen.bodies == ["a", "b", "c", "b"]
        await cluster.passes(35)
        assert seen.bodies == ["a", "b", "c", "b", "b"]
        tries = [each for each in seen.messages if each.body == b"b"]
        assert [each.topic for each in tries] == [TOPIC] * 3
        assert [each.message_id for each in tries] == ["key-b"] * 3
        assert [each.reconsume_times for each in tries] == [0, 1, 2]
        await cluster.during(consumer.drain(10))
        assert (cluster.stored(), cluster.stored(RETRY)) == ({0: 3}, {0: 2})

    scenario(work, plays=plays)


def test_after_the_maximum_a_message_is_a_dead_letter() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a")
        seen = Seen({"a": ValueError("never")})
        await cluster.started(seen, max_reconsume_times=1)
        await cluster.passes(60)
        assert (seen.bodies, await cluster.count(DEAD)) == (["a", "a"], 1)
        assert any("raised ValueError: never at " in report for report in cluster.reports)

    scenario(work)


def test_a_body_that_will_not_decompress_is_retried_and_stops_nobody() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("no zlib", f=MessageFlag.COMPRESSED)
        await cluster.send("good")

        bodies: list[bytes] = []

        async def listener(found: Sequence[StoredMessage], _: Batch) -> ConsumeStatus:
            bodies.append(found[0].body)
            return SUCCESS

        consumer = await cluster.started(listener)
        assert (bodies, consumer.counts.failed) == ([b"good"], 1)
        assert any("RemoteProtocolError" in report for report in cluster.reports)
        await cluster.during(consumer.drain(10))
        assert cluster.stored() == {0: 2}

    scenario(work)


def test_a_batch_that_can_not_be_cut_up_is_told_of_and_consumed_whole() -> None:
    async def work(cluster: Cluster) -> None:
        seen = Seen()
        consumer = await cluster.started(seen)
        (queue,) = [queue for mq, queue in consumer.process_queues().items() if mq.topic == TOPIC]
        consumer.holding.pulled(queue, PullBatch(0, 1, 1, messages(0), 1.0, ["0 is a batch that can't be cut up."]))
        await cluster.passes(1)
        assert cluster.reports == ["T@broker-a:0:0 is a batch that can't be cut up."]
        assert (seen.bodies, consumer.counts.ok) == (["m"], 1)

    scenario(work)


def test_a_queue_whose_failed_message_no_broker_takes_is_blocked_and_recovers() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("bad", "good")
        for code in (Q.CONSUMER_SEND_MSG_BACK, Q.SEND_MESSAGE_V2):
            cluster.sandbox.faults.answer(code, R.NO_PERMISSION, remark="readonly", count=None)
        seen = Seen({"bad": LATER})
        consumer = await cluster.started(seen, local_retry_limit=1, worker_count=2)
        await cluster.passes(30)
        (queue,) = [queue for mq, queue in consumer.process_queues().items() if mq.topic == TOPIC]
        assert seen.bodies == ["bad", "good", "bad"]
        assert (consumer.holding.hold(queue), consumer.offsets.read(MQ)) == (FlowControl.BLOCKED, 0)
        assert any("pulls no new messages" in report for report in cluster.reports)
        cluster.sandbox.faults.clear()
        await cluster.send("new")
        await cluster.passes(6)
        assert seen.bodies[3] == "new"
        assert (consumer.holding.hold(queue), consumer.offsets.read(MQ)) == (None, 3)
        # It did come back.
        await cluster.passes(15)
        assert seen.bodies[4:] == ["bad"]

    scenario(work)


# What is skipped


def test_7_15_what_is_older_than_a_time_is_acknowledged_unread_and_counted() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("old", "older")
        await cluster.passes(100, step_s=10)
        await cluster.send("new")
        seen = Seen()
        consumer = await cluster.started(seen, skip_older_s=60)
        assert (seen.bodies, consumer.counts.skipped) == (["new"], 2)
        await cluster.during(consumer.drain(5))
        assert cluster.stored() == {0: 3}

    scenario(work)


def test_7_15_what_is_too_far_behind_the_end_is_acknowledged_unread() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send(*map(str, range(100)))
        seen = Seen()
        consumer = await cluster.started(seen, skip_behind_count=10)
        assert (seen.bodies, consumer.counts.skipped) == ([str(at) for at in range(90, 100)], 90)
        await cluster.during(consumer.drain(5))
        assert cluster.stored() == {0: 100}

    scenario(work)


def test_7_11_a_message_whose_key_was_seen_is_skipped_by_the_hook() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b", "a", "c", "a")
        known: set[str] = set()

        def was_seen(found: StoredMessage) -> bool:
            is_known = found.message_id in known
            known.add(found.message_id)
            return is_known

        seen = Seen()
        consumer = await cluster.started(seen, skip=was_seen)
        assert (seen.bodies, consumer.counts.skipped) == (["a", "b", "c"], 2)
        await cluster.during(consumer.drain(5))
        assert cluster.stored() == {0: 5}

    scenario(work)


def test_a_hook_that_raises_skips_nothing_and_is_told() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a")

        def broken(_: StoredMessage) -> bool:
            raise KeyError("x")

        seen = Seen()
        await cluster.started(seen, skip=broken)
        await cluster.send("b")
        await cluster.passes(1)
        assert seen.bodies == ["a", "b"]
        assert any("KeyError('x')" in report for report in cluster.reports)

    scenario(work)


# Warnings


@pytest.mark.parametrize(
    ("next_offset", "first", "said"),
    [(90, 100, 90), (90, None, 90), (101, 95, 95), (101, 100, None), (100, None, None), (150, 140, None)],
)
def test_7_17_it_warns_when_the_broker_goes_back_below_what_was_asked(
    next_offset: int, first: int | None, said: int | None
) -> None:
    async def work(cluster: Cluster) -> None:
        consumer = cluster.consumer(Seen())
        found = [] if first is None else messages(first)
        consumer.holding.pulled(ProcessQueue(MQ), PullBatch(100, next_offset, 200, found, 1.0))
        assert cluster.reports == ([] if said is None else [f"{MQ}: the broker moved back from 100 to {said}."])

    scenario(work)


# Brokers that do not know it


@pytest.mark.parametrize("code", [R.SUBSCRIPTION_NOT_EXIST, R.SUBSCRIPTION_NOT_LATEST, R.SUBSCRIPTION_GROUP_NOT_EXIST])
def test_a_broker_that_does_not_know_it_is_told_and_pulled_again(code: int) -> None:
    async def work(cluster: Cluster) -> None:
        seen = Seen()
        await cluster.started(seen)
        heartbeats = cluster.sandbox.faults.delay(0, Q.HEART_BEAT, count=None)
        cluster.sandbox.faults.answer(Q.PULL_MESSAGE, code)
        await cluster.passes(15)
        await cluster.send("a")
        await cluster.passes(3)
        assert heartbeats.struck_count >= 1
        assert seen.bodies == ["a"]
        assert any("Cannot pull" in report for report in cluster.reports)

    scenario(work)


def test_a_broker_that_restarts_is_told_anew() -> None:
    async def work(cluster: Cluster) -> None:
        seen = Seen()
        consumer = await cluster.started(seen)
        await cluster.send("a")
        await cluster.passes(1)
        await cluster.sandbox.brokers["broker-a"].restart()
        await cluster.passes(5)
        assert await cluster.members() == [consumer.client_id]
        await cluster.send("b")
        await cluster.passes(5)
        assert seen.bodies == ["a", "b"]

    scenario(work)


def test_a_slave_without_an_address_is_its_master() -> None:
    async def work(cluster: Cluster) -> None:
        consumer = await cluster.started(Seen())
        address = cluster.sandbox.brokers["broker-a"].address
        assert (consumer.holding.address(MQ, 0), consumer.holding.address(MQ, 1)) == (address, address)
        assert consumer.holding.address(MQ._replace(broker_name="broker-x"), 0) is None

    scenario(work)


# Sharing with others


def test_two_members_share_the_queues_and_one_takes_over_what_the_other_leaves() -> None:
    async def work(cluster: Cluster) -> None:
        one, other = Seen(), Seen()
        first = await cluster.started(one)
        second = await cluster.started(other)
        await cluster.passes(3)
        held = [{mq for mq in each.holding.held() if mq.topic == TOPIC} for each in (first, second)]
        assert [len(each) for each in held] == [2, 2]
        assert not held[0] & held[1]
        for queue_id in range(4):
            await cluster.send(f"{queue_id}", queue_id=queue_id)
        await cluster.passes(1)
        assert sorted(one.bodies + other.bodies) == ["0", "1", "2", "3"]
        await cluster.during(second.drain(5))
        await cluster.passes(2)
        assert len({mq for mq in first.holding.held() if mq.topic == TOPIC}) == 4
        for queue_id in range(4):
            await cluster.send(f"{queue_id}", queue_id=queue_id)
        await cluster.passes(1)
        # Nothing twice.
        assert len(one.bodies) + len(other.bodies) == 8
        assert len(other.bodies) == 2

    scenario(work, queue_count=4)


def test_results_of_a_queue_that_another_member_has_taken_are_ignored() -> None:
    async def work(cluster: Cluster) -> None:
        for queue_id in (0, 1):
            await cluster.send(f"{queue_id}", queue_id=queue_id)
        seen = Seen({"0": LATER, "1": LATER})
        seen.hold("0", "1")
        consumer = await cluster.started(seen)
        # It sorts before ours, so it gets the first queue.
        peer = await Peer.of_broker(cluster.sandbox)
        await peer.heartbeat("0", consumer_data(GROUP, subscription(TOPIC)))
        await cluster.passes(3)
        assert [mq.queue_id for mq in consumer.holding.held() if mq.topic == TOPIC] == [1]
        back = cluster.sandbox.faults.delay(0, Q.CONSUMER_SEND_MSG_BACK, count=None)
        seen.let_go()
        await cluster.passes(1)
        assert (back.struck_count, consumer.counts.failed) == (1, 1)
        await cluster.during(consumer.drain(5))
        assert cluster.stored().get(0, 0) == 0
        assert cluster.stored()[1] == 1
        await peer.aclose()

    scenario(work, queue_count=2)


# Broadcasting


def test_broadcasting_gets_everything_and_keeps_its_offsets_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b")
        one, other = Seen({"a": LATER}), Seen()
        first = await cluster.started(one, message_model=BROADCASTING, instance_name="one")
        await cluster.started(other, message_model=BROADCASTING, instance_name="other")
        await cluster.until(lambda: len(one.messages) == len(other.messages) == 2)
        assert one.bodies == other.bodies == ["a", "b"]
        assert any(report.endswith("1 message is lost.") for report in cluster.reports)
        await cluster.during(first.drain(5))
        assert (cluster.stored(), first.counts.failed) == ({}, 1)
        again = Seen()
        await cluster.send("c")
        await cluster.started(again, message_model=BROADCASTING, instance_name="one")
        # Files are read in a thread.
        await cluster.until(lambda: len(again.messages) > 0)
        assert again.bodies == ["c"]

    scenario(work)


# Bugs


def test_a_part_that_fails_by_a_bug_is_reported_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(cluster: Cluster) -> None:
        seen = Seen({"b": LATER})
        consumer = await cluster.started(seen)
        bugs = {"pulled": 1, "persist": 1, "_find_share": 1, "beat": 1, "_send_all": 1}

        def break_once(owner: object, name: str) -> None:
            works = getattr(owner, name)

            def broken(*args: object, **options: object) -> object:
                if bugs[name]:
                    bugs[name] -= 1
                    raise ZeroDivisionError(name)
                return works(*args, **options)

            monkeypatch.setattr(owner, name, broken)

        break_once(consumer.holding, "pulled")
        break_once(consumer.holding, "persist")
        break_once(consumer.rebalance, "_find_share")
        break_once(consumer.holding.consumption, "_send_all")
        await cluster.send("a", "b")
        await cluster.passes(40)
        assert seen.bodies[:2] == ["a", "b"]
        assert "b" in seen.bodies[2:]
        assert cluster.stored() == {0: 2}
        for part in ("Pulling T@broker-a:0", "Storing offsets", "The rebalance", "sending failed messages back"):
            assert any(f"{part}: rmqctl failed (ZeroDivisionError" in said for said in cluster.reports), part

    scenario(work)
