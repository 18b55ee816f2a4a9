"""Peers that are no RocketMQ, greedy or slow: the sandbox serves others, holds little, and does not fill the log."""

from __future__ import annotations

import asyncio
import json
import logging
import struct

import pytest

from rmqctl.net.clock import SystemClock, VirtualClock
from rmqctl.net.stream import MemoryStream, Stream, connect_tcp
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import Connection
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.handlers import BROKER, NAME_SERVER, load
from rmqctl.sandbox.profile import PROFILES
from rmqctl.sandbox.server import Limits, Server
from rmqctl.sandbox.storage.store import NewMessage
from tests.sandbox.peer import Peer, consumer_data, subscription
from tests.sandbox.sender import send_fields
from tests.scripted_peer import run

_JSON = b'{"code":30,"opaque":1}'


def _frame(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


NO_FRAMES = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100c8010000c40303") + bytes(190),
    "a PROXY preamble": b"PROXY TCP4 10.0.0.1 10.0.0.2 5000 10911\r\n",
    "noise": bytes(range(255, 0, -1)) * 4,
    "the largest length": b"\xff\xff\xff\xff" * 4,
    "a negative length": b"\x80\x00\x00\x00" * 4,
    "a length of nothing": bytes(64),
    "a header longer than the frame": struct.pack(">II", 8, 0xFFFFFF) + bytes(8),
    "a header in no known writing": struct.pack(">II", 4 + 2, 9 << 24 | 2) + b"{}",
    "a header that is no JSON": _frame(b"nonsense"),
    "a header that is no object": _frame(b"[1]"),
    "a header whose code is a text": _frame(b'{"code":"30"}'),
    "a header that is nested deeply": _frame(b'{"extFields":' + b"[" * 200_000 + b"}"),
    "fields that are no object": _frame(b'{"code":30,"extFields":[1]}'),
    "a binary header that is cut off": struct.pack(">II", 4 + 3, 1 << 24 | 3) + b"abc",
}


def _server(sandbox: Sandbox) -> Server:
    return sandbox.brokers["broker-a"].server


async def _connect(sandbox: Sandbox, name: str = "broker-a") -> Stream:
    return await sandbox.connect(sandbox.brokers[name].address)


async def _is_served(sandbox: Sandbox) -> bool:
    peer = await Peer.of_broker(sandbox)
    answer = await peer.ask(Q.GET_MAX_OFFSET, topic="T", queueId=0)
    await peer.aclose()
    return answer.code == R.SUCCESS


@pytest.mark.parametrize("what", NO_FRAMES)
def test_what_is_no_frame_ends_its_connection_and_no_other(what: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Sandbox(clock=VirtualClock()) as sandbox:
            good = await Peer.of_broker(sandbox)
            for address in (sandbox.brokers["broker-a"].address, sandbox.addr):
                bad = await sandbox.connect(address)
                bad.write(NO_FRAMES[what])
                assert await bad.receive() == b""
            assert (await good.ask(Q.GET_MAX_OFFSET, topic="T", queueId=0)).code == R.SUCCESS
            assert len(_server(sandbox).channels) == 1

    run(scenario())
    assert caplog.records == []


async def test_a_frame_may_come_byte_by_byte() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        slow = await _connect(sandbox)
        _, data = Connection().send_request(Command(Q.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}))
        for at in range(len(data)):
            slow.write(data[at : at + 1])
            await sandbox.advance(1)
        assert b'"offset":"0"' in await slow.receive()


async def test_half_frames_are_held_up_to_a_limit_and_who_holds_most_has_to_go() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        server = _server(sandbox)
        server.limits = Limits(partial_bytes=1_000_000)
        announced = struct.pack(">II", 15_000_000, 100)
        honest = await _connect(sandbox)
        _, data = Connection().send_request(Command(Q.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}, bytes(50_000)))
        honest.write(data[:40_000])
        greedy = [await _connect(sandbox) for _ in range(20)]
        for stream in greedy:
            for _ in range(4):
                stream.write(announced + bytes(100_000))
                await sandbox.await_idle()
        held = [channel.held_bytes for channel in server.channels]
        assert sum(held) <= 1_000_000
        assert 40_000 in held
        honest.write(data[40_000:])
        assert b'"offset":"0"' in await honest.receive()
        for stream in greedy:
            await stream.aclose()
        await sandbox.await_idle()
        assert server._partial_bytes == 0


async def test_thousands_of_idle_connections_keep_nobody_out() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        server = _server(sandbox)
        server.limits = Limits(connection_count=100)
        old = await Peer.of_broker(sandbox)
        await old.heartbeat("old", consumer_data("G", subscription("T")))
        idle = [await _connect(sandbox) for _ in range(2_000)]
        await sandbox.await_idle()
        assert len(server.channels) <= 100
        assert await _is_served(sandbox)
        assert (await old.ask(Q.GET_MAX_OFFSET, topic="T", queueId=0)).code == R.SUCCESS
        assert await idle[0].receive() == b""  # the oldest went first
        await sandbox.advance(140)
        assert len(server.channels) <= 1  # idle ones are closed after two minutes


async def test_where_all_have_spoken_the_one_that_was_silent_longest_goes() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        _server(sandbox).limits = Limits(connection_count=3)
        peers = []
        for _ in range(3):
            peers.append(await Peer.of_broker(sandbox))
            await peers[-1].ask(Q.GET_MAX_OFFSET, topic="T", queueId=0)
            await sandbox.advance(1)
        await peers[0].ask(Q.GET_MAX_OFFSET, topic="T", queueId=0)
        assert await _is_served(sandbox)
        await sandbox.await_idle()
        assert [peer.is_closed for peer in peers] == [False, True, False]


async def _fill(sandbox: Sandbox, count: int, size_bytes: int) -> None:
    broker = sandbox.brokers["broker-a"]
    broker.topics.create_for_group("T", 1)
    for _ in range(count):
        broker.put(NewMessage("T", 0, bytes(size_bytes)))


def _pull(offset: int) -> Command:
    fields = {
        "consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": str(offset), "maxMsgNums": "32",
        "sysFlag": "4", "subscription": "*", "expressionType": "TAG", "subVersion": "0", "commitOffset": "0",
        "suspendTimeoutMillis": "0",
    }  # fmt: skip
    return Command(Q.PULL_MESSAGE, fields)


async def test_who_asks_and_never_reads_is_not_answered_without_bound() -> None:
    async with Sandbox() as sandbox:
        await _fill(sandbox, 32, 60_000)
        server = _server(sandbox)
        reader, writer = await asyncio.open_connection(*server.host_and_port, limit=1)
        asked = Connection()
        # 2,000 answers of 200 KiB would be 400 MB.
        writer.write(b"".join(asked.send_request(_pull(0))[1] for _ in range(2_000)))
        good = Peer(await connect_tcp(server.address, SystemClock(), 60))
        for _ in range(20):
            assert (await asyncio.wait_for(good.start(Q.GET_MAX_OFFSET, topic="T", queueId=0), 60)).code == R.SUCCESS
            assert max(channel.unsent_bytes for channel in server.channels) < 4_000_000
        await good.aclose()
        # And it hinders nobody from going.
        await asyncio.wait_for(sandbox.stop(), 60)
        writer.transport.abort()
        reader.feed_eof()


async def test_who_does_not_read_what_is_pushed_is_closed() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        server = _server(sandbox)
        server.limits = Limits(unsent_bytes=20_000, all_unsent_bytes=40_000, unsent_check_bytes=1_000)
        deaf = await _connect(sandbox)
        assert isinstance(deaf, MemoryStream)
        beat = {"clientID": "deaf", "consumerDataSet": [consumer_data("G", subscription("T"))]}
        deaf.write(Connection().send_request(Command(Q.HEART_BEAT, body=json.dumps(beat).encode()))[1])
        await sandbox.await_idle()
        other = await Peer.of_broker(sandbox)
        for turn in range(400):
            await other.heartbeat("other", consumer_data("G", subscription(f"T{turn}")))
        await sandbox.await_idle()
        assert len(server.channels) == 1
        group = sandbox.brokers["broker-a"].consumers.find("G")
        assert group is not None
        assert group.client_ids == ["other"]


async def test_requests_that_wait_are_bounded() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker = sandbox.brokers["broker-a"]
        broker.holds.max_count = 100
        answered: list[int] = []
        for number in range(110):
            broker.holds.hold([("T", 0)], 15, lambda _, number=number: answered.append(number))  # type: ignore[misc]
        assert answered == list(range(10))  # those that waited longest
        assert len(broker.holds) == broker.holds.count("T", 0) == 100
        await sandbox.advance(15)
        assert len(broker.holds) == 0
        assert len(answered) == 110


@pytest.mark.parametrize(("code", "pops"), [(Q.POP_MESSAGE, True), (Q.NOTIFICATION, False)])
async def test_requests_that_would_wait_anew_are_bounded_as_well(code: Q, pops: bool) -> None:
    """Who has to go and still has time would wait again, in the place of the next."""

    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker = sandbox.brokers["broker-a"]
        broker.holds.max_count = 3
        peer = await Peer.of_broker(sandbox)
        await peer.ask_ok(Q.SEND_MESSAGE_V2, b"x", **send_fields("T"))
        fields = {
            "topic": "T", "maxMsgNums": 1, "invisibleTime": 60_000, "pollTime": 15_000, "initMode": 1,
            "bornTime": broker.now_ms(),
        }  # fmt: skip
        pull = {"topic": "T", "queueOffset": 1, "maxMsgNums": 1, "sysFlag": 6, "subscription": "*"}
        waiting = [
            peer.start(code, consumerGroup=f"G{number}", queueId=1, **fields) for number in range(5)
        ]  # fmt: skip
        await sandbox.await_idle()
        assert [answer.done() for answer in waiting] == [False] * 3 + [True] * 2
        if pops:
            assert waiting[4].result().code == R.POLLING_FULL
        else:
            assert waiting[4].result().ext_fields["pollingFull"] == "true"
        peer.start(Q.PULL_MESSAGE, consumerGroup="G", queueId=0, suspendTimeoutMillis=15_000, **pull)
        await sandbox.await_idle()
        assert [answer.done() for answer in waiting] == [True] + [False] * 2 + [True] * 2
        assert len(broker.holds) == 3


async def test_all_together_do_not_leave_too_much_unread() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        server = _server(sandbox)
        server.limits = Limits(unsent_bytes=50_000, all_unsent_bytes=60_000, unsent_check_bytes=1_000)
        deaf = [await _connect(sandbox) for _ in range(10)]
        data = Connection().send_request(Command(Q.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}))[1]
        for stream in deaf:
            stream.write(data * 100)
            await sandbox.await_idle()
        assert 0 < sum(channel.unsent_bytes for channel in server.channels) <= 62_000
        assert 0 < len(server.channels) < 10


# What handlers get that nothing but a broken client would send.

_NAMES = """clientID clientId consumerDataSet producerDataSet consumerGroup mqSet topicName groupName topicConfigList
    groupConfigList acks brokerName subscriptionData topic"""
_FIELD_NAMES = """topic consumerGroup group queueId queueOffset offset timestamp maxMsgNums sysFlag a b c d e f g h i j
    k l m n brokerName clientId extraInfo invisibleTime pollTime bornTime order delayLevel originTopic readQueueNums
    perm namespace key value msgId commitOffset attributes topicFilterType isForce"""
_WRONG_WITHIN = {
    "clientID": "c",
    "consumerGroup": "G",
    "clientId": "c",
    "mqSet": [7, None, {"topic": []}, []],
    "consumerDataSet": [{"groupName": {}, "subscriptionDataSet": 7}, 7, None],
    "producerDataSet": [[], {"groupName": []}, {}],
    "topicConfigList": [7],
    "groupConfigList": [[]],
    "acks": [7],
}
BODIES: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"\xff\x00 nonsense {",
    "a number": b"7",
    "a list": b"[[],{},null]",
    "null": b"null",
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "wrong types": json.dumps({name: [{"a": None}, 7] for name in _NAMES.split()}).encode(),
    "wrong types within": json.dumps(_WRONG_WITHIN).encode(),
}
FIELDS: dict[str, dict[str, str]] = {
    "none": {},
    "of no sense": dict.fromkeys(_FIELD_NAMES.split(), "\x00\x01 \x02\u2028-99999999999999999999"),
    "enormous": {"topic": "T" * 100_000, "consumerGroup": "G" * 100_000, "queueId": "9" * 4_000, "b": "T" * 100_000},
}
NONSENSE = [(body, FIELDS[name]) for body in BODIES.values() for name in ("none", "of no sense")]
NONSENSE.append((b"", FIELDS["enormous"]))


@pytest.mark.parametrize("plays", PROFILES)
@pytest.mark.parametrize("kind", [BROKER, NAME_SERVER])
def test_every_handler_answers_nonsense_and_the_log_stays_short(
    kind: str, plays: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    codes = sorted(load(kind, PROFILES[plays]))

    async def scenario() -> None:
        async with Sandbox(plays=plays, clock=VirtualClock()) as sandbox:
            of = Peer.of_broker if kind == BROKER else Peer.of_name_server
            for code in codes:
                peer = await of(sandbox)
                answers = [peer.start(code, body, **fields) for body, fields in NONSENSE for _ in range(2)]
                await sandbox.await_idle()
                if not all(answer.done() for answer in answers):
                    await sandbox.advance(60)  # it asked other members, or held it
                assert all(answer.done() for answer in answers) or not peer.is_closed
                await peer.aclose()
            assert await _is_served(sandbox)

    run(scenario())
    assert not any(record.exc_info for record in caplog.records)
    assert len(caplog.records) <= 3 * len(codes)


def test_an_unexpected_failure_is_logged_once_for_each_place(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def scenario() -> None:
        async with Sandbox(clock=VirtualClock()) as sandbox:
            peer = await Peer.of_broker(sandbox)
            for _ in range(50):
                answer = await peer.ask(Q.HEART_BEAT, b'{"clientID":"c","consumerDataSet":[7]}')
                assert answer.code == R.SYSTEM_ERROR
                assert answer.remark

    run(scenario())
    assert len(caplog.records) <= 1


async def test_an_answer_that_fits_into_no_frame_is_an_error_and_the_connection_stays() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        for _ in range(6):
            await peer.ask_ok(Q.SEND_MESSAGE_V2, bytes(3 << 20), **send_fields("T", "KEYS\x01k\x02"))
        asked = {"topic": "T", "key": "k", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 2**62}
        answer = await peer.ask(Q.QUERY_MESSAGE, **asked)
        assert answer.code == R.SYSTEM_ERROR
        assert answer.remark is not None
        assert "frame limit" in answer.remark
        assert await _is_served(sandbox)
        assert not peer.is_closed


async def test_texts_that_are_no_unicode_hurt_nobody_else() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        odd, peer = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
        group = consumer_data("g", subscription("T"))
        await peer.heartbeat("c", group)
        await odd.heartbeat("\ud800", group)
        found = await peer.ask_json(Q.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")
        assert sorted(found["consumerIdList"]) == ["?", "c"]
        stream = await _connect(sandbox)
        stream.write(_frame(b'{"code":202,"opaque":1,"extFields":{"topic":"\\ud800"}}'))
        data = await stream.receive()
        assert b"not valid Unicode" in data
