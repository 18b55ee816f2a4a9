"""Pops: what is given out, what waits, what is acknowledged."""

from __future__ import annotations

import base64
import struct
import time
from typing import Any

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.message import StoredMessage, iter_messages
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.handlers.broker.r200151_batch_ack_message import _set_offsets
from tests.sandbox.peer import Peer

POP, ACK, CHANGE = RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME
POLLING_INFO, NOTIFICATION = RequestCode.POLLING_INFO, RequestCode.NOTIFICATION


def pop_fields(sandbox: Sandbox, *, topic: str = "T", group: str = "G", **changes: object) -> dict[str, object]:
    """Return a pop's fields as clients write them."""
    return {
        "consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": 32, "invisibleTime": 60_000, "pollTime": 0,
        "bornTime": sandbox.clock.now_ms(), "initMode": 0, **changes,
    }  # fmt: skip


async def send(
    peer: Peer, *bodies: str, topic: str = "T", queue_id: int = 0, tags: str = "", queue_count: int = 4, delay: int = 0
) -> None:
    """Send messages, each on its own."""
    properties = (f"TAGS\x01{tags}\x02" if tags else "") + (f"DELAY\x01{delay}\x02" if delay else "")
    for body in bodies:
        await peer.ask_ok(
            RequestCode.SEND_MESSAGE_V2, body.encode(), a="PP", b=topic, c="TBW102", d=queue_count, e=queue_id, f=0,
            g=1, h=0, i=properties, j=0, k="false",
        )  # fmt: skip


def bodies(answer: Command) -> list[str]:
    """Return the messages of a pop's answer."""
    return [message.body.decode() for message in messages(answer)]


def messages(answer: Command) -> list[StoredMessage]:
    """Return the messages of a pop's answer."""
    return list(iter_messages(answer.body))


def handle(answer: Command, queue_id: int, queue_offset: int) -> str:
    """Return the handle that a client makes for a message of an answer."""
    fields = answer.ext_fields
    starts = {part.split()[1]: part.split()[2] for part in fields["startOffsetInfo"].split(";")}
    return (
        f"{starts[str(queue_id)]} {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']} 0 broker-a "
        f"{queue_id} {queue_offset}"
    )


async def acknowledge(peer: Peer, answer: Command, queue_id: int, offset: int, *, group: str = "G") -> Command:
    """Acknowledge one message of an answer."""
    text = handle(answer, queue_id, offset)
    return await peer.ask(ACK, consumerGroup=group, topic="T", queueId=queue_id, offset=offset, extraInfo=text)


async def stored_offset(peer: Peer, queue_id: int = 0, *, topic: str = "T", group: str = "G") -> str:
    """Return a group's stored offset."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id, "setZeroIfNotFound": "false"}
    return (await peer.ask_ok(RequestCode.QUERY_CONSUMER_OFFSET, **fields)).ext_fields["offset"]


async def change(peer: Peer, answer: Command, offset: int, invisible_ms: int) -> Command:
    """Change a message's invisible time."""
    text = handle(answer, 0, offset)
    fields = {"consumerGroup": "G", "topic": "T", "queueId": 0, "offset": offset, "extraInfo": text}
    return await peer.ask_ok(CHANGE, **fields, invisibleTime=invisible_ms)


async def test_pop_moves_the_offset_at_once_and_tells_where_messages_stood() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "a", "b", "c", queue_id=2)
        answer = await peer.ask_ok(POP, **pop_fields(sandbox, maxMsgNums=2))
        assert bodies(answer) == ["a", "b"]
        assert answer.ext_fields["startOffsetInfo"] == "0 2 0"
        assert answer.ext_fields["msgOffsetInfo"] == "0 2 0,1"
        assert answer.ext_fields["restNum"] == "1"
        assert await stored_offset(peer, 2) == "2"
        await peer.aclose()


async def test_clients_whose_clock_did_not_jump_pop_after_a_jump_as_before() -> None:
    async with Sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "before")
        await sandbox.advance(3600)
        for born_ms in (time.time_ns() // 1_000_000, sandbox.clock.now_ms()):
            await send(peer, "after")
            popped = await peer.ask_ok(POP, **pop_fields(sandbox, bornTime=born_ms, pollTime=15_000))
            assert "after" in bodies(popped)
        late = await peer.ask(POP, **pop_fields(sandbox, bornTime=sandbox.clock.now_ms() - 60_000))
        assert late.code == ResponseCode.POLLING_TIMEOUT
        await peer.aclose()


async def test_pops_of_all_queues_begin_at_another_queue_each_time() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        for queue_id in range(4):
            await send(peer, *"ab", queue_id=queue_id)
        starts = []
        for _ in range(4):
            answer = await peer.ask_ok(POP, **pop_fields(sandbox, maxMsgNums=1))
            starts.append(answer.ext_fields["startOffsetInfo"].split()[1])
        assert sorted(starts) == ["0", "1", "2", "3"]
        await peer.aclose()


async def test_pop_filters_by_tag_and_leaves_behind_what_does_not_match() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "a", tags="TagA")
        await send(peer, "b", tags="TagB")
        answer = await peer.ask_ok(POP, **pop_fields(sandbox, exp="TagB", expType="TAG"))
        assert bodies(answer) == ["b"]
        answer = await peer.ask(POP, **pop_fields(sandbox))
        assert answer.code == ResponseCode.POLLING_TIMEOUT
        await peer.aclose()


async def test_an_empty_pop_waits_until_a_message_comes() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, waiting = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
        await send(peer, "x", queue_id=1)
        await peer.ask_ok(POP, **pop_fields(sandbox))
        answer = waiting.start(POP, **pop_fields(sandbox, pollTime=15_000))
        await sandbox.advance(5)
        assert not answer.done()
        info = await peer.ask_ok(POLLING_INFO, consumerGroup="G", topic="T", queueId=-1)
        assert info.ext_fields == {"pollingNum": "1"}
        await send(peer, "y", queue_id=3)
        await sandbox.await_idle()
        assert bodies(answer.result()) == ["y"]
        info = await peer.ask_ok(POLLING_INFO, consumerGroup="G", topic="T", queueId=-1)
        assert info.ext_fields == {"pollingNum": "0"}
        for each in (peer, waiting):
            await each.aclose()


async def test_a_pop_that_waits_in_vain_ends_just_before_its_client_gives_up() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "x", tags="TagA")
        await peer.ask_ok(POP, **pop_fields(sandbox))
        answer = peer.start(POP, **pop_fields(sandbox, pollTime=15_000, exp="TagB", expType="TAG"))
        await sandbox.advance(10)
        await send(peer, "y", tags="TagA")
        await sandbox.advance(4.9)
        assert not answer.done()
        await sandbox.advance(0.1)
        assert answer.result().code == ResponseCode.POLLING_TIMEOUT
        assert answer.result().remark == "NO_MESSAGE_IN_QUEUE"
        await peer.aclose()


async def test_a_pop_of_a_client_that_has_gone_takes_nothing() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, gone = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
        await send(peer, "x")
        await peer.ask_ok(POP, **pop_fields(sandbox))
        gone.start(POP, **pop_fields(sandbox, pollTime=15_000))
        await sandbox.await_idle()
        await gone.aclose()
        await sandbox.await_idle()
        assert len(sandbox.brokers["broker-a"].holds) == 0
        info = await peer.ask_ok(RequestCode.POLLING_INFO, consumerGroup="G", topic="T", queueId=-1)
        assert info.ext_fields["pollingNum"] == "0"
        await send(peer, "y")
        await sandbox.await_idle()
        assert bodies(await peer.ask_ok(POP, **pop_fields(sandbox))) == ["y"]
        await peer.aclose()


async def test_a_client_whose_clock_is_behind_never_pops() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "x")
        late_ms = sandbox.clock.now_ms() - 15_501
        answer = await peer.ask(POP, **pop_fields(sandbox, bornTime=late_ms, pollTime=15_000))
        assert answer.code == ResponseCode.POLLING_TIMEOUT
        assert answer.remark == "the broker[127.0.0.1] pop message is timeout too much"
        answer = await peer.ask(POP, **pop_fields(sandbox, bornTime=late_ms + 1, pollTime=15_000))
        assert bodies(answer) == ["x"]
        # The same by the broker's clock.
        sandbox.brokers["broker-a"].skew_ms = 20_000
        answer = await peer.ask(POP, **pop_fields(sandbox, pollTime=15_000))
        assert answer.remark == "the broker[127.0.0.1] pop message is timeout too much"
        await peer.aclose()


async def test_too_many_pops_of_a_queue_are_not_held() -> None:
    async with Sandbox(clock=VirtualClock(), settings={"popPollingSize": "1"}) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "x")
        await peer.ask_ok(POP, **pop_fields(sandbox))
        held = [peer.start(POP, **pop_fields(sandbox, pollTime=15_000)) for _ in range(2)]
        answer = await peer.ask(POP, **pop_fields(sandbox, pollTime=15_000))
        assert answer.code == ResponseCode.POLLING_FULL
        assert not any(each.done() for each in held)
        await peer.aclose()


async def test_a_new_group_begins_where_its_mode_says() -> None:
    clock = VirtualClock()
    async with Sandbox(clock=clock) as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        await send(peer, "a", "b")
        await sandbox.advance(60)
        await send(peer, "c", "d")
        newest = await peer.ask_ok(POP, **pop_fields(sandbox, group="New", initMode=1))
        assert bodies(newest) == ["a", "b", "c", "d"]  # a small queue is read whole
        broker.store.drop_stored_before(broker.now_ms() - 1000)
        newest = await peer.ask_ok(POP, **pop_fields(sandbox, group="Max", initMode=1))
        assert bodies(newest) == ["d"]
        oldest = await peer.ask_ok(POP, **pop_fields(sandbox, group="Min", initMode=0))
        assert bodies(oldest) == ["c", "d"]
        assert oldest.ext_fields["startOffsetInfo"] == "0 0 2"
        await peer.aclose()


async def test_notification_comes_with_the_message_and_takes_nothing() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "x")
        await peer.ask_ok(POP, **pop_fields(sandbox))
        fields = {"consumerGroup": "G", "topic": "T", "queueId": -1, "pollTime": 15_000}
        for is_sent in (True, False):
            answer = peer.start(NOTIFICATION, **fields, bornTime=sandbox.clock.now_ms())
            await sandbox.advance(10)
            assert not answer.done()
            if is_sent:
                await send(peer, "y")
            await sandbox.advance(5)
            assert answer.result().ext_fields == {"hasMsg": str(is_sent).lower(), "pollingFull": "false"}
            if is_sent:
                assert bodies(await peer.ask_ok(POP, **pop_fields(sandbox))) == ["y"]
        await peer.aclose()


async def test_batch_acknowledgement_takes_the_bits_for_offsets() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, points = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"].pop.check_points
        await send(peer, *"abcdefghijk")
        fields = (await peer.ask_ok(POP, **pop_fields(sandbox))).ext_fields
        assert points.in_flight_count("G", "T") == 11
        item = {
            "c": "G", "t": "T", "r": "0", "so": 0, "q": 0, "rq": int(fields["reviveQid"]),
            "pt": int(fields["popTime"]), "it": 60_000, "b": base64.b64encode(struct.pack("<H", 0x207)).decode(),
        }  # fmt: skip
        await peer.ask_ok(RequestCode.BATCH_ACK_MESSAGE, {"brokerName": "broker-a", "acks": [item]})
        assert points.in_flight_count("G", "T") == 7
        await sandbox.advance(61)
        answer = await peer.ask_ok(POP, **pop_fields(sandbox))
        assert bodies(answer) == list("defghik")
        await peer.aclose()


class _Bits(bytes):
    """Counts how often it is looked at."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return super().__getitem__(index)


def test_only_offsets_that_there_are_are_looked_for_in_an_acknowledgement() -> None:
    bits = _Bits(b"\xff" * 300_000)
    assert list(_set_offsets(5, bits, 0, 7)) == [5, 6, 7]
    assert bits.looks == 3


async def test_a_batch_acknowledgement_of_millions_that_were_never_stored_holds_nobody_up() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, points = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"].pop.check_points
        await send(peer, *"abc")
        fields = (await peer.ask_ok(POP, **pop_fields(sandbox))).ext_fields
        item = {
            "c": "G", "t": "T", "r": "0", "so": 0, "q": 0, "rq": int(fields["reviveQid"]),
            "pt": int(fields["popTime"]), "it": 60_000, "b": base64.b64encode(b"\xff" * 300_000).decode(),
        }  # fmt: skip
        await peer.ask_ok(RequestCode.BATCH_ACK_MESSAGE, {"brokerName": "broker-a", "acks": [item]})
        assert points.in_flight_count("G", "T") == 0
        await peer.aclose()


async def test_a_reset_offset_is_where_the_next_pop_begins() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        await send(peer, "a", "b", "c")
        await peer.ask_ok(POP, **pop_fields(sandbox, order="true"))
        blocked = await peer.ask(POP, **pop_fields(sandbox, order="true"))
        assert blocked.code == ResponseCode.POLLING_TIMEOUT
        broker.offsets.reset("G", "T", 0, 1)
        answer = await peer.ask_ok(POP, **pop_fields(sandbox, order="true"))
        assert bodies(answer) == ["b", "c"]
        await peer.aclose()


async def test_4_9_knows_no_pops() -> None:
    async with Sandbox(clock=VirtualClock(), plays="4.9.7") as sandbox:
        peer = await Peer.of_broker(sandbox)
        for code in (POP, ACK, CHANGE, NOTIFICATION, POLLING_INFO, 200052, 200151, 400, 401, 402):
            assert (await peer.ask(code)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        await peer.aclose()
