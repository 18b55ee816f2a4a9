"""Requests that a broker hands on to a client."""

from __future__ import annotations

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.message import iter_messages
from rmqctl.sandbox import Sandbox
from tests.sandbox.peer import Peer
from tests.sandbox.progress import join, send

INFO, DIRECTLY = RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY


async def test_request_and_answer_go_through_unchanged() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        admin, member = await Peer.of_broker(sandbox), await join(sandbox, "one", "G", "T")
        waiting = admin.start(INFO, b"more", consumerGroup="G", clientId="one", jstackEnable=True, unknown="kept")
        await sandbox.await_idle()
        (push,) = member.pushed
        assert (push.code, push.is_oneway, push.body) == (INFO, False, b"more")
        assert push.ext_fields == {
            "consumerGroup": "G", "clientId": "one", "jstackEnable": "true", "unknown": "kept"
        }  # fmt: skip
        member.answer(push, Command(17, {"x": "y"}, b"{}", remark="odd", language="GO", version=300))
        await sandbox.await_idle()
        answer = waiting.result()
        assert (answer.code, answer.remark, answer.body) == (17, "odd", b"{}")
        assert (answer.ext_fields, answer.language, answer.version) == ({"x": "y"}, "GO", 300)


async def test_several_at_once_each_get_their_own_answer() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        admins = [await Peer.of_broker(sandbox) for _ in range(3)]
        members = {name: await join(sandbox, name, "G", "T") for name in ("one", "other")}
        for member in members.values():
            member.pushed.clear()
        waiting = [
            admin.start(INFO, consumerGroup="G", clientId=name, tag=f"{number} {name}")
            for number, admin in enumerate(admins) for name in members
        ]  # fmt: skip
        await sandbox.await_idle()
        for member in members.values():
            assert len(member.pushed) == 3
            for push in reversed(member.pushed):
                member.answer(push, Command(0, {}, push.ext_fields["tag"].encode()))
        await sandbox.await_idle()
        assert [answer.result().body.decode() for answer in waiting] == [
            f"{number} {name}" for number in range(3) for name in members
        ]


@pytest.mark.parametrize(("release", "slash"), [("5.4.0", "/"), ("4.9.7", "")])
async def test_a_silent_client_is_waited_for_ten_seconds(release: str, slash: str) -> None:
    async with Sandbox(clock=VirtualClock(), plays=release) as sandbox:
        admin, member = await Peer.of_broker(sandbox), await join(sandbox, "one", "G", "T")
        waiting = admin.start(INFO, consumerGroup="G", clientId="one")
        await sandbox.advance(9.9)
        assert not waiting.done()
        await sandbox.advance(0.2)
        answer = waiting.result()
        assert answer.code == ResponseCode.CONSUME_MSG_TIMEOUT
        assert answer.remark == (
            "consumer <G> <one> Timeout: org.apache.rocketmq.remoting.exception.RemotingTimeoutException: wait "
            f"response on the channel <{slash}client> timeout, 10000(ms)"
        )
        # What comes too late is nobody's answer.
        member.answer(member.pushed[0], Command(0, {}, b"late"))
        assert (await member.ask(INFO, consumerGroup="G", clientId="two")).code == ResponseCode.SYSTEM_ERROR


async def test_a_client_that_goes_away_while_it_is_asked_is_waited_for_as_well() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        admin, member = await Peer.of_broker(sandbox), await join(sandbox, "one", "G", "T")
        waiting = admin.start(INFO, consumerGroup="G", clientId="one")
        await sandbox.advance(4)
        await member.aclose()
        await sandbox.advance(5.9)
        assert not waiting.done()
        await sandbox.advance(0.2)
        assert waiting.result().code == ResponseCode.CONSUME_MSG_TIMEOUT
        answer = await admin.ask(INFO, consumerGroup="G", clientId="one")
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "The Consumer <G> <one> not online")


async def test_who_can_not_be_asked() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        admin = await Peer.of_broker(sandbox)
        await join(sandbox, "old", "G", "T", version=61)
        for fields, remark in (
            ({"consumerGroup": "H", "clientId": "old"}, "The Consumer <H> <old> not online"),
            ({"consumerGroup": "G", "clientId": "new"}, "The Consumer <G> <new> not online"),
            ({"consumerGroup": "G"}, "The Consumer <G> <null> not online"),
            (
                {"consumerGroup": "G", "clientId": "old"},
                "The Consumer <old> Version <V3_1_7> too low to finish, please upgrade it to V3_1_8_SNAPSHOT",
            ),
        ):
            answer = await admin.ask(INFO, **fields)
            assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)


@pytest.mark.parametrize("release", ["5.4.0", "4.9.7"])
async def test_a_message_goes_along_to_be_consumed(release: str) -> None:
    async with Sandbox(clock=VirtualClock(), plays=release) as sandbox:
        admin, member = await Peer.of_broker(sandbox), await join(sandbox, "one", "G", "T")
        await send(admin, "T")
        offset_id = (await send(admin, "T", tag="TagA")).ext_fields["msgId"]
        waiting = admin.start(
            DIRECTLY, consumerGroup="G", clientId="one", msgId=offset_id.lower(), topic="T", brokerName="other"
        )
        await sandbox.await_idle()
        (push,) = member.pushed
        since_5 = {"topicSysFlag": "0", "groupSysFlag": "0"} if release == "5.4.0" else {}
        assert push.ext_fields == {
            "consumerGroup": "G", "clientId": "one", "msgId": offset_id.lower(), "topic": "T",
            "brokerName": "broker-a", **since_5,
        }  # fmt: skip
        (message,) = iter_messages(push.body)
        assert (message.topic, message.queue_offset, message.tags) == ("T", 1, "TagA")
        member.answer(push, Command(0, {}, b'{"consumeResult":"CR_SUCCESS"}'))
        await sandbox.await_idle()
        assert waiting.result().body == b'{"consumeResult":"CR_SUCCESS"}'


async def test_a_message_that_is_not_there_is_an_error_whoever_is_online() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        admin = await Peer.of_broker(sandbox)
        offset_id = (await send(admin, "T")).ext_fields["msgId"]
        for bad in (offset_id[:-1] + "1", offset_id[:16] + "0" * 8 + "F" * 8, "garbage", ""):
            answer = await admin.ask(DIRECTLY, consumerGroup="G", clientId="one", msgId=bad)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert (answer.remark or "").startswith("java.")
        answer = await admin.ask(DIRECTLY, consumerGroup="G", clientId="one", msgId=offset_id)
        assert answer.remark == "The Consumer <G> <one> not online"
