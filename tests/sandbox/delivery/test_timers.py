"""Any-time delays of 5.x: when they are over, what is refused, taken back, or survives a restart."""

from __future__ import annotations

import base64

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.delivery.timers import Timers
from rmqctl.sandbox.profile import find_profile
from rmqctl.sandbox.request import UNSET_REMARK, RefusalError
from rmqctl.sandbox.settings import broker_settings
from rmqctl.sandbox.storage.commit_log import CommitLog
from rmqctl.sandbox.storage.state import StateStore
from rmqctl.sandbox.storage.store import MessageStore, NewMessage
from tests.sandbox.handlers.test_sending import play
from tests.sandbox.peer import Peer
from tests.sandbox.sender import BORN_MS, bodies, pairs, read, send

_NOW_MS = VirtualClock().now_ms()


@pytest.mark.parametrize(
    ("properties", "seconds"),
    [
        ({"TIMER_DELAY_SEC": 2}, 2.0),
        ({"TIMER_DELAY_MS": 1500}, 2.0),
        ({"TIMER_DELAY_MS": 1}, 1.0),
        ({"TIMER_DELIVER_MS": _NOW_MS + 2_500}, 3.0),
        ({"TIMER_DELIVER_MS": _NOW_MS + 3_000}, 3.0),
        ({"TIMER_DELAY_SEC": 20}, 20.0),
        ({"TIMER_DELAY_SEC": 100, "DELAY": 1}, 1.0),
    ],
)
def test_a_message_comes_at_the_next_whole_second(properties: dict[str, int], seconds: float) -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        await send(peer, "T", b"late", properties=pairs(UNIQ_KEY="U", **properties), e=1)
        await sandbox.advance(seconds - 0.1)
        assert await read(peer, "T", 1) == []
        await sandbox.advance(0.2)
        (message,) = await read(peer, "T", 1)
        assert message.born_at_ms == BORN_MS
        assert message.stored_at_ms == _NOW_MS + seconds * 1000

    play("5.4.0", scenario, settings={"timerMaxDelaySec": "20"})


def test_what_a_timer_leaves_in_a_message() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        answer = await send(peer, "T", b"late", properties=pairs(UNIQ_KEY="U", TIMER_DELAY_SEC=2), e=1)
        assert base64.urlsafe_b64decode(answer.ext_fields["recallHandle"]) == (
            f"v1 T broker-a {_NOW_MS + 1_001} U".encode()
        )
        (waiting,) = await read(peer, "rmq_sys_wheel_timer")
        assert waiting.properties["TIMER_OUT_MS"] == str(_NOW_MS + 1_000)
        await sandbox.advance(2)
        (message,) = await read(peer, "T", 1)
        added = {"TIMER_ENQUEUE_MS": str(_NOW_MS), "TIMER_DEQUEUE_MS": str(_NOW_MS + 2_000)}
        assert message.properties == {**waiting.properties, **added}

    play("5.4.0", scenario)


@pytest.mark.parametrize("properties", [{"TIMER_DELAY_SEC": 0}, {"TIMER_DELAY_SEC": -5}, {"TIMER_DELIVER_MS": 1000}])
def test_a_time_that_is_over_is_no_delay(properties: dict[str, int]) -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        await send(peer, "T", b"now", properties=pairs(**properties))
        assert await bodies(peer, "T") == [b"now"]

    play("5.4.0", scenario)


@pytest.mark.parametrize(
    "properties",
    [{"TIMER_DELAY_SEC": 259_201}, {"TIMER_DELAY_SEC": "x"}, {"TIMER_DELIVER_MS": 5, "TIMER_DEL_UNIQKEY": 1}],
)
def test_times_that_can_not_be(properties: dict[str, object]) -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        answer = await send(peer, "T", properties=pairs(**properties))
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert answer.remark is not None
        assert answer.remark.startswith("timer message illegal, the delay time should not be bigger than the max delay")

    play("5.4.0", scenario)


def test_a_broker_without_timers_says_so() -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        answer = await send(peer, "T", properties=pairs(TIMER_DELAY_SEC=1))
        assert answer.remark == "accurate timer message is not enabled, timerWheelEnable is false"

    play("5.4.0", scenario, settings={"timerWheelEnable": "false"})


def test_4_9_knows_no_timers() -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        await send(peer, "T", b"now", properties=pairs(TIMER_DELAY_SEC=1))
        assert await bodies(peer, "T") == [b"now"]

    play("4.9.7", scenario)


def test_a_restart_loses_none_and_repeats_none_in_whatever_order_they_come() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        broker = sandbox.brokers["broker-a"]
        for seconds in (30, 5, 20, 3, 10):
            await send(peer, "T", b"%d" % seconds, properties=pairs(TIMER_DELAY_SEC=seconds))
        await sandbox.advance(6)
        assert await bodies(peer, "T") == [b"3", b"5"]
        await broker.restart()
        again = await Peer.of_broker(sandbox)
        await sandbox.advance(15)
        assert await bodies(again, "T") == [b"3", b"5", b"10", b"20"]
        await broker.restart()
        once_more = await Peer.of_broker(sandbox)
        await sandbox.advance(100)
        assert await bodies(once_more, "T") == [b"3", b"5", b"10", b"20", b"30"]
        # Nothing is remembered one by one that lies before the first one that still waited.
        kept = broker.state.load("timers")
        assert kept["before"] == 5
        assert not any(name.isdigit() for name in kept)
        await again.aclose()
        await once_more.aclose()

    play("5.4.0", scenario)


def test_messages_come_by_the_brokers_own_clock() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        await send(peer, "T", b"late", properties=pairs(TIMER_DELAY_SEC=60))
        sandbox.brokers["broker-a"].skew_ms = 59_000
        await sandbox.advance(1)
        assert await bodies(peer, "T") == [b"late"]

    play("5.4.0", scenario)


def test_what_is_sent_to_the_timers_topic_by_name_stops_nothing() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        assert (await send(peer, "rmq_sys_wheel_timer", b"stray")).code == ResponseCode.SUCCESS
        await send(peer, "T", b"late", properties=pairs(TIMER_DELAY_SEC=1))
        await sandbox.advance(2)
        assert await bodies(peer, "T") == [b"late"]

    play("5.4.0", scenario)


async def _recall(peer: Peer, handle: str, topic: str = "T") -> tuple[int, str | None]:
    answer = await peer.ask(RequestCode.RECALL_MESSAGE, producerGroup="P", topic=topic, recallHandle=handle)
    return answer.code, answer.remark


def test_a_message_that_is_taken_back_does_not_come() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        handles = [
            (await send(peer, "T", body, properties=pairs(UNIQ_KEY=key, TIMER_DELAY_SEC=5))).ext_fields["recallHandle"]
            for key, body in (("U1", b"one"), ("U2", b"two"))
        ]
        assert await _recall(peer, handles[0]) == (ResponseCode.SUCCESS, UNSET_REMARK)
        assert await _recall(peer, handles[1], "T2") == (17, "recall failed, the topic[T2] not exist")
        assert await _recall(peer, "?") == (ResponseCode.ILLEGAL_OPERATION, "recall handle is invalid")
        await send(peer, "T2")
        illegal = ResponseCode.ILLEGAL_OPERATION
        assert await _recall(peer, handles[1], "T2") == (illegal, "recall failed, topic not match")
        await sandbox.advance(10)
        assert await bodies(peer, "T") == [b"two"]
        assert await _recall(peer, handles[1]) == (illegal, "recall failed, timestamp invalid")

    play("5.4.0", scenario, settings={"recallMessageEnable": "true"})


@pytest.mark.parametrize(("with_topic", "left"), [("false", []), ("true", [b"one"])])
def test_a_recall_also_takes_back_other_topics_messages_of_that_key(with_topic: str, left: list[bytes]) -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        text = pairs(UNIQ_KEY="U", TIMER_DELAY_SEC=5)
        await send(peer, "T", b"one", properties=text)
        handle = (await send(peer, "T2", b"two", properties=text)).ext_fields["recallHandle"]
        assert await _recall(peer, handle, "T2") == (ResponseCode.SUCCESS, UNSET_REMARK)
        await sandbox.advance(10)
        assert (await bodies(peer, "T"), await bodies(peer, "T2")) == (left, [])

    settings = {"recallMessageEnable": "true", "appendTopicForTimerDeleteKey": with_topic}
    play("5.4.0", scenario, settings=settings)


def test_taking_back_is_off_unless_it_is_switched_on() -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        answer = await peer.ask(RequestCode.RECALL_MESSAGE, producerGroup="P", topic="T", recallHandle="x")
        assert (answer.code, answer.remark) == (16, "recall failed, operation is forbidden")
        assert answer.ext_fields == {"MSG_REGION": "DefaultRegion"}

    play("5.4.0", scenario)


@pytest.mark.parametrize(
    "stray",
    [
        {"REAL_TOPIC": "T", "REAL_QID": "abc"},
        {"REAL_TOPIC": "T"},
        {"REAL_TOPIC": "rmq_sys_wheel_timer", "REAL_QID": 0},
        {"REAL_TOPIC": "SCHEDULE_TOPIC_XXXX", "REAL_QID": 0},
    ],
)
def test_strays_that_look_like_waiting_messages_neither_stop_the_timers_nor_go_round(stray: dict[str, object]) -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        await send(peer, "rmq_sys_wheel_timer", b"stray", properties=pairs(TIMER_OUT_MS=1000, **stray))
        await send(peer, "T", b"late", properties=pairs(TIMER_DELAY_SEC=1))
        await sandbox.advance(2)
        assert await bodies(peer, "T") == [b"late"]
        assert await bodies(peer, "rmq_sys_wheel_timer") == [b"stray", b"late"]
        assert await bodies(peer, "SCHEDULE_TOPIC_XXXX") == []

    play("5.4.0", scenario)


class _FullNow(StateStore):
    """Takes no marks of what was delivered while `is_full`."""

    is_full = False

    def _write(self, table: str, key: str, value: bytes | None) -> None:
        if self.is_full and key != "releasing":
            raise RefusalError(ResponseCode.SERVICE_NOT_AVAILABLE, "full")


async def test_timers_go_on_when_what_was_delivered_could_not_be_written() -> None:
    clock = VirtualClock()
    state, delivered = _FullNow(), []
    store = MessageStore(CommitLog(), 2**20, state)
    settings = broker_settings(find_profile("5.4.0"), {}, clock.now_ms)
    timers = Timers(clock, clock.now_ms, store, state, settings, lambda message: delivered.append(message.body))
    timers.start()
    for number in range(3):
        properties = {"TIMER_DELAY_SEC": str(number + 1)}
        message = NewMessage(topic="T", queue_id=0, body=b"%d" % number, properties=properties)
        timers.divert(message)
        placed = store.put(message, now_ms=clock.now_ms(), store_host=(bytes(4), 1))
        timers.stored(placed.queue_offset, [message])
    state.is_full = True
    await clock.advance(2)
    state.is_full = False
    await clock.advance(2)
    assert delivered == [b"0", b"1", b"2"]
    assert len(timers) == 0
    assert Timers(clock, clock.now_ms, store, state, settings, delivered.append)._done_before == 3
