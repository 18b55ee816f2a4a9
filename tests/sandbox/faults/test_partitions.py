"""Clients that are cut off: nothing goes through either way, connections stay open, and the broker gives them up."""

from __future__ import annotations

from typing import Any

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.sandbox import Sandbox
from tests.sandbox.peer import Peer, consumer_data, subscription

G = consumer_data("G", subscription("T"))
_MAX = {"topic": "T", "queueId": 0}


def _members(sandbox: Sandbox, name: str = "broker-a") -> list[str]:
    group = sandbox.brokers[name].consumers.find("G")
    return [] if group is None else group.client_ids


async def _beat_on(sandbox: Sandbox, peer: Peer, seconds: int) -> None:
    """Let time pass for a client that is alive."""
    for _ in range(seconds // 30):
        await sandbox.advance(30)
        await peer.heartbeat("alive", G)


async def _cut_member(sandbox: Sandbox) -> Peer:
    """Return the member c of the group, which is cut off from all brokers."""
    peer = await Peer.of_broker(sandbox)
    await peer.heartbeat("c", G)
    sandbox.faults.partition("c")
    return peer


def _answered(future: Any) -> bool:
    return bool(future.done())


async def test_nothing_goes_in_or_out_and_nothing_is_closed_until_the_broker_gives_up() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        lost, alive = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
        await lost.heartbeat("lost", G)
        await alive.heartbeat("alive", G)
        await sandbox.await_idle()
        lost.pushed.clear()
        assert sandbox.faults.partition("lost") is True
        unanswered = lost.start(Q.GET_MAX_OFFSET, **_MAX)
        lost.start(Q.HEART_BEAT, {"clientID": "lost", "consumerDataSet": [G]})
        await _beat_on(sandbox, alive, 90)
        assert _members(sandbox) == ["lost", "alive"]
        alive.pushed.clear()
        await _beat_on(sandbox, alive, 60)
        assert _members(sandbox) == ["alive"]
        assert [push.code for push in alive.pushed] == [Q.NOTIFY_CONSUMER_IDS_CHANGED]
        assert (lost.pushed, _answered(unanswered), lost.is_closed) == ([], False, False)
        # The close comes through with everything else.
        assert sandbox.faults.heal("lost") == ["lost"]
        await sandbox.await_idle()
        assert lost.is_closed


async def test_who_is_healed_in_time_goes_on_with_the_same_connection() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _cut_member(sandbox)
        lost = peer.start(Q.GET_MAX_OFFSET, **_MAX)
        await sandbox.advance(60)
        sandbox.faults.heal()
        assert (await peer.ask(Q.GET_MAX_OFFSET, **_MAX)).code == R.SUCCESS
        assert not _answered(lost)
        assert _members(sandbox) == ["c"]


async def test_pushes_are_lost_and_so_is_the_answer_to_a_request_that_was_held() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, other = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
        await peer.heartbeat("c", G)
        await sandbox.await_idle()
        peer.pushed.clear()
        sandbox.brokers["broker-a"].topics.create_for_group("T", 1)
        held = peer.start(
            Q.PULL_MESSAGE, consumerGroup="G", topic="T", queueId=0, queueOffset=0, maxMsgNums=32, sysFlag=2,
            suspendTimeoutMillis=15_000, commitOffset=0, subVersion=1,
        )  # fmt: skip
        await sandbox.await_idle()
        sandbox.faults.partition("c")
        await other.heartbeat("other", G)
        await sandbox.advance(20)
        assert (peer.pushed, _answered(held), peer.is_closed) == ([], False, False)
        assert [push.code for push in other.pushed] == [Q.NOTIFY_CONSUMER_IDS_CHANGED]


async def test_a_client_can_be_cut_off_from_one_broker_alone() -> None:
    async with Sandbox(brokers=2, clock=VirtualClock()) as sandbox:
        a, b = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox, "broker-b")
        await a.heartbeat("c", G)
        await b.heartbeat("c", G)
        sandbox.faults.partition("c", server="broker-b")
        assert sandbox.faults.partitions == {"c": ["broker-b"]}
        assert (await a.ask(Q.GET_MAX_OFFSET, **_MAX)).code == R.SUCCESS
        unanswered = b.start(Q.GET_MAX_OFFSET, **_MAX)
        await sandbox.await_idle()
        assert not _answered(unanswered)
        sandbox.faults.partition("c")
        assert sandbox.faults.partitions == {"c": None}


async def test_the_end_of_a_connection_that_is_cut_is_not_noticed() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _cut_member(sandbox)
        await peer.aclose()
        await sandbox.advance(100)
        assert _members(sandbox) == ["c"]
        await sandbox.advance(40)
        assert _members(sandbox) == []
        assert len(sandbox.brokers["broker-a"].server.channels) == 0


async def test_the_end_of_a_connection_is_noticed_when_it_is_healed() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _cut_member(sandbox)
        await peer.aclose()
        await sandbox.await_idle()
        sandbox.faults.heal("c")
        await sandbox.await_idle()
        assert _members(sandbox) == []


_NAMING: dict[str, tuple[int, dict[str, Any], dict[str, Any]]] = {
    "heartbeat": (Q.HEART_BEAT, {"clientID": "c", "consumerDataSet": [G]}, {}),
    "unregister": (Q.UNREGISTER_CLIENT, {}, {"clientID": "c", "consumerGroup": "G"}),
    "lock": (Q.LOCK_BATCH_MQ, {"clientId": "c", "consumerGroup": "G", "mqSet": []}, {}),
    "unlock": (Q.UNLOCK_BATCH_MQ, {"clientId": "c", "consumerGroup": "G", "mqSet": []}, {}),
}
_SPEAKING: dict[str, tuple[int, dict[str, Any]]] = {
    "pull": (Q.PULL_MESSAGE, {"consumerGroup": "G", "topic": "T", "queueId": 0}),
    "lite pull": (Q.LITE_PULL_MESSAGE, {"consumerGroup": "G", "topic": "T", "queueId": 0}),
    "query offset": (Q.QUERY_CONSUMER_OFFSET, {"consumerGroup": "G", "topic": "T", "queueId": 0}),
    "update offset": (Q.UPDATE_CONSUMER_OFFSET, {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 1}),
    "send back": (Q.CONSUMER_SEND_MSG_BACK, {"group": "G", "offset": 0, "delayLevel": 0}),
    "members": (Q.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "G"}),
    "pop": (Q.POP_MESSAGE, {"consumerGroup": "G", "topic": "T", "queueId": -1}),
    "send": (Q.SEND_MESSAGE_V2, {"a": "P", "b": "T", "e": 0}),
}


@pytest.mark.parametrize("how", _NAMING)
async def test_a_new_connection_that_names_the_client_is_cut_as_well(how: str) -> None:
    code, body, fields = _NAMING[how]

    async with Sandbox(clock=VirtualClock()) as sandbox:
        sandbox.faults.partition("c")  # a client that nobody has seen yet
        new = await Peer.of_broker(sandbox)
        assert (await new.ask(Q.GET_MAX_OFFSET, **_MAX)).code == R.SUCCESS
        named = new.start(code, body, **fields)
        after = new.start(Q.GET_MAX_OFFSET, **_MAX)
        await sandbox.await_idle()
        assert (_answered(named), _answered(after), new.is_closed) == (False, False, False)
        assert _members(sandbox) == []


@pytest.mark.parametrize("how", _SPEAKING)
async def test_a_new_connection_that_speaks_for_a_group_of_the_client_is_taken_for_its(how: str) -> None:
    code, fields = _SPEAKING[how]

    async with Sandbox(clock=VirtualClock()) as sandbox:
        old, new = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
        other_kind = await Peer.of_broker(sandbox, language="PYTHON")
        await old.heartbeat("c", G, producers=("P",))
        sandbox.faults.partition("c")
        unanswered = new.start(code, **fields)
        await sandbox.await_idle()
        assert not _answered(unanswered)
        # A tool in another language that asks about the group is no client of that kind.
        assert (await other_kind.ask(Q.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="G")).code == R.SUCCESS
        # And who says that it is another one is believed.
        await new.heartbeat("another", G)
        assert (await new.ask(Q.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="G")).code == R.SUCCESS


async def test_groups_that_a_client_joins_while_it_is_cut_off_are_known_too() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        assert sandbox.faults.partition("c") is False
        one, other = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
        one.start(Q.HEART_BEAT, {"clientID": "c", "consumerDataSet": [G, 7, {"groupName": 7}]})
        await sandbox.await_idle()
        unanswered = other.start(Q.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="G")
        await sandbox.await_idle()
        assert not _answered(unanswered)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"clientID":7}', b'{"clientID":""}', b"\xff"])
async def test_a_heartbeat_that_names_nobody_tells_nothing(body: bytes) -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        sandbox.faults.partition("c")
        peer = await Peer.of_broker(sandbox)
        await peer.ask(Q.HEART_BEAT, body)
        assert (await peer.ask(Q.GET_MAX_OFFSET, **_MAX)).code == R.SUCCESS


async def test_a_partition_lasts_over_a_restart_of_the_broker() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        await (await Peer.of_broker(sandbox)).heartbeat("c", G)
        sandbox.faults.partition("c")
        await sandbox.brokers["broker-a"].restart()
        new = await Peer.of_broker(sandbox)
        unanswered = new.start(Q.HEART_BEAT, {"clientID": "c", "consumerDataSet": [G]})
        await sandbox.await_idle()
        assert not _answered(unanswered)
        sandbox.faults.heal("c")
        await new.heartbeat("c", G)
        assert _members(sandbox) == ["c"]


async def test_who_is_given_up_while_it_is_cut_off_sees_no_close_whatever_it_sends() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        lost = await Peer.of_broker(sandbox)
        await lost.heartbeat("lost", G)
        sandbox.faults.partition("lost")
        # Nor does what is lost count as heard.
        for _ in range(5):
            lost.tell(Q.HEART_BEAT, {"clientID": "lost", "consumerDataSet": [G]})
            await sandbox.advance(30)
        (channel,) = sandbox.brokers["broker-a"].server.channels
        assert channel.is_closed
        lost.tell(Q.HEART_BEAT, {"clientID": "lost", "consumerDataSet": [G]})
        await sandbox.await_idle()
        assert (_members(sandbox), lost.is_closed) == ([], False)
        sandbox.faults.heal("lost")
        await sandbox.await_idle()
        assert lost.is_closed
        assert not sandbox.brokers["broker-a"].server.channels
