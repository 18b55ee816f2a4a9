"""What brokers ask of a consumer, pushed by a scripted one over a connection of rmqctl's own client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import pytest

from rmqctl.client.core import Client
from rmqctl.consumer.batch import Batch, Listener
from rmqctl.consumer.control.client_processor import ClientProcessor
from rmqctl.consumer.counters import Counters
from rmqctl.consumer.offsets.store import BrokerOffsets
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.consumer.rules.subscriptions import make_subscription, retry_subscription
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.errors import UnreachableError
from rmqctl.model.consumption import ConsumeStatus
from rmqctl.model.group import Subscription
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol import group_bodies
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.protocol.flags import CommandFlag
from rmqctl.protocol.java_dumps import dumps
from rmqctl.protocol.java_json import loads
from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.record import encode_record
from rmqctl.rules.flow_control import FlowControl
from rmqctl.rules.head_notes import Head, head_for_ms
from tests.consumer.stored_messages import stored_at
from tests.protocol.golden import EXCHANGES, decode
from tests.scripted_peer import ScriptedNetwork, ScriptedServer, ok, passing, refused

BROKER = "broker-a:1"
ONE, TWO, THREE = (MessageQueue("T", "broker-a", number) for number in range(3))
OTHER = MessageQueue("U", "broker-a", 0)
HOST = (bytes([127, 0, 0, 1]), 10911)
ASK_RUNNING = Command(Q.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "G", "clientId": "c1", "jstackEnable": "false"})


def unused(_: Sequence[StoredMessage], __: Batch) -> ConsumeStatus:
    raise AssertionError("nothing was to be consumed")


class Member:
    """A consumer that only holds queues. `log` is what was done to it, and when, in s since its start."""

    def __init__(self, client: Client, group: str, listener: Listener) -> None:
        self.client = client
        self.settings = ConsumerSettings(group=group)
        self.client_id = "192.0.2.2@c1"
        self.started_at_ms = client.clock.now_ms()
        self.listener = listener
        self.offsets = BrokerOffsets(client, group, lambda mq: BROKER)
        self.counters = Counters(client.clock)
        self.queues: dict[MessageQueue, ProcessQueue] = {}
        self.log: list[tuple[float, str]] = []
        self.stuck: dict[MessageQueue, UnreachableError | bool] = {}

    def note(self, what: str) -> None:
        self.log.append((self.client.clock.monotonic_s(), what))

    def hold(self, mq: MessageQueue, offset: int | None, *cached: int) -> ProcessQueue:
        queue = self.queues[mq] = ProcessQueue(mq, now_ms=self.client.clock.now_ms())
        queue.put(stored_at(cached))
        if offset is not None:
            self.offsets.update(mq, offset, increase_only=False)
        return queue

    def subscriptions(self) -> dict[str, Subscription]:
        group = self.settings.group
        return {"T": make_subscription("T", "A"), f"%RETRY%{group}": retry_subscription(group)}

    def process_queues(self) -> dict[MessageQueue, ProcessQueue]:
        return self.queues

    def line(self, mq: MessageQueue) -> None:
        return None

    def heads(self) -> dict[MessageQueue, Head]:
        return {mq: Head(queue.first_offset, 7) for mq, queue in self.queues.items() if queue.first_offset is not None}

    def look(self) -> None:
        pass

    def suspend(self) -> None:
        self.note("suspend")

    def unsuspend(self) -> None:
        self.note("unsuspend")

    async def drop(self, mq: MessageQueue) -> bool:
        outcome = self.stuck.get(mq, True)
        if isinstance(outcome, UnreachableError):
            raise outcome
        self.note(f"drop {mq.queue_id}")
        if outcome:
            del self.queues[mq]
            self.offsets.forget(mq)
        return outcome

    def rebalance_soon(self) -> None:
        self.note("rebalance")

    def forget_duplicates(self, mq: MessageQueue) -> None:
        pass


class Scene:
    """A member that is connected to a broker."""

    def __init__(self, member: Member, broker: ScriptedServer, control: ClientProcessor, reports: list[str]) -> None:
        self.member, self.broker, self.control, self.reports = member, broker, control, reports
        self.clock = member.client.clock
        assert isinstance(self.clock, VirtualClock)
        broker.table[Q.UPDATE_CONSUMER_OFFSET] = self._store

    def _store(self, request: Command) -> Command:
        fields = request.ext_fields
        self.member.note(f"store {fields['queueId']}={fields['commitOffset']}")
        return ok()

    async def push(self, command: Command) -> Command | None:
        answer = await self.broker.push(command)
        await self.clock.await_idle()
        return answer

    async def reset(self, targets: dict[MessageQueue, int], *, topic: str = "T", group: str = "G") -> None:
        fields = {"topic": topic, "group": group, "timestamp": "-1", "isForce": "false"}
        body = dumps({"offsetTable": targets})
        await self.push(Command(Q.RESET_CONSUMER_CLIENT_OFFSET, fields, body, flag=CommandFlag.ONEWAY))

    def done(self) -> list[str]:
        return [what for _, what in self.member.log]


@asynccontextmanager
async def scene(listener: Listener = unused, *, group: str = "G", **settings: float) -> AsyncIterator[Scene]:
    clock = VirtualClock()
    network = ScriptedNetwork(clock)
    broker = network.add(BROKER, {Q.HEART_BEAT: ok()})
    reports: list[str] = []
    control = ClientProcessor(strategy="averagely", report=reports.append, **settings)
    client = Client(
        ["ns:1"], timeout_s=9.0, clock=clock, connect=network.connect, handlers=control.handlers, open_ended=True
    )
    async with client:
        member = Member(client, group, listener)
        control.attach(member)
        await client.ask(BROKER, Command(Q.HEART_BEAT))
        try:
            yield Scene(member, broker, control, reports)
        finally:
            await control.aclose()


async def test_members_that_come_or_go_make_it_rebalance() -> None:
    async with scene() as on:
        notice = Command(Q.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "G"}, flag=CommandFlag.ONEWAY)
        await on.push(notice)
        assert on.done() == ["rebalance"]


# Resets: wire facts 3.9, MQClientInstance.resetOffset


async def test_a_reset_goes_in_javas_order_and_may_go_backwards() -> None:
    async with scene() as on:
        member = on.member
        queues = [member.hold(ONE, 50, 50, 51), member.hold(TWO, 60, 60), member.hold(OTHER, 9, 9)]
        left_alone = member.hold(THREE, 70, 70)
        # Every member gets the queues of all; that of another topic is not meant, though it is named.
        await on.reset({ONE: 3, TWO: 900, MessageQueue("T", "broker-b", 0): 1, OTHER: 2})
        assert on.done() == ["suspend"]
        assert [(queue.dropped, queue.count) for queue in queues] == [(True, 0), (True, 0), (False, 1)]
        # Held still, so that nobody begins them at the old offset meanwhile.
        assert set(member.queues) == {ONE, TWO, THREE, OTHER}
        await on.clock.advance(9.9)
        assert on.done() == ["suspend"]
        await on.clock.advance(0.1)
        assert sorted(on.done()[1:3]) == ["store 0=3", "store 1=900"]
        assert sorted(on.done()[3:5]) == ["drop 0", "drop 1"]
        assert on.done()[5:] == ["unsuspend", "rebalance"]
        assert {at_s for at_s, _ in member.log[1:]} == {10.0}
        assert set(member.queues) == {THREE, OTHER}
        assert not left_alone.dropped
        assert member.offsets.snapshot() == {THREE: 70, OTHER: 9}
        assert on.reports == ["A broker reset T: broker-a:0 to 3, broker-a:1 to 900."]


async def test_what_is_acknowledged_while_a_reset_waits_counts_no_more() -> None:
    async with scene() as on:
        queue = on.member.hold(ONE, 50, 50, 51)
        messages = list(queue._sizes)
        await on.reset({ONE: 3})
        assert queue.remove(messages) is None
        await on.clock.advance(10)
        assert "store 0=3" in on.done()


async def test_only_what_is_held_at_the_end_of_the_wait_is_reset() -> None:
    async with scene() as on:
        on.member.hold(ONE, 50)
        on.member.hold(TWO, 60)
        await on.reset({ONE: 3, TWO: 4, THREE: 5})
        del on.member.queues[ONE]
        come = on.member.hold(THREE, 70, 70)
        await on.clock.advance(10)
        assert sorted(what for what in on.done() if what.startswith("store")) == ["store 1=4", "store 2=5"]
        assert come.dropped


async def test_resets_go_one_after_the_other_ten_seconds_each() -> None:
    async with scene() as on:
        on.member.hold(ONE, 50)
        on.member.hold(OTHER, 60)
        await on.reset({ONE: 1})
        await on.reset({OTHER: 2}, topic="U")
        await on.clock.advance(30)
        assert on.member.log == [
            (0.0, "suspend"), (10.0, "store 0=1"), (10.0, "drop 0"), (10.0, "unsuspend"), (10.0, "rebalance"),
            (10.0, "suspend"), (20.0, "store 0=2"), (20.0, "drop 0"), (20.0, "unsuspend"), (20.0, "rebalance"),
        ]  # fmt: skip


async def test_the_wait_is_a_setting() -> None:
    async with scene(reset_wait_s=0.5) as on:
        on.member.hold(ONE, 50)
        await on.reset({ONE: 1})
        await on.clock.advance(0.5)
        assert on.member.log[-1] == (0.5, "rebalance")


async def test_the_list_that_cpp_clients_get_is_read_too() -> None:
    async with scene() as on:
        on.member.hold(ONE, 50)
        item = {"brokerName": "broker-a", "offset": 7, "queueId": 0, "topic": "T"}
        fields = {"topic": "T", "group": "G", "timestamp": "0", "isForce": "false"}
        body = dumps({"offsetTable": [item]})
        await on.push(Command(Q.RESET_CONSUMER_CLIENT_OFFSET, fields, body, flag=CommandFlag.ONEWAY))
        await on.clock.advance(10)
        assert "store 0=7" in on.done()


async def test_a_reset_as_a_4_9_7_broker_pushed_it() -> None:
    pushed = decode(next(each.request for each in EXCHANGES if each.request_code == 220))

    async with scene(group="ship-workers") as on:
        for number in range(4):
            on.member.hold(MessageQueue("ship", "broker-a", number), 50)
        assert await on.push(pushed) is None
        await on.clock.advance(10)
        stores = sorted(what for what in on.done() if what.startswith("store"))
        assert stores == ["store 0=101", "store 1=101", "store 2=101", "store 3=100"]


@pytest.mark.parametrize("ends", ["connection", "control"])
async def test_a_reset_does_not_leave_the_consumer_suspended(ends: str) -> None:
    async with scene() as on:
        on.member.hold(ONE, 50)
        await on.reset({ONE: 3})
        if ends == "connection":
            await on.broker.drop()
            await on.clock.advance(10)
            assert on.done() == ["suspend", "store 0=3", "drop 0", "unsuspend", "rebalance"]
        else:
            await on.control.aclose()
            assert on.done() == ["suspend", "unsuspend", "rebalance"]
            assert on.member.offsets.read(ONE) == 50
            await on.reset({ONE: 3})
            await on.clock.advance(10)
            assert on.done() == ["suspend", "unsuspend", "rebalance"]


async def test_a_reset_that_can_not_be_stored_is_told_and_stops_nothing() -> None:
    async with scene() as on:
        on.member.hold(ONE, 50)
        on.broker.table[Q.UPDATE_CONSUMER_OFFSET] = refused(R.SYSTEM_ERROR, "disk full")
        await on.reset({ONE: 3})
        await on.clock.advance(10)
        assert on.done() == ["suspend", "drop 0", "unsuspend", "rebalance"]
        assert on.reports[0].startswith("A reset of T was not stored: offset of T:0: ")
        assert "disk full" in on.reports[0]


async def test_a_queue_that_stays_after_its_reset_is_told_and_keeps_no_other_from_going() -> None:
    async with scene() as on:
        for mq in (ONE, TWO, THREE):
            on.member.hold(mq, 50)
        on.member.stuck = {ONE: UnreachableError(BROKER, "silent"), TWO: False}
        await on.reset({ONE: 3, TWO: 4, THREE: 5})
        await on.clock.advance(10)
        assert on.done()[-2:] == ["unsuspend", "rebalance"]
        assert set(on.member.queues) == {ONE, TWO}
        assert on.reports[0].startswith("Cannot give up T@broker-a:0 after")
        assert any(text.startswith("Cannot give up T@broker-a:1 yet") for text in on.reports)


@pytest.mark.parametrize("body", [b"{", b'{"offsetTable":[7]}', b"[]", b'{"offsetTable":{{"topic":"T"}:1}}'])
async def test_a_reset_that_can_not_be_read_is_told_and_left_out(body: bytes) -> None:
    async with scene() as on:
        on.member.hold(ONE, 50)
        fields = {"topic": "T", "group": "G"}
        await on.push(Command(Q.RESET_CONSUMER_CLIENT_OFFSET, fields, body, flag=CommandFlag.ONEWAY))
        await on.clock.advance(10)
        assert on.done() == []
        assert len(on.reports) == 1
        assert on.reports[0].startswith(f"A reset of T from {BROKER} is ")


async def test_a_reset_of_another_group_is_none_of_ours() -> None:
    async with scene() as on:
        on.member.hold(ONE, 50)
        await on.reset({ONE: 3}, group="H")
        await on.clock.advance(10)
        assert on.done() == []


# What it tells


@pytest.mark.parametrize(
    ("topic", "group", "expected"),
    [("T", "G", {ONE: 50, TWO: 60}), ("", "G", {ONE: 50, TWO: 60, OTHER: 9}), ("V", "G", {}), ("T", "H", {})],
)
async def test_it_tells_the_offsets_in_memory(topic: str, group: str, expected: dict[MessageQueue, int]) -> None:
    async with scene() as on:
        for mq, offset in {ONE: 50, TWO: 60, OTHER: 9}.items():
            on.member.hold(mq, offset)
        answer = await on.push(Command(Q.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": topic, "group": group}))
        assert answer is not None
        assert answer.code == R.SUCCESS
        told = loads(answer.body)
        assert told["consumerTable"] == {}
        items = told["messageQueueTable"].items()
        assert {MessageQueue(key["topic"], key["brokerName"], key["queueId"]): n for key, n in items} == expected


async def ask_running(on: Scene, command: Command = ASK_RUNNING) -> Command:
    answer = await passing(on.clock, on.broker.push(command))
    assert answer is not None
    return answer


async def test_it_tells_of_itself() -> None:
    async with scene() as on:
        on.member.hold(ONE, 50, 50, 52)
        on.member.counters.pulled("T", 100, 5.0)
        on.member.counters.consumed("T", 90, 10, 40.0, 20)
        on.member.counters.held(FlowControl.SPAN)
        answer = await ask_running(on)
        info = group_bodies.decode_running_info(answer.body)
        assert info.process_queues[ONE].commit_offset == 50
        assert info.process_queues[ONE].cached_max_offset == 52
        held = group_bodies.decode_running_info(answer.body).process_queues
        assert held[ONE].locked_at_ms == on.member.started_at_ms
        assert set(info.statuses) == {each.topic for each in info.subscriptions} == {"T", "%RETRY%G"}
        assert (info.statuses["T"].consume_failed_count, info.statuses["T"].consume_rt_ms) == (10, 2.0)
        assert info.properties["PROP_NAMESERVER_ADDR"] == "ns:1;"
        assert info.properties["instanceName"] == "c1"
        assert info.properties["messageListener"] == f"{__name__}.unused"
        assert loads(answer.body)["userConsumerInfo"] == {
            "flowControl.SPAN": "1", "inConsumption T@broker-a:0": "offset 50 for 7 ms",
        }  # fmt: skip
        assert head_for_ms(info.notes, ONE, 50) == 7
        assert head_for_ms(info.notes, ONE, 51) is None
        assert "jstack" not in loads(answer.body)
        assert Q.QUERY_CONSUMER_OFFSET not in on.broker.codes()


async def test_a_queue_without_an_offset_in_memory_is_where_it_was_taken_up() -> None:
    """Not where the broker says: from 5.0 on, that is the target of a reset before the member moves there."""
    async with scene() as on:
        on.broker.table[Q.QUERY_CONSUMER_OFFSET] = ok(offset="33")
        on.member.queues[ONE] = ProcessQueue(ONE, next_offset=20)
        on.member.queues[ONE].next_offset = 25
        info = group_bodies.decode_running_info((await ask_running(on)).body)
        assert info.process_queues[ONE].commit_offset == 20
        # Looking changes nothing.
        assert on.member.offsets.snapshot() == {}


async def test_stacks_come_when_they_are_asked_for() -> None:
    async with scene() as on:
        fields = {**ASK_RUNNING.ext_fields, "jstackEnable": "true"}
        answer = await ask_running(on, Command(Q.GET_CONSUMER_RUNNING_INFO, fields))
        text = loads(answer.body)["jstack"]
        assert f"{'MainThread':<40}TID: " in text
        assert "TASK STATE: RUNNING" in text


@pytest.mark.parametrize("code", [Q.GET_CONSUMER_RUNNING_INFO, Q.CONSUME_MESSAGE_DIRECTLY])
async def test_another_group_is_not_here(code: int) -> None:
    async with scene() as on:
        answer = await ask_running(on, Command(code, {"consumerGroup": "H"}))
        assert (answer.code, answer.remark) == (
            R.SYSTEM_ERROR,
            "The Consumer Group <H> not exist in this consumer",
        )


# Consuming one message


def record(body: bytes = b"m", topic: bytes = b"T", properties: bytes = b"") -> bytes:
    return encode_record(
        topic=topic, queue_id=2, queue_offset=40, commit_log_offset=0, flag=0, sys_flag=0, born_at_ms=0,
        born_host=HOST, stored_at_ms=0, store_host=HOST, reconsume_times=0, prepared_transaction_offset=0, body=body,
        properties=properties,
    )  # fmt: skip


async def consume(on: Scene, data: bytes) -> Command:
    fields = {"consumerGroup": "G", "clientId": "c1", "brokerName": "broker-a", "msgId": "00"}
    answer = await on.broker.push(Command(Q.CONSUME_MESSAGE_DIRECTLY, fields, data))
    assert answer is not None
    return answer


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (ConsumeStatus.CONSUME_SUCCESS, "CR_SUCCESS"),
        (ConsumeStatus.RECONSUME_LATER, "CR_LATER"),
        (None, "CR_RETURN_NULL"),
    ],
)
@pytest.mark.parametrize("is_coroutine", [False, True])
async def test_a_message_is_consumed_directly(said: ConsumeStatus | None, expected: str, is_coroutine: bool) -> None:
    got: list[tuple[list[bytes], MessageQueue, str]] = []

    def plain(messages: Sequence[StoredMessage], batch: Batch) -> ConsumeStatus | None:
        got.append(([each.body for each in messages], batch.mq, threading.current_thread().name))
        return said

    async def coroutine(messages: Sequence[StoredMessage], batch: Batch) -> ConsumeStatus | None:
        return plain(messages, batch)

    async with scene(coroutine if is_coroutine else plain) as on:
        queue = on.member.hold(THREE, 41, 41)
        answer = await consume(on, record())
        assert answer.code == R.SUCCESS
        assert loads(answer.body) == {
            "autoCommit": True, "consumeResult": expected, "order": False, "spentTimeMills": 0,
        }  # fmt: skip
        ((sent, mq, thread),) = got
        assert (sent, mq) == ([b"m"], THREE)
        assert (thread == "MainThread") is is_coroutine
        # Nothing is acknowledged, nothing sent back.
        assert (queue.count, queue.dropped, on.member.offsets.read(THREE)) == (1, False, 41)
        assert on.broker.codes() == [Q.HEART_BEAT]


async def test_what_a_listener_raised_is_told_with_its_place() -> None:
    def failing(_: Sequence[StoredMessage], __: Batch) -> ConsumeStatus:
        raise ValueError("no such order")

    async with scene(failing) as on:
        result = loads((await consume(on, record())).body)
        assert result["consumeResult"] == "CR_THROW_EXCEPTION"
        assert result["remark"].startswith(f"ValueError: no such order, {__name__}.")
        assert ".failing(test_client_processor.py:" in result["remark"]


async def test_a_message_of_the_retry_topic_is_seen_under_its_own() -> None:
    seen: list[tuple[str, str]] = []

    def listener(messages: Iterable[StoredMessage], batch: Batch) -> ConsumeStatus:
        seen.extend((message.topic, batch.mq.topic) for message in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    async with scene(listener) as on:
        await consume(on, record(topic=b"%RETRY%G", properties=b"RETRY_TOPIC\x01T\x02"))
        await consume(on, record(topic=b"%RETRY%H", properties=b"RETRY_TOPIC\x01T\x02"))
        assert seen == [("T", "%RETRY%G"), ("%RETRY%H", "%RETRY%H")]


@pytest.mark.parametrize("data", [b"", b"x", record()[:-1]])
async def test_what_is_no_message_is_refused(data: bytes) -> None:
    async with scene() as on:
        assert (await consume(on, data)).code == R.SYSTEM_ERROR


async def test_a_listener_goes_on_to_its_end_though_the_connection_ends() -> None:
    begun, goes_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(_: Sequence[StoredMessage], __: Batch) -> ConsumeStatus:
        begun.set()
        await goes_on.wait()
        ended.set()
        return ConsumeStatus.CONSUME_SUCCESS

    async with scene(slow) as on:
        asking = asyncio.ensure_future(consume(on, record()))
        await begun.wait()
        await on.broker.drop()
        await on.member.client.aclose()
        goes_on.set()
        await on.clock.await_idle()
        assert ended.is_set()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def test_it_speaks_for_nobody_before_there_is_a_consumer() -> None:
    async with scene() as on:
        await on.control.aclose()
        assert (await ask_running(on)).code == R.SYSTEM_ERROR
        await on.push(Command(Q.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "G"}, flag=CommandFlag.ONEWAY))
        assert on.done() == []
