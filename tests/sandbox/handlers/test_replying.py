"""Replies that a broker hands to the producer that waits for them."""

from __future__ import annotations

from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.properties import decode_properties
from rmqctl.sandbox import Sandbox
from tests.sandbox.handlers.test_sending import BOTH, play
from tests.sandbox.peer import Peer
from tests.sandbox.sender import bodies, pairs, send_fields

TOPIC = "DefaultCluster_REPLY_TOPIC"


def reply_fields(**changes: object) -> dict[str, object]:
    return send_fields(TOPIC, pairs(REPLY_TO_CLIENT="asks", CORRELATION_ID="c"), **changes)


@BOTH
def test_a_reply_goes_to_the_producer_that_waits_and_its_answer_back(plays: str) -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        asks = await Peer.of_broker(sandbox)
        await asks.heartbeat("asks", producers=("P",))
        waiting = peer.start(RequestCode.SEND_REPLY_MESSAGE_V2, b"reply", **reply_fields(h=7))
        await sandbox.await_idle()
        (push,) = asks.pushed
        assert (push.code, push.is_oneway, push.body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, False, b"reply")
        assert {"topic": TOPIC, "producerGroup": "P", "flag": "7"}.items() <= push.ext_fields.items()
        assert {"CORRELATION_ID", "PUSH_REPLY_TIME"} <= decode_properties(push.ext_fields["properties"]).keys()
        assert not waiting.done()
        asks.answer(push, Command(ResponseCode.SUCCESS))
        await sandbox.await_idle()
        assert waiting.result().code == ResponseCode.SUCCESS
        assert await bodies(peer, TOPIC) == [b"reply"]
        await asks.aclose()

    play(plays, scenario)


def test_a_reply_that_does_not_arrive_is_an_error_and_stored_all_the_same() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        asks = await Peer.of_broker(sandbox, refuses=True)
        absent = await peer.ask(RequestCode.SEND_REPLY_MESSAGE_V2, b"absent", **reply_fields())
        assert (absent.code, absent.ext_fields["queueOffset"]) == (ResponseCode.SYSTEM_ERROR, "0")
        assert absent.remark == "push reply message fail, channel of <asks> not found."
        await asks.heartbeat("asks", producers=("P", "P2"))
        refused = await peer.ask(RequestCode.SEND_REPLY_MESSAGE_V2, b"refused", **reply_fields())
        assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_ERROR, "push reply message to asksfail.")
        nameless = await peer.ask(RequestCode.SEND_REPLY_MESSAGE_V2, b"nameless", **reply_fields(i=""))
        assert nameless.remark == "reply message properties[REPLY_TO_CLIENT] is null"
        assert await bodies(peer, TOPIC) == [b"absent", b"refused", b"nameless"]

        silent = await Peer.of_broker(sandbox)
        await silent.heartbeat("silent", producers=("P",))
        waiting = peer.start(
            RequestCode.SEND_REPLY_MESSAGE_V2, b"late", **reply_fields(i=pairs(REPLY_TO_CLIENT="silent"))
        )
        await sandbox.advance(9.9)
        assert not waiting.done()
        await sandbox.advance(0.2)
        assert waiting.result().remark == "push reply message to silentfail."
        await asks.aclose()
        await silent.aclose()

    play("5.4.0", scenario)
