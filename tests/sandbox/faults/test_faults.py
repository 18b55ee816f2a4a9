"""Faults on demand: each is seen by a client as what it stands for, strikes as often as asked, and leaves others be."""

from __future__ import annotations

import pytest

from rmqctl.errors import NotFoundError, UsageError
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.profile import PROFILES
from tests.sandbox.peer import Peer, consumer_data, subscription
from tests.sandbox.sender import batch_body, send, send_batch


def _sandbox(**options: object) -> Sandbox:
    return Sandbox(clock=VirtualClock(), **options)  # type: ignore[arg-type]


async def _max_offset(peer: Peer) -> Command:
    return await peer.ask(Q.GET_MAX_OFFSET, topic="T", queueId=0)


async def test_the_next_answers_are_replaced_and_counted() -> None:
    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        fault = sandbox.faults.answer(Q.GET_MAX_OFFSET, R.SYSTEM_BUSY, remark="slow down", count=2)
        assert (await peer.ask(Q.GET_MIN_OFFSET, topic="T", queueId=0)).code == R.SUCCESS
        for _ in range(2):
            answer = await _max_offset(peer)
            assert (answer.code, answer.remark) == (R.SYSTEM_BUSY, "slow down")
        assert (await _max_offset(peer)).code == R.SUCCESS
        assert (fault.left_count, fault.struck_count, sandbox.faults.planned) == (0, 2, [])


@pytest.mark.parametrize("plays", PROFILES)
@pytest.mark.parametrize("code", [R.FLUSH_DISK_TIMEOUT, R.FLUSH_SLAVE_TIMEOUT, R.SLAVE_NOT_AVAILABLE])
async def test_sends_with_codes_of_stored_messages_are_stored(plays: str, code: int) -> None:
    async with _sandbox(plays=plays) as sandbox:
        peer = await Peer.of_broker(sandbox)
        sandbox.faults.answer(None, code, count=4)
        places = [await send(peer, "T", b"one", e=0), await send_batch(peer, "T", batch_body((b"two", "")), e=0)]
        assert [(each.code, each.remark) for each in places] == [(code, None)] * 2
        assert [each.ext_fields["queueOffset"] for each in places] == ["0", "1"]
        assert all(each.ext_fields["msgId"] for each in places)
        # What is refused is not stored; other requests are only answered.
        assert (await send(peer, "a b")).code not in (code, R.SUCCESS)
        assert (await _max_offset(peer)).code == code
        assert (await _max_offset(peer)).ext_fields["offset"] == "2"


def test_a_code_that_is_a_text_is_refused() -> None:
    faults = _sandbox().faults
    for codes in (("SEND_MESSAGE_V2", 2), (310, "SYSTEM_BUSY"), (-5, 2), (310, -1)):
        with pytest.raises(UsageError, match="is not a number"):
            faults.answer(*codes)
    assert faults.planned == []


async def test_a_fault_of_one_server_leaves_the_others_be_and_one_without_end_stays() -> None:
    async with _sandbox(brokers=2) as sandbox:
        a, b = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox, "broker-b")
        names = await Peer.of_name_server(sandbox)
        fault = sandbox.faults.answer(None, R.NO_PERMISSION, server="broker-b", count=None)
        for _ in range(5):
            assert (await _max_offset(a)).code == R.SUCCESS
            assert (await _max_offset(b)).code == R.NO_PERMISSION
            assert (await names.ask(Q.GET_BROKER_CLUSTER_INFO)).code == R.SUCCESS
        assert (fault.left_count, fault.struck_count) == (None, 5)
        sandbox.faults.clear()
        assert (await _max_offset(b)).code == R.SUCCESS


async def test_the_first_of_two_faults_strikes_first() -> None:
    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        sandbox.faults.answer(Q.GET_MAX_OFFSET, R.SYSTEM_BUSY)
        sandbox.faults.answer(None, R.NO_PERMISSION)
        codes = [(await _max_offset(peer)).code for _ in range(3)]
        assert codes == [R.SYSTEM_BUSY, R.NO_PERMISSION, R.SUCCESS]


async def test_drop_closes_the_connection_and_silence_leaves_it_open() -> None:
    async with _sandbox() as sandbox:
        one, other = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
        sandbox.faults.drop(Q.GET_MAX_OFFSET)
        one.start(Q.GET_MAX_OFFSET, topic="T", queueId=0)
        await sandbox.await_idle()
        assert one.is_closed
        sandbox.faults.silence(Q.GET_MAX_OFFSET)
        unanswered = other.start(Q.GET_MAX_OFFSET, topic="T", queueId=0)
        await sandbox.advance(60)
        assert not other.is_closed
        assert not unanswered.done()
        assert (await _max_offset(other)).code == R.SUCCESS


async def test_a_delayed_request_is_done_later_and_others_pass_it() -> None:
    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        sandbox.faults.delay(30, Q.HEART_BEAT)
        body = {"clientID": "late", "consumerDataSet": [consumer_data("G", subscription("T"))]}
        answer = peer.start(Q.HEART_BEAT, body)
        assert (await _max_offset(peer)).code == R.SUCCESS
        await sandbox.advance(29.9)
        assert not answer.done()
        assert sandbox.brokers["broker-a"].consumers.find("G") is None
        await sandbox.advance(0.1)
        assert answer.result().code == R.SUCCESS
        assert sandbox.brokers["broker-a"].consumers.find("G") is not None


async def test_a_request_that_was_delayed_beyond_a_restart_is_not_done() -> None:
    async with _sandbox() as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        sandbox.faults.delay(30, Q.HEART_BEAT)
        peer.start(Q.HEART_BEAT, {"clientID": "late", "producerDataSet": [{"groupName": "P"}]})
        await sandbox.await_idle()
        await broker.restart()
        await sandbox.advance(60)
        assert broker.producers.groups == {}


async def test_a_member_whose_heartbeat_came_after_its_connection_had_ended_expires() -> None:
    async with _sandbox() as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        sandbox.faults.delay(10, Q.HEART_BEAT)
        peer.start(Q.HEART_BEAT, {"clientID": "late", "producerDataSet": [{"groupName": "P"}]})
        await sandbox.await_idle()
        await peer.aclose()
        await sandbox.advance(10)
        assert len(broker.producers.groups["P"]) == 1
        await sandbox.advance(140)
        assert broker.producers.groups == {}


async def test_a_corrupt_answer_cannot_be_read_and_what_was_asked_is_done() -> None:
    async with _sandbox() as sandbox:
        stream = await sandbox.connect(sandbox.brokers["broker-a"].address)
        helper = await Peer.of_broker(sandbox)
        sandbox.faults.corrupt(Q.HEART_BEAT)
        body = b'{"clientID":"c","producerDataSet":[{"groupName":"P"}]}'
        _, data = helper._connection.send_request(Command(Q.HEART_BEAT, body=body))
        stream.write(data)
        await sandbox.await_idle()
        frame = await stream.receive()
        assert len(frame) == 4 + int.from_bytes(frame[:4], "big")  # the length is right
        assert frame[8] == 0xFF  # where a JSON header begins with {
        members = sandbox.brokers["broker-a"].producers.groups["P"]
        assert [member.client_id for member in members.values()] == ["c"]
        await stream.aclose()
        await sandbox.await_idle()
        assert sandbox.brokers["broker-a"].producers.groups == {}


async def test_a_broker_that_refuses_writes_says_so_in_its_routes() -> None:
    async with _sandbox() as sandbox:
        names, broker = await Peer.of_name_server(sandbox), sandbox.brokers["broker-a"]

        async def perm() -> int:
            route = await names.ask_json(Q.GET_ROUTEINFO_BY_TOPIC, topic="BenchmarkTest")
            result: int = route["queueDatas"][0]["perm"]
            return result

        assert await perm() == 6
        broker.refuse_writes()
        assert await perm() == 4
        broker.refuse_writes(False)
        assert await perm() == 6


@pytest.mark.parametrize("count", [0, -1])
async def test_mistakes(count: int) -> None:
    sandbox = _sandbox(brokers=2)
    with pytest.raises(UsageError):
        sandbox.faults.drop(count=count)
    with pytest.raises(UsageError):
        sandbox.faults.delay(-1)
    with pytest.raises(NotFoundError, match=r"Server brokr-b does not exist\.") as raised:
        sandbox.faults.drop(server="brokr-b")
    assert raised.value.hint is not None
    assert "Did you mean broker-b" in raised.value.hint
    with pytest.raises(NotFoundError, match=r"Server x does not exist\."):
        sandbox.faults.partition("c", server="x")
    with pytest.raises(UsageError, match="name server"):
        sandbox.faults.partition("c", server="namesrv")
    assert (sandbox.faults.planned, sandbox.faults.partitions) == ([], {})


async def test_what_comes_together_with_a_request_that_is_dropped_is_lost_as_well() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        sandbox.faults.drop(Q.GET_MAX_OFFSET)
        for code in (Q.GET_MAX_OFFSET, Q.UPDATE_AND_CREATE_TOPIC):
            peer.tell(
                code, topic="T", queueId=0, readQueueNums=1, writeQueueNums=1, perm=6, topicFilterType="SINGLE_TAG"
            )
        await sandbox.await_idle()
        assert peer.is_closed
        assert sandbox.brokers["broker-a"].topics.find("T") is None
        await peer.aclose()
