"""Mission 7.5: what each answer to a pull does, and how long the loop waits after it, against a scripted broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from rmqctl.client.core import Client
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.consumer.pull_loop import PullBatch, pull_queue
from rmqctl.consumer.rules.subscriptions import make_subscription
from rmqctl.consumer.settings import ConsumerSettings, settings_of_4_9
from rmqctl.errors import RmqctlError
from rmqctl.model.group import BROADCASTING, Subscription
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.protocol.flags import MessageFlag
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.flow_control import FlowControl
from tests.consumer.consumer_parts import MQ, damaged_message, message, messages, offsets
from tests.scripted_peer import DROP, SILENCE, Raw, Reply, ScriptedNetwork, run

COMMIT, SUSPEND = 1, 2


class _Owner:
    """A consumer that only pulls."""

    def __init__(self, **settings: Any) -> None:
        self.clock = VirtualClock()
        self.network = ScriptedNetwork(self.clock)
        self.master = self.network.add("a:1", {Q.PULL_MESSAGE: SILENCE})
        self.slave = self.network.add("a-1:1", {Q.PULL_MESSAGE: SILENCE})
        self.client = Client(
            ["ns:1"], timeout_s=9, clock=self.clock, connect=self.network.connect, open_ended=True
        )  # fmt: skip
        self.settings = ConsumerSettings(group="G", **settings)
        self.is_running = True
        self.paused = False
        self.known: Subscription | None = make_subscription("T", "*")
        self.addresses: dict[int, str] = {0: "a:1", 1: "a-1:1"}
        self.held: FlowControl | None = None
        self.memory: int | None = None
        self.got: list[PullBatch] = []
        self.illegal: list[tuple[int, bool]] = []
        self.failures: list[str] = []
        self.doubts: list[int] = []
        self.look_count = 0
        self.is_ours: bool | RmqctlError = True

    def is_paused(self, process_queue: ProcessQueue) -> bool:
        assert process_queue.mq == MQ
        return self.paused

    def subscription(self, topic: str) -> Subscription | None:
        assert topic == "T"
        return self.known

    def address(self, mq: MessageQueue, broker_id: int) -> str | None:
        assert mq == MQ
        return self.addresses.get(broker_id) or self.addresses.get(0)

    def hold(self, process_queue: ProcessQueue) -> FlowControl | None:
        assert process_queue.mq == MQ
        return self.held

    def committed(self, mq: MessageQueue) -> int | None:
        assert mq == MQ
        return self.memory

    def pulled(self, process_queue: ProcessQueue, pulled: PullBatch) -> None:
        self.got.append(pulled)
        process_queue.put(pulled.messages)

    async def make_sure(self, process_queue: ProcessQueue) -> bool:
        assert process_queue.mq == MQ
        if not process_queue.is_doubtful:
            return True
        self.doubts.append(process_queue.next_offset)
        if isinstance(self.is_ours, RmqctlError):
            raise self.is_ours
        process_queue.is_doubtful = False
        return self.is_ours

    def look(self) -> None:
        self.look_count += 1

    async def illegal_offset(self, process_queue: ProcessQueue, next_offset: int, *, is_reset: bool) -> None:
        process_queue.drop()
        self.illegal.append((next_offset, is_reset))

    async def pull_failed(self, mq: MessageQueue, error: RmqctlError) -> None:
        assert mq == MQ
        self.failures.append(error.sentence)

    # What was asked

    def pulls(self) -> list[dict[str, str]]:
        return [request.ext_fields for request in self.master.asked]

    def asked(self) -> list[int]:
        return [int(fields["queueOffset"]) for fields in self.pulls()]


def _answer(code: int, next_offset: int, *found: StoredMessage, **fields: str) -> Command:
    told = {"nextBeginOffset": str(next_offset), "minOffset": "0", "maxOffset": "100", **fields}
    return Command(code, told, b"".join(each.record for each in found))


def _found(*places: int, **fields: str) -> Command:
    return _answer(R.SUCCESS, places[-1] + 1, *messages(*places), **fields)


def _pulling(
    check: Callable[[_Owner, ProcessQueue], Coroutine[Any, Any, None]], *replies: Reply, offset: int = 5,
    prepare: Callable[[_Owner], None] = lambda _: None, settings: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Pull from an offset on; the broker replies so, then holds what comes."""

    async def go() -> None:
        owner = _Owner(**(settings or {}))
        for reply in replies:
            owner.master.fail_next(Q.PULL_MESSAGE, reply)
        prepare(owner)
        queue = ProcessQueue(MQ, next_offset=offset, now_ms=owner.clock.now_ms(), now_s=owner.clock.monotonic_s())
        pulling = asyncio.ensure_future(pull_queue(owner, queue))
        await owner.clock.await_idle()
        await check(owner, queue)
        assert not pulling.done() or pulling.exception() is None
        pulling.cancel()
        await asyncio.gather(pulling, return_exceptions=True)
        await owner.client.aclose()

    run(go())


async def _times(owner: _Owner, count: int, *, step_s: float = 0.01, most_s: float = 40.0) -> float:
    """Let time pass until so many pulls were sent; return how long it took."""
    began_s = owner.clock.monotonic_s()
    while len(owner.pulls()) < count:
        assert owner.clock.monotonic_s() - began_s < most_s, "no further pull"
        await owner.clock.advance(step_s)
    return round(owner.clock.monotonic_s() - began_s, 2)


# What a pull asks for


def test_a_pull_of_a_new_queue() -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        assert owner.known is not None
        (fields,) = owner.pulls()
        assert fields == {
            "consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "5", "maxMsgNums": "32", "sysFlag": "2",
            "commitOffset": "0", "suspendTimeoutMillis": "15000", "subVersion": str(owner.known.version_ms),
            "expressionType": "TAG",
        }  # fmt: skip

    _pulling(check)


@pytest.mark.parametrize(
    ("memory", "model", "flags", "committed"),
    [
        (None, "CLUSTERING", SUSPEND, 0), (0, "CLUSTERING", SUSPEND, 0), (1, "CLUSTERING", SUSPEND | COMMIT, 1),
        (9, BROADCASTING, SUSPEND, 0),
    ],
)  # fmt: skip
def test_7_5_the_commit_flag_is_set_only_above_offset_0(
    memory: int | None, model: str, flags: int, committed: int
) -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        (fields,) = owner.pulls()
        assert (int(fields["sysFlag"]), int(fields["commitOffset"])) == (flags, committed)

    def prepare(owner: _Owner) -> None:
        owner.memory = memory

    _pulling(check, prepare=prepare, settings={"message_model": model})


def test_one_pull_is_under_way_and_its_answer_renews_it() -> None:
    async def check(owner: _Owner, queue: ProcessQueue) -> None:
        assert owner.asked() == [5, 7, 10]
        assert [offsets(pulled.messages) for pulled in owner.got] == [[5, 6], [7, 8, 9]]
        assert [(pulled.asked_offset, pulled.next_offset, pulled.max_offset) for pulled in owner.got] == [
            (5, 7, 100), (7, 10, 100),
        ]  # fmt: skip
        assert queue.count == 5
        await owner.clock.advance(14)
        assert owner.asked() == [5, 7, 10]

    _pulling(check, _found(5, 6), _found(7, 8, 9))


# What an answer does


@pytest.mark.parametrize("code", [R.PULL_NOT_FOUND, R.PULL_RETRY_IMMEDIATELY])
def test_7_5_an_answer_without_messages_moves_on_and_pulls_again_at_once(code: int) -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        assert owner.asked() == [5, 50]
        assert [(pulled.next_offset, pulled.messages) for pulled in owner.got] == [(50, [])]

    _pulling(check, _answer(code, 50))


def test_7_5_found_with_an_empty_list_pulls_again_at_once() -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        assert owner.asked() == [5, 6]
        assert [pulled.messages for pulled in owner.got] == [[]]

    _pulling(check, _answer(R.SUCCESS, 6))


def test_tags_that_only_share_a_hash_are_filtered_and_the_next_pull_does_not_wait() -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        assert owner.asked() == [5, 9]
        assert [offsets(pulled.messages) for pulled in owner.got] == [[6]]

    def prepare(owner: _Owner) -> None:
        owner.known = make_subscription("T", "Aa || C")

    # "Aa" and "BB" have one hash in Java.
    found = [message(5, TAGS="BB"), message(6, TAGS="Aa"), message(7), message(8, TAGS="c")]
    _pulling(check, _answer(R.SUCCESS, 9, *found), prepare=prepare)


def test_a_message_whose_properties_lie_is_left_to_the_listener() -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        assert [offsets(pulled.messages) for pulled in owner.got] == [[5, 6]]
        assert (owner.asked(), owner.failures) == ([5, 7], [])

    def prepare(owner: _Owner) -> None:
        owner.known = make_subscription("T", "A")

    _pulling(check, _answer(R.SUCCESS, 7, damaged_message(5, cut=3), message(6, TAGS="A")), prepare=prepare)


def test_a_batch_that_can_not_be_cut_up_is_one_message_and_stops_no_queue() -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        (pulled,) = owner.got
        assert [(each.queue_offset, each.inner_index) for each in pulled.messages] == [(5, None), (6, None), (7, None)]
        (fault,) = pulled.faults
        assert fault.startswith("6 is a batch that cannot be split and stays whole: The peer sent an inner batch")
        assert (owner.asked(), owner.failures) == ([5, 8], [])

    broken = message(6, b"no batch", sys_flag=MessageFlag.INNER_BATCH | MessageFlag.NEED_UNWRAP)
    _pulling(check, _answer(R.SUCCESS, 8, message(5), broken, message(7)))


def test_the_pull_interval_is_kept_where_messages_came() -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        assert owner.asked() == [5, 6]
        assert await _times(owner, 3) == pytest.approx(2, abs=0.02)

    _pulling(check, _answer(R.PULL_NOT_FOUND, 6), _found(6), settings={"pull_interval_s": 2.0})


@pytest.mark.parametrize(("end", "is_reset"), [("4", False), ("5", True)])
def test_an_illegal_offset_ends_the_pulling_of_the_queue(end: str, is_reset: bool) -> None:
    """Where the broker has the offset, it was a reset."""

    async def check(owner: _Owner, _: ProcessQueue) -> None:
        assert (owner.illegal, owner.got) == ([(77, is_reset)], [])
        await owner.clock.advance(60)
        assert owner.asked() == [5]

    _pulling(check, _answer(R.PULL_OFFSET_MOVED, 77, maxOffset=end))


def test_flow_control_of_the_broker_is_asked_again_after_20_ms() -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        assert owner.asked() == [5]
        assert await _times(owner, 2, step_s=0.005) == pytest.approx(0.02, abs=0.006)
        assert (owner.asked(), owner.failures) == ([5, 5], [])

    _pulling(check, Command(R.FLOW_CONTROL, remark="queue is blocked"))


_BAD = [
    Command(R.SYSTEM_ERROR, remark="x"),
    Command(R.SUBSCRIPTION_NOT_EXIST, remark="the consumer's subscription not exist"),
    Command(R.SUBSCRIPTION_NOT_LATEST, remark="the consumer's subscription not latest"),
    Command(R.SUCCESS),
    Command(R.PULL_NOT_FOUND, {"nextBeginOffset": "abc"}),
    _answer(R.PULL_NOT_FOUND, 6, suggestWhichBrokerId="abc"),
    _answer(R.PULL_NOT_FOUND, 6, maxOffset="abc"),
    Command(R.SUCCESS, {"nextBeginOffset": "6"}, b"\0\0\0\x10half a message"),
    Raw(b"\0\0\0\x04\0\0\0\xff"),
]


@pytest.mark.parametrize("reply", _BAD, ids=range(len(_BAD)))
def test_7_5_after_an_error_the_same_is_asked_a_second_later(reply: Reply) -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        assert len(owner.failures) == 1
        assert await _times(owner, 2) == pytest.approx(1, abs=0.02)
        assert (owner.asked(), len(owner.failures), owner.got) == ([5, 5], 1, [])

    _pulling(check, reply)


def test_7_5_4_9_waits_for_three_seconds() -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        assert await _times(owner, 2) == pytest.approx(3, abs=0.02)

    older = settings_of_4_9(ConsumerSettings(group="G"))
    assert older.illegal_offset_s == 10
    _pulling(check, Command(R.SYSTEM_ERROR), settings={"error_delay_s": older.error_delay_s})


def test_a_lost_connection_is_asked_again_and_then_told() -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        assert await _times(owner, 3) == pytest.approx(1, abs=0.02)
        assert len(owner.failures) == 1

    _pulling(check, DROP, DROP)


def test_a_broker_that_says_nothing_is_given_up_after_30_s() -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        await owner.clock.advance(29)
        assert (owner.asked(), owner.failures) == ([5], [])
        await owner.clock.advance(1.5)
        assert len(owner.failures) == 1
        assert await _times(owner, 2) <= 1

    _pulling(check)


def test_without_an_address_it_waits_and_finds_it_later() -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        assert owner.asked() == []
        assert "does not list its address" in owner.failures[0]
        owner.addresses = {0: "a:1"}
        assert await _times(owner, 1) == pytest.approx(1, abs=0.02)

    def prepare(owner: _Owner) -> None:
        owner.addresses = {}

    _pulling(check, prepare=prepare)


# Slaves


def test_a_slave_is_pulled_where_the_broker_suggests_it_and_told_no_offset() -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        (fields,) = [request.ext_fields for request in owner.slave.asked]
        assert (fields["queueOffset"], fields["sysFlag"], fields["commitOffset"]) == ("7", "2", "0")
        assert [fields["sysFlag"] for fields in owner.pulls()] == ["3"]

    def prepare(owner: _Owner) -> None:
        owner.memory = 4

    _pulling(check, _found(5, 6, suggestWhichBrokerId="1"), prepare=prepare)


def test_a_slave_sends_back_to_the_master_and_so_does_its_failure() -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        assert [int(request.ext_fields["queueOffset"]) for request in owner.slave.asked] == [6, 8]
        assert owner.asked() == [5, 7]
        await owner.clock.advance(1.1)
        # After the failure of the slave.
        assert owner.asked() == [5, 7, 8]
        assert len(owner.failures) == 1

    def prepare(owner: _Owner) -> None:
        owner.slave.fail_next(Q.PULL_MESSAGE, _found(6, suggestWhichBrokerId="0"))
        owner.slave.fail_next(Q.PULL_MESSAGE, Command(R.SYSTEM_ERROR))

    replies = [_found(5, suggestWhichBrokerId="1"), _found(7, suggestWhichBrokerId="1")]
    _pulling(check, *replies, prepare=prepare)


# Before a pull


@pytest.mark.parametrize(
    ("name", "value", "back", "wait_s"),
    [
        ("is_running", False, True, 3.0), ("paused", True, False, 1.0), ("known", None, make_subscription("T"), 1.0),
        ("held", FlowControl.SPAN, None, 0.05),
    ],
)  # fmt: skip
def test_what_keeps_a_queue_from_being_pulled_is_looked_at_again(
    name: str, value: object, back: object, wait_s: float
) -> None:
    async def check(owner: _Owner, queue: ProcessQueue) -> None:
        await owner.clock.advance(wait_s * 4.5)
        assert owner.asked() == []
        # It waits, and does not expire.
        assert owner.clock.now_ms() - queue.last_pull_at_ms <= wait_s * 1000
        setattr(owner, name, back)
        assert await _times(owner, 1) == pytest.approx(wait_s / 2, abs=0.02)

    _pulling(check, prepare=lambda owner: setattr(owner, name, value))


def test_a_queue_that_has_room_again_is_pulled_at_once() -> None:
    async def check(owner: _Owner, queue: ProcessQueue) -> None:
        owner.held = None
        queue.remove([])
        await owner.clock.await_idle()
        assert owner.asked() == [5]

    def prepare(owner: _Owner) -> None:
        owner.held = FlowControl.QUEUE_COUNT

    _pulling(check, prepare=prepare, settings={"flow_control_s": 10.0})


def test_a_queue_that_is_dropped_is_pulled_no_more_and_takes_no_late_answer() -> None:
    async def check(owner: _Owner, queue: ProcessQueue) -> None:
        queue.drop()
        owner.master.connections[-1].reply(owner.master.asked[-1], _found(5))
        await owner.clock.advance(60)
        assert (owner.got, owner.asked()) == ([], [5])

    _pulling(check)


# Whose queue it is after a broker was out of reach


@pytest.mark.parametrize(
    ("replies", "doubts"),
    [([DROP, DROP], [5]), ([Command(R.SYSTEM_ERROR)], []), ([_answer(R.PULL_NOT_FOUND, 6)], [])],
)
def test_after_a_broker_was_out_of_reach_it_is_asked_whether_others_have_the_queue(
    replies: list[Reply], doubts: list[int]
) -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        await owner.clock.advance(5)
        assert owner.doubts == doubts
        assert len(owner.asked()) == len(replies) + 1

    _pulling(check, *replies)


def test_a_queue_that_others_have_is_not_pulled() -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        owner.is_ours = False
        await owner.clock.advance(60)
        assert (owner.doubts, owner.asked(), len(owner.failures)) == ([5], [5, 5], 1)

    _pulling(check, DROP, DROP)


def test_while_nobody_says_whose_it_is_it_is_asked_again_and_not_pulled() -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        owner.is_ours = RmqctlError("out of luck")
        await owner.clock.advance(5.5)
        assert (owner.doubts, owner.asked()) == ([5] * 5, [5, 5])
        owner.is_ours = True
        await owner.clock.advance(1)
        assert (owner.doubts, owner.asked()) == ([5] * 6, [5, 5, 5])

    _pulling(check, DROP, DROP)


@pytest.mark.parametrize(
    ("away_s", "is_ours", "doubts", "got"), [(119, True, [], [[5]]), (121, True, [5], [[5]]), (121, False, [5], [])]
)
def test_an_answer_that_comes_very_late_counts_only_if_nobody_has_consumed_the_queue(
    away_s: int, is_ours: bool, doubts: list[int], got: list[list[int]]
) -> None:
    async def check(owner: _Owner, _: ProcessQueue) -> None:
        owner.is_ours = is_ours
        owner.clock._elapsed_s += away_s
        owner.master.connections[-1].reply(owner.master.asked[-1], _found(5))
        await owner.clock.await_idle()
        assert owner.doubts == doubts
        assert [offsets(pulled.messages) for pulled in owner.got] == got
        assert owner.asked() == ([5, 6] if is_ours else [5])
        assert owner.look_count == 1

    _pulling(check)
