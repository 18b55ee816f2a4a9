"""Half messages: unseen until they are committed, checked while they are open, given up in the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.flags import MessageFlag
from rmqctl.protocol.message import iter_messages
from rmqctl.sandbox import Sandbox
from tests.sandbox.handlers.test_sending import BOTH, play
from tests.sandbox.peer import Peer
from tests.sandbox.sender import bodies, log_offset, pairs, read, send

HALVES, ENDED, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
COMMIT, ROLL_BACK = MessageFlag.TRANSACTION_COMMITTED, MessageFlag.TRANSACTION_ROLLED_BACK
FAST = {"transactionCheckInterval": "1000", "transactionTimeOut": "2000", "transactionCheckMax": "2"}


async def prepare(sandbox: Sandbox, peer: Peer, key: str, **properties: object) -> dict[str, Any]:
    """Send a half message of producer group P; return the fields that end it."""
    text = pairs(UNIQ_KEY=key, TRAN_MSG="true", PGROUP="P", TAGS="t", **properties)
    answer = await send(peer, "T", key.encode(), properties=text, e=1, f=4, g=sandbox.brokers["broker-a"].now_ms(), h=7)
    return {
        "producerGroup": "P", "tranStateTableOffset": answer.ext_fields["queueOffset"],
        "commitLogOffset": log_offset(answer),
    }  # fmt: skip


async def end(peer: Peer, fields: Mapping[str, Any], commit_or_rollback: int, **changes: Any) -> Command:
    return await peer.ask(RequestCode.END_TRANSACTION, **{**fields, "commitOrRollback": commit_or_rollback, **changes})


@BOTH
def test_a_half_message_is_seen_when_it_is_committed_and_never_when_it_is_rolled_back(plays: str) -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        kept, gone = await prepare(sandbox, peer, "kept"), await prepare(sandbox, peer, "gone")
        assert await bodies(peer, "T", 1) == []
        assert await bodies(peer, HALVES) == [b"kept", b"gone"]

        assert (await end(peer, gone, ROLL_BACK)).code == ResponseCode.SUCCESS
        assert (await end(peer, kept, COMMIT)).code == ResponseCode.SUCCESS
        (message,) = await read(peer, "T", 1)
        assert (message.stored_body, message.flag, message.sys_flag) == (b"kept", 7, COMMIT)
        assert message.prepared_transaction_offset == kept["commitLogOffset"]
        assert {"UNIQ_KEY": "kept", "TAGS": "t", "TRAN_MSG": "true"}.items() <= message.properties.items()
        assert ("REAL_TOPIC" in message.properties) == (plays == "4.9.7")

        await sandbox.advance(100)
        # 4.9 has no such topic for clients.
        store = sandbox.brokers["broker-a"].store
        ends = [store.message_at(ENDED, 0, offset) for offset in range(store.max_offset(ENDED, 0))]
        assert [each and each.stored_body for each in ends] == ([b"1", b"0"] if plays == "4.9.7" else [b"1,0,"])
        assert await bodies(peer, HALVES) == [b"kept", b"gone"]
        assert len(await bodies(peer, "T", 1)) == 1

    play(plays, scenario)


def test_ends_that_are_refused() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        fields = await prepare(sandbox, peer, "half", CHECK_IMMUNITY_TIME_IN_SECONDS=9)
        for changes, remark in (
            ({"producerGroup": "other"}, "The producer group wrong"),
            ({"tranStateTableOffset": 5}, "The transaction state table offset wrong"),
            ({"commitLogOffset": 10**9}, "Find prepared transaction message failed"),
        ):
            answer = await end(peer, fields, COMMIT, **changes)
            assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
        unknown = peer.start(RequestCode.END_TRANSACTION, **fields, commitOrRollback=0)
        await sandbox.advance(9)
        assert not unknown.done()
        # Too late for the producer itself, not for its answer to a check.
        await sandbox.advance(0.1)
        assert (await end(peer, fields, COMMIT)).code == ResponseCode.ILLEGAL_OPERATION
        assert await bodies(peer, "T", 1) == []
        assert (await end(peer, fields, COMMIT, fromTransactionCheck=True)).code == ResponseCode.SUCCESS
        assert await bodies(peer, "T", 1) == [b"half"]

    play("5.4.0", scenario)


@BOTH
def test_producers_are_asked_in_turn_until_the_message_is_given_up(plays: str) -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        producers = [await Peer.of_broker(sandbox) for _ in range(2)]
        for number, producer in enumerate(producers):
            await producer.heartbeat(f"p{number}", producers=("P",))
        await sandbox.advance(0.5)
        await prepare(sandbox, peer, "open")
        await sandbox.advance(1.9)
        assert producers[0].pushed == producers[1].pushed == []
        await sandbox.advance(4)

        asked = [push for producer in producers for push in producer.pushed]
        assert [len(producer.pushed) for producer in producers] == [1, 1]
        for push in asked:
            (half,) = iter_messages(push.body)
            assert (push.code, push.is_oneway) == (RequestCode.CHECK_TRANSACTION_STATE, True)
            assert (half.topic, half.queue_id, half.stored_body) == ("T", 1, b"open")
            assert push.ext_fields["transactionId"] == "open"
            assert push.ext_fields["tranStateTableOffset"] == half.properties["TRANSACTION_CHECK_TIMES"]
            assert ("bname" in push.ext_fields) == (plays == "5.4.0")
        assert {push.ext_fields["tranStateTableOffset"] for push in asked} == {"1", "2"}
        (given_up,) = await read(peer, GIVEN_UP)
        assert given_up.properties["TRANSACTION_CHECK_TIMES"] == "2"
        assert await bodies(peer, "T", 1) == []

        await peer.ask_ok(RequestCode.RESUME_CHECK_HALF_MESSAGE, msgId=given_up.offset_id)
        await sandbox.advance(1.1)
        assert len([push for producer in producers for push in producer.pushed]) == 3

    play(plays, scenario, settings=FAST)


@BOTH
def test_the_answer_to_a_check_ends_the_copy_that_was_checked(plays: str) -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        await peer.heartbeat("p", producers=("P",))
        for number in range(40):  # more than one page of what has ended
            await end(peer, await prepare(sandbox, peer, f"done{number}"), ROLL_BACK)
        await sandbox.advance(0.5)
        await prepare(sandbox, peer, "open")
        await sandbox.advance(3)
        (asked,) = peer.pushed
        fields = {name: asked.ext_fields[name] for name in ("tranStateTableOffset", "commitLogOffset")}
        await end(peer, {"producerGroup": "P", **fields}, COMMIT, fromTransactionCheck=True)
        await sandbox.advance(60)
        assert await bodies(peer, "T", 1) == [b"open"]
        assert len(peer.pushed) == 1
        assert await bodies(peer, GIVEN_UP) == []
        broker = sandbox.brokers["broker-a"]
        checked = broker.offsets.find("CID_RMQ_SYS_TRANS", HALVES, 0)
        assert checked == broker.store.max_offset(HALVES, 0)
        assert broker.offsets.find("CID_RMQ_SYS_TRANS", ENDED, 0) == broker.store.max_offset(ENDED, 0)

    play(plays, scenario, settings={**FAST, **({} if plays[0] == "4" else {"transactionOpBatchInterval": "100"})})


def test_a_message_with_a_time_of_its_own_is_checked_when_that_is_over() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        await peer.heartbeat("p", producers=("P",))
        await prepare(sandbox, peer, "late", CHECK_IMMUNITY_TIME_IN_SECONDS=10)
        await prepare(sandbox, peer, "soon")
        await sandbox.advance(9.9)
        assert {next(iter_messages(push.body)).stored_body for push in peer.pushed} == {b"soon"}
        await sandbox.advance(1.2)
        assert b"late" in {next(iter_messages(push.body)).stored_body for push in peer.pushed}

    play("5.4.0", scenario, settings={**FAST, "transactionCheckMax": "99"})


@BOTH
def test_a_restart_keeps_half_messages_and_in_5x_forgets_what_has_just_ended(plays: str) -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        fields = await prepare(sandbox, peer, "ended")
        await prepare(sandbox, peer, "open")
        await end(peer, fields, COMMIT)
        await sandbox.brokers["broker-a"].restart()
        again = await Peer.of_broker(sandbox)
        await again.heartbeat("p", producers=("P",))
        await sandbox.advance(3)
        asked = {next(iter_messages(push.body)).stored_body for push in again.pushed}
        assert asked == ({b"open"} if plays == "4.9.7" else {b"open", b"ended"})
        await again.aclose()

    play(plays, scenario, settings=FAST)


@pytest.mark.parametrize("properties", [{"TRAN_MSG": "true"}, {}], ids=["rejected", "only the flag"])
def test_half_messages_that_are_refused(properties: dict[str, str]) -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        answer = await send(peer, "T", b"half", properties=pairs(PGROUP="P", **properties), f=4)
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark is not None
        assert answer.remark.endswith("sending transaction message is forbidden")

    play("5.4.0", scenario, settings={"rejectTransactionMessage": "true"})
