"""Messages that are sent back: their next attempt, the dead letters, what is lost."""

from __future__ import annotations

import pytest

from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox import Sandbox
from tests.sandbox.handlers.test_sending import BOTH, play
from tests.sandbox.peer import Peer
from tests.sandbox.sender import bodies, log_offset, pairs, read, send


async def back(peer: Peer, offset: int, **changes: object) -> Command:
    """Send a message back."""
    fields = {
        "offset": offset, "group": "G", "delayLevel": 0, "originMsgId": "U", "originTopic": "T", "unitMode": False,
        "maxReconsumeTimes": 16, **changes,
    }  # fmt: skip
    return await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **fields)


@BOTH
def test_each_attempt_waits_for_the_next_level_and_the_first_id_stays(plays: str) -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        offset = log_offset(await send(peer, "T", b"body", properties=pairs(UNIQ_KEY="U", TAGS="t"), h=5))
        (original,) = await read(peer, "T")
        assert (await back(peer, offset)).code == ResponseCode.SUCCESS
        await sandbox.advance(9.9)
        assert await read(peer, "%RETRY%G") == []
        await sandbox.advance(0.2)
        (first,) = await read(peer, "%RETRY%G")
        assert (first.reconsume_times, first.flag, first.born_at_ms) == (1, 5, original.born_at_ms)
        wanted = {
            "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": original.offset_id, "UNIQ_KEY": "U", "TAGS": "t", "WAIT": "false",
            "DELAY": "3", "REAL_TOPIC": "%RETRY%G", "REAL_QID": "0",
        }  # fmt: skip
        assert wanted.items() <= first.properties.items()
        await back(peer, first.commit_log_offset)
        await sandbox.advance(29.9)
        assert len(await read(peer, "%RETRY%G")) == 1
        await sandbox.advance(0.2)
        second = (await read(peer, "%RETRY%G"))[1]
        assert second.reconsume_times == 2
        assert second.properties["ORIGIN_MESSAGE_ID"] == original.offset_id
        assert sandbox.brokers["broker-a"].stats.total("SNDBCK_PUT_NUMS", "T@G") == 2

    play(plays, scenario)


@BOTH
@pytest.mark.parametrize("changes", [{"delayLevel": -1}, {"maxReconsumeTimes": 0}])
def test_dead_letters(plays: str, changes: dict[str, object]) -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        offset = log_offset(await send(peer, "T", b"body", e=3))
        assert (await back(peer, offset, **changes)).code == ResponseCode.SUCCESS
        (dead,) = await read(peer, "%DLQ%G")
        assert (dead.queue_id, dead.reconsume_times, dead.properties["DELAY"]) == (0, 1, "0")
        assert "REAL_TOPIC" not in dead.properties
        topic = sandbox.brokers["broker-a"].topics.find("%DLQ%G")
        assert topic is not None
        assert (topic.perm, topic.read_queue_count) == (6, 1)

    play(plays, scenario)


def test_the_groups_own_limit_counts_for_clients_that_name_none() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        sandbox.brokers["broker-a"].groups.put({"groupName": "G", "retryMaxTimes": 0})
        offset = log_offset(await send(peer, "T", b"body"))
        fields = {"offset": offset, "group": "G", "delayLevel": 0, "originTopic": "T"}
        await peer.ask_ok(RequestCode.CONSUMER_SEND_MSG_BACK, **fields)
        assert await bodies(peer, "%DLQ%G") == [b"body"]

    play("5.4.0", scenario)


@pytest.mark.parametrize("queue_count", [0, -1])
def test_without_retry_queues_a_message_is_lost_and_nobody_hears_of_it(queue_count: int) -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        broker = sandbox.brokers["broker-a"]
        broker.groups.put({"groupName": "G", "retryQueueNums": queue_count})
        offset = log_offset(await send(peer, "T", b"body"))
        assert (await back(peer, offset)).code == ResponseCode.SUCCESS
        assert broker.topics.find("%RETRY%G") is None
        assert broker.store.log.end == len((await read(peer, "T"))[0].record)

    play("5.4.0", scenario)


def test_refusals() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        broker = sandbox.brokers["broker-a"]
        offset = log_offset(await send(peer, "T", b"body"))
        middle = await back(peer, offset + 1)
        assert (middle.code, middle.remark) == (1, f"look message by offset failed, {offset + 1}")
        assert (await back(peer, offset, group="a b")).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        broker.topics.change("%RETRY%G", perm=4)
        closed = await back(peer, offset)
        assert closed.remark == "the topic[%RETRY%G] sending message is forbidden"
        assert closed.code == ResponseCode.NO_PERMISSION
        broker.refuse_writes()
        assert (await back(peer, offset)).remark == "the broker[127.0.0.1] sending message is forbidden"

    play("5.4.0", scenario)


def test_an_unknown_group_is_made_only_where_that_is_allowed() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        offset = log_offset(await send(peer, "T", b"body"))
        answer = await back(peer, offset)
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert sandbox.brokers["broker-a"].groups.find("G") is None

    play("5.4.0", scenario, settings={"autoCreateSubscriptionGroup": "false"})
