"""Offsets that are reset, cloned and corrected."""

from __future__ import annotations

from typing import Any

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.java_json import loads
from rmqctl.sandbox import Sandbox
from tests.sandbox.peer import Peer
from tests.sandbox.progress import commit, join, pull, send
from tests.scripted_peer import run

RESET, CLONE = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, RequestCode.CLONE_GROUP_OFFSET
CORRECTION, QUERY = RequestCode.QUERY_CORRECTION_OFFSET, RequestCode.QUERY_CONSUMER_OFFSET
SHOWN, ASKED = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
OLD_PATH = {"useServerSideResetOffset": "false"}


def _table(body: bytes) -> dict[int, int]:
    return {queue["queueId"]: offset for queue, offset in loads(body)["offsetTable"].items()}


async def _stored(peer: Peer, group: str, topic: str, queue_id: int = 0) -> int:
    answer = await peer.ask_ok(QUERY, consumerGroup=group, topic=topic, queueId=queue_id)
    return int(answer.ext_fields["offset"])


async def _five_messages(sandbox: Sandbox) -> Peer:
    """Store five messages, ten seconds apart."""
    peer = await Peer.of_broker(sandbox)
    for _ in range(5):
        await send(peer, "T", 0)
        await sandbox.advance(10)
    return peer


async def test_the_next_pull_is_told_of_a_reset_and_commits_are_ignored_until_then() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _five_messages(sandbox)
        member = await join(sandbox, "one", "G", "T")
        await commit(peer, "G", "T", 0, 5)
        answer = await peer.ask_ok(RESET, group="G", topic="T", timestamp=0, isForce=False)
        assert _table(answer.body) == {0: 0, 1: 0}
        assert await _stored(peer, "G", "T") == 0
        assert (await commit(peer, "G", "T", 0, 5)).remark == "Offset has been previously reset"
        assert await _stored(peer, "G", "T") == 0
        answer = await pull(peer, "G", "T", 0, 5)
        assert (answer.code, answer.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
        assert answer.ext_fields["nextBeginOffset"] == "0"
        assert (await pull(peer, "G", "T", 0, 0)).code == ResponseCode.SUCCESS
        await commit(peer, "G", "T", 0, 3)
        assert await _stored(peer, "G", "T") == 3
        assert member.pushed == []


async def test_a_restart_keeps_the_offset_of_a_reset_but_not_the_mark() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _five_messages(sandbox)
        await (await join(sandbox, "one", "G", "T")).aclose()
        await peer.ask_ok(RESET, group="G", topic="T", timestamp=-1, isForce=True)
        await sandbox.brokers["broker-a"].restart()
        peer = await Peer.of_broker(sandbox)
        assert await _stored(peer, "G", "T") == 5
        await commit(peer, "G", "T", 0, 2)
        assert await _stored(peer, "G", "T") == 2


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"timestamp": -1}, {0: 5, 1: 0}),
        ({"timestamp": -7}, {0: 5, 1: 0}),
        ({}, {0: 0, 1: 0}),
        ({"timestamp": 1_800_000_020_000}, {0: 2, 1: 0}),
        ({"timestamp": 1_800_000_021_000}, {0: 3, 1: 0}),
        ({"timestamp": 1_900_000_000_000}, {0: 5, 1: 0}),
        ({"timestamp": -1, "queueId": 0}, {0: 5}),
        ({"timestamp": -1, "queueId": 0, "offset": -1}, {0: 5}),
        ({"timestamp": -1, "queueId": 0, "offset": 3}, {0: 3}),
        ({"timestamp": -1, "queueId": 0, "offset": 6}, {0: 6}),
        ({"timestamp": -1, "queueId": 9, "offset": 0}, {9: 0}),
        ({"timestamp": -1, "queueId": -1, "offset": 3}, {0: 5, 1: 0}),
        ({"timestamp": -1, "queueId": 0, "offset": 7}, "Target offset 7 not in consume queue range [0-5]"),
        ({"timestamp": -1, "queueId": 0, "offset": -2}, "Target offset -2 not in consume queue range [0-5]"),
    ],
)
async def test_where_a_reset_goes(fields: dict[str, int], expected: dict[int, int] | str) -> None:
    async with Sandbox(clock=VirtualClock(1_800_000_000_000)) as sandbox:
        peer = await _five_messages(sandbox)
        await (await join(sandbox, "one", "G", "T")).aclose()
        answer = await peer.ask(RESET, group="G", topic="T", isForce=True, **fields)
        if isinstance(expected, str):
            assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, expected)
        else:
            assert (answer.code, _table(answer.body)) == (ResponseCode.SUCCESS, expected)


async def test_resets_need_a_topic_and_a_group_that_there_are() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _five_messages(sandbox)
        answer = await peer.ask(RESET, group="G", topic="U", timestamp=-1)
        assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "Topic U does not exist")
        answer = await peer.ask(RESET, group="G", topic="T", timestamp=-1)
        assert (answer.code, answer.remark) == (
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "Group G does not exist"
        )  # fmt: skip


@pytest.mark.parametrize("language", ["JAVA", "CPP"])
async def test_4_9_leaves_a_reset_to_the_members(language: str) -> None:
    async with Sandbox(clock=VirtualClock(), plays="4.9.7") as sandbox:
        peer = await _five_messages(sandbox)
        members = [await join(sandbox, name, "G", "T") for name in ("one", "other")]
        for member in members:
            member.pushed.clear()
        await commit(peer, "G", "T", 0, 2)
        await commit(peer, "G", "T", 1, 0)
        admin = await Peer.of_broker(sandbox, language=language)
        answer = await admin.ask_ok(RESET, group="G", topic="T", timestamp=-1, isForce=True)
        assert _table(answer.body) == {0: 5, 1: 0}
        assert await _stored(peer, "G", "T") == 2
        for member in members:
            (push,) = member.pushed
            assert (push.code, push.is_oneway) == (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, True)
            assert push.ext_fields == {"topic": "T", "group": "G", "timestamp": "-1", "isForce": "false"}
            if language == "JAVA":
                assert push.body == answer.body
            else:
                assert loads(push.body)["offsetTable"][0] == {
                    "topic": "T", "brokerName": "broker-a", "queueId": 0, "offset": 5
                }  # fmt: skip


async def test_without_force_a_reset_by_the_members_goes_backwards_only() -> None:
    async with Sandbox(clock=VirtualClock(), plays="4.9.7") as sandbox:
        peer = await _five_messages(sandbox)
        await join(sandbox, "one", "G", "T")
        await commit(peer, "G", "T", 0, 2)
        await commit(peer, "G", "T", 1, 0)
        answer = await peer.ask_ok(RESET, group="G", topic="T", timestamp=-1, isForce=False)
        assert _table(answer.body)[0] == 2
        answer = await peer.ask_ok(RESET, group="G", topic="T", timestamp=0, isForce=False)
        assert _table(answer.body)[0] == 0


@pytest.mark.parametrize(
    ("after_s", "expected"), [(-100, 0), (0, 0), (20, 2), (24, 2), (25, 2), (26, 3), (40, 4), (4000, 4)]
)
async def test_4_9_takes_the_message_that_is_nearest_in_time(after_s: int, expected: int) -> None:
    clock = VirtualClock()
    start_ms = clock.now_ms()
    async with Sandbox(clock=clock, plays="4.9.7") as sandbox:
        peer = await _five_messages(sandbox)
        await join(sandbox, "one", "G", "T")
        await commit(peer, "G", "T", 0, 2)
        await commit(peer, "G", "T", 1, 0)
        at_ms = start_ms + after_s * 1000
        answer = await peer.ask_ok(RESET, group="G", topic="T", timestamp=at_ms, isForce=True)
        assert _table(answer.body)[0] == expected


def test_what_a_reset_by_the_members_needs() -> None:
    async def scenario(release: str, topic_code: int) -> None:
        async with Sandbox(
            clock=VirtualClock(), plays=release, settings=OLD_PATH if release[0] == "5" else {}
        ) as sandbox:
            peer = await _five_messages(sandbox)
            answer = await peer.ask(RESET, group="G", topic="U", timestamp=-1)
            assert (answer.code, answer.remark) == (
                topic_code, "[reset-offset] reset offset failed, no topic in this broker. topic=U"
            )  # fmt: skip
            await (await join(sandbox, "gone", "G", "T")).aclose()
            await commit(peer, "G", "T", 0, 2)
            answer = await peer.ask(RESET, group="G", topic="T", timestamp=-1)
            assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "THe consumer group <G> not exist")
            await commit(peer, "G", "T", 1, 2)
            answer = await peer.ask(RESET, group="G", topic="T", timestamp=-1)
            assert (answer.code, answer.remark) == (
                ResponseCode.CONSUMER_NOT_ONLINE,
                "Consumer not online, so can not reset offset, Group: G Topic: T Timestamp: -1",
            )
            await join(sandbox, "old", "G", "T", version=27)
            for code, fields in ((RESET, {"timestamp": -1}), (SHOWN, {})):
                answer = await peer.ask(code, group="G", topic="T", **fields)
                assert (answer.code, answer.remark) == (
                    ResponseCode.SYSTEM_ERROR, "the client does not support this feature. version=V3_0_6"
                )  # fmt: skip

    run(scenario("5.4.0", ResponseCode.TOPIC_NOT_EXIST))
    run(scenario("4.9.7", ResponseCode.SYSTEM_ERROR))


def _offsets_body(offset: int) -> bytes:
    return b'{"messageQueueTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:%d}}' % offset


def _shown(answer: Command) -> dict[str, dict[int, int]]:
    tables = loads(answer.body)["consumerTable"]
    return {client: {queue["queueId"]: at for queue, at in table.items()} for client, table in tables.items()}


async def test_members_are_asked_for_their_offsets_one_after_the_other() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        members = [await join(sandbox, name, "G", "T") for name in ("one", "silent", "third")]
        for member in members:
            member.pushed.clear()
        waiting = peer.start(SHOWN, group="G", topic="T")
        await sandbox.await_idle()
        one, silent, third = members
        assert [len(member.pushed) for member in members] == [1, 0, 0]
        assert (one.pushed[0].code, one.pushed[0].ext_fields) == (ASKED, {"topic": "T", "group": "G"})
        one.answer(one.pushed[0], Command(0, {}, _offsets_body(7)))
        await sandbox.advance(4.9)
        assert [len(member.pushed) for member in members] == [1, 1, 0]
        await sandbox.advance(0.2)
        third.answer(third.pushed[0], Command(0, {}, _offsets_body(9)))
        await sandbox.await_idle()
        assert _shown(waiting.result()) == {"one": {0: 7}, "third": {0: 9}}
        waiting = peer.start(SHOWN, group="G", topic="T", clientAddr="silent")
        await sandbox.await_idle()
        silent.answer(silent.pushed[1], Command(0, {}, b'{"messageQueueTable":17'))
        await sandbox.await_idle()
        assert _shown(waiting.result()) == {}
        assert len(one.pushed) == len(third.pushed) == 1


async def test_offsets_of_a_group_that_is_offline_are_an_error() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        answer = await (await Peer.of_broker(sandbox)).ask(SHOWN, group="G", topic="T")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").startswith("java.lang.NullPointerException")


async def test_clones() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker = sandbox.brokers["broker-a"]
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T")
        await send(peer, "U")
        for group in ("A", "B"):
            await (await join(sandbox, "gone", group, "T")).aclose()
        await commit(peer, "A", "T", 0, 5)
        await commit(peer, "A", "U", 0, 6)
        await commit(peer, "B", "T", 1, 1)

        async def clone(**fields: Any) -> tuple[dict[int, int] | None, dict[int, int] | None]:
            await peer.ask_ok(CLONE, srcGroup="A", destGroup="B", **fields)
            return broker.offsets.stored.get(("T", "B")), broker.offsets.stored.get(("U", "B"))

        assert await clone(offline=True) == ({1: 1}, None)
        assert await clone(offline=True, topic="None") == ({1: 1}, None)
        await join(sandbox, "one", "A", "T")
        assert await clone(offline=False, topic="U") == ({1: 1}, None)
        assert await clone(offline=False, topic="T") == ({0: 5}, None)
        assert await clone(offline=True, topic="U") == ({0: 5}, {0: 6})
        await commit(peer, "A", "T", 0, 8)
        assert await _stored(peer, "B", "T") == 5


async def test_corrections() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T")
        for group in ("A", "B"):
            await (await join(sandbox, "gone", group, "T")).aclose()
        await commit(peer, "A", "T", 0, 4)
        await commit(peer, "A", "T", 1, 9)
        await commit(peer, "B", "T", 0, 6)

        async def correct(compared: str, **fields: str) -> dict[str, int]:
            body = await peer.ask_json(CORRECTION, topic="T", compareGroup=compared, **fields)
            corrected: dict[str, int] = body["correctionOffsets"]
            return corrected

        assert await correct("B") == {"0": 4, "1": 9}
        await commit(peer, "A", "T", 0, -3)
        assert await correct("A") == {"0": 2**63 - 1, "1": 9}
        await commit(peer, "A", "T", 1, -3)
        answer = await peer.ask(CORRECTION, topic="T", compareGroup="A")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        # Looking at it with a filter deletes what is filtered out.
        assert await correct("B", filterGroups="A,nobody") == {"0": 6}
        assert await correct("A") == {"0": 6}


async def test_4_9_compares_with_nothing() -> None:
    async with Sandbox(clock=VirtualClock(), plays="4.9.7") as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T")
        await commit(peer, "A", "T", 0, -3)
        await commit(peer, "B", "T", 0, 6)
        body = await peer.ask_json(CORRECTION, topic="T", compareGroup="A")
        assert body == {"correctionOffsets": {"0": 6}}
