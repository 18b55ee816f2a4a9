"""How pulls are checked, answered, held and woken."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.flags import PullFlag
from rmqctl.protocol.message import iter_messages
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.topics.table import Topic
from tests.sandbox.peer import Peer, consumer_data, subscription
from tests.sandbox.progress import commit, send
from tests.scripted_peer import run

PULL, LITE_PULL = RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE
OWN, COMMIT, WAIT = PullFlag.SUBSCRIPTION, PullFlag.COMMIT_OFFSET, PullFlag.SUSPEND
STORED = RequestCode.QUERY_CONSUMER_OFFSET

RELEASES = pytest.mark.parametrize("plays", ["4.9.7", "5.4.0"])


def _fields(**changes: Any) -> dict[str, Any]:
    return {
        "consumerGroup": "G", "topic": "T", "queueId": 0, "queueOffset": 0, "maxMsgNums": 32, "sysFlag": OWN,
        "commitOffset": 0, "suspendTimeoutMillis": 15000, "subscription": "*", "subVersion": 0,
        "expressionType": "TAG", **changes,
    }  # fmt: skip


def _offsets(answer: Command) -> list[int]:
    return [message.queue_offset for message in iter_messages(answer.body)]


def _sandbox(**options: Any) -> Sandbox:
    return Sandbox(clock=VirtualClock(), **options)


@RELEASES
async def test_a_pull_returns_as_many_messages_as_the_settings_allow(plays: str) -> None:
    settings = {"maxTransferCountOnMessageInMemory": "50", "maxTransferBytesOnMessageInMemory": "65536"}
    async with _sandbox(plays=plays, settings=settings) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T", count=60)
        many = await peer.ask(PULL, **_fields(maxMsgNums=100))
        few = await peer.ask(PULL, **_fields(maxMsgNums=7))
        await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, b"maxTransferCountOnMessageInMemory=20")
        changed = await peer.ask(PULL, **_fields(maxMsgNums=100))
        await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, b"maxTransferBytesOnMessageInMemory=1")
        one = await peer.ask(PULL, **_fields(maxMsgNums=100))
    assert [len(_offsets(each)) for each in (many, few, changed, one)] == [50, 7, 20, 1]


@RELEASES
@pytest.mark.parametrize(
    ("offset", "code", "status", "next_offset"),
    [
        (0, ResponseCode.SUCCESS, "FOUND", 3), (2, ResponseCode.SUCCESS, "FOUND", 3),
        (3, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 3),
        (4, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 3),
        (-1, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0),
    ],
)  # fmt: skip
async def test_each_status_says_where_to_go_on(
    plays: str, offset: int, code: ResponseCode, status: str, next_offset: int
) -> None:
    async with _sandbox(plays=plays) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T", count=3)
        answer = await peer.ask(PULL, **_fields(queueOffset=offset))
        expected = {"suggestWhichBrokerId": "0", "minOffset": "0", "maxOffset": "3"}
        if plays == "5.4.0":
            expected |= {"topicSysFlag": "0", "groupSysFlag": "0"}
        assert (answer.code, answer.remark) == (code, status)
        assert answer.ext_fields == {**expected, "nextBeginOffset": str(next_offset)}


async def test_a_queue_that_lost_its_oldest_messages_tells_where_it_begins() -> None:
    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        broker = sandbox.brokers["broker-a"]
        await send(peer, "T", count=2)
        await sandbox.advance(1)
        await send(peer, "T")
        broker.store.drop_stored_before(broker.now_ms())
        answer = await peer.ask(PULL, **_fields())
        assert (answer.code, answer.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL")
        assert answer.ext_fields["nextBeginOffset"] == answer.ext_fields["minOffset"] == "2"
        assert _offsets(await peer.ask(PULL, **_fields(queueOffset=2))) == [2]


async def test_a_pull_takes_32_messages_or_256_kib() -> None:
    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T", count=40)
        assert len(_offsets(await peer.ask(PULL, **_fields(maxMsgNums=100)))) == 32
        assert _offsets(await peer.ask(PULL, **_fields(maxMsgNums=0))) == [0]
        for _ in range(3):
            await peer.ask_ok(
                RequestCode.SEND_MESSAGE_V2, b"x" * 100_000, a="P", b="Big", c="TBW102", d=1, e=0, f=0, g=0, h=0,
                i="", j=0, k=False,
            )  # fmt: skip
        assert _offsets(await peer.ask(PULL, **_fields(topic="Big"))) == [0, 1]


async def test_a_pull_looks_at_800_messages_and_goes_on_from_there() -> None:
    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T", count=801, tag="TagA")
        await send(peer, "T", tag="TagB")
        answer = await peer.ask(PULL, **_fields(subscription="TagB"))
        assert (answer.code, answer.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
        assert answer.ext_fields["nextBeginOffset"] == "800"
        assert _offsets(await peer.ask(PULL, **_fields(subscription="TagB", queueOffset=800))) == [801]


@RELEASES
async def test_what_a_pull_is_refused_for(plays: str) -> None:
    async with _sandbox(plays=plays) as sandbox:
        peer = await Peer.of_broker(sandbox)
        broker = sandbox.brokers["broker-a"]
        await send(peer, "T")

        async def refusal(**changes: Any) -> tuple[int, str | None, str | None]:
            answer = await peer.ask(PULL, **_fields(**changes))
            return answer.code, answer.remark, answer.ext_fields.get("forbiddenType")

        def forbidden(number: int) -> str | None:
            return str(number) if plays == "5.4.0" else None

        code, remark, _ = await refusal(topic="None")
        assert code == ResponseCode.TOPIC_NOT_EXIST
        assert remark is not None
        assert remark.startswith("topic[None] not exist, apply first please! \nSee http")
        code, remark, _ = await refusal(queueId=2)
        assert code == (ResponseCode.INVALID_PARAMETER if plays == "5.4.0" else ResponseCode.SYSTEM_ERROR)
        assert remark == "queueId[2] is illegal, topic:[T] topicConfig.readQueueNums:[2] consumer:[/client]"
        assert (await refusal(subscription="||"))[0] == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert (await refusal(queueOffset="x"))[0] == ResponseCode.SYSTEM_ERROR
        broker.topics.put(Topic("Closed", 1, 1, perm=2))
        assert await refusal(topic="Closed") == (
            ResponseCode.NO_PERMISSION, "the topic[Closed] pulling message is forbidden", forbidden(3)
        )  # fmt: skip
        broker.groups.put({**broker.groups.default("G"), "consumeEnable": False})
        assert await refusal() == (
            ResponseCode.NO_PERMISSION, "subscription group no permission, G", forbidden(2)
        )  # fmt: skip
        broker.settings.update({"brokerPermission": "2"})
        assert await refusal() == (
            ResponseCode.NO_PERMISSION, "the broker[127.0.0.1] pulling message is forbidden", forbidden(1)
        )  # fmt: skip


async def test_a_group_that_may_not_be_made_is_unknown() -> None:
    async with _sandbox(settings={"autoCreateSubscriptionGroup": "false"}) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T")
        answer = await peer.ask(PULL, **_fields())
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert (await peer.ask(PULL, **_fields(consumerGroup="TOOLS_CONSUMER"))).code == ResponseCode.SUCCESS


@RELEASES
async def test_what_a_pull_by_the_groups_subscription_is_refused_for(plays: str) -> None:
    async with _sandbox(plays=plays) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T")

        async def answer_code(version_ms: int = 5) -> tuple[int, str]:
            answer = await peer.ask(PULL, **_fields(sysFlag=0, subVersion=version_ms))
            return answer.code, (answer.remark or "").partition("\n")[0]

        missing = ResponseCode.SUBSCRIPTION_NOT_EXIST
        assert await answer_code() == (missing, "the consumer's group info not exist")
        await peer.heartbeat("one", consumer_data("G", subscription("Other")))
        assert await answer_code() == (missing, "the consumer's subscription not exist")
        await peer.heartbeat("one", consumer_data("G", subscription("T", version_ms=5)))
        assert await answer_code(4) == (ResponseCode.SUCCESS, "FOUND")
        assert await answer_code(5) == (ResponseCode.SUCCESS, "FOUND")
        assert await answer_code(6) == (
            ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
        )  # fmt: skip
        groups = sandbox.brokers["broker-a"].groups
        groups.put({**groups.default("G"), "consumeBroadcastEnable": False})
        await peer.heartbeat("one", consumer_data("G", subscription("T"), model="BROADCASTING"))
        assert await answer_code() == (
            ResponseCode.NO_PERMISSION, "the consumer group[G] can not consume by broadcast way"
        )  # fmt: skip
        groups.put(groups.default("G"))
        groups.forbidden.add(("G", "T"))
        assert await answer_code() == (
            ResponseCode.NO_PERMISSION, "the consumer group[G] is forbidden for topic[T]"
        )  # fmt: skip


async def test_pull_consumers_can_be_turned_away() -> None:
    async with _sandbox(settings={"rejectPullConsumerEnable": "true"}) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T")
        active = consumer_data("G", subscription("T"), consumeType="CONSUME_ACTIVELY")
        await peer.heartbeat("one", active)
        answer = await peer.ask(PULL, **_fields())
        assert answer.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        assert "the pull consumer is rejected by server." in (answer.remark or "")
        assert (await peer.ask(PULL, **_fields(consumerGroup="TOOLS_CONSUMER"))).code == ResponseCode.SUCCESS
        await peer.heartbeat("one", consumer_data("G", subscription("T")))
        assert (await peer.ask(PULL, **_fields())).code == ResponseCode.SUCCESS


async def test_lite_pulls_can_be_switched_off() -> None:
    async with _sandbox(settings={"litePullMessageEnable": "false"}) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T")
        answer = await peer.ask(LITE_PULL, **_fields())
        assert (answer.code, answer.ext_fields) == (ResponseCode.NO_PERMISSION, {"forbiddenType": "1"})
        assert (await peer.ask(PULL, **_fields())).code == ResponseCode.SUCCESS


async def _wait(sandbox: Sandbox, peer: Peer, **changes: Any) -> asyncio.Future[Command]:
    waiting = peer.start(PULL, **_fields(sysFlag=OWN | WAIT, **changes))
    await sandbox.await_idle()
    return waiting


async def test_a_pull_waits_for_a_message_that_it_wants() -> None:
    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T", tag="TagA")
        waiting = await _wait(sandbox, peer, queueOffset=1, subscription="TagA")
        elsewhere = await _wait(sandbox, peer, queueId=1, subscription="TagA")
        await send(peer, "T", tag="TagB")
        await sandbox.advance(4.9)
        assert not waiting.done()
        await send(peer, "T", tag="TagA")
        await sandbox.await_idle()
        assert _offsets(waiting.result()) == [2]
        assert not elsewhere.done()


async def test_a_pull_that_waits_is_told_within_5_s_of_what_it_does_not_want() -> None:
    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T", tag="TagA")
        waiting = await _wait(sandbox, peer, queueOffset=1, subscription="TagA")
        await sandbox.advance(3)
        await send(peer, "T", tag="TagB")
        await sandbox.advance(5)
        assert waiting.result().code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert waiting.result().ext_fields["nextBeginOffset"] == "2"


async def test_a_pull_by_an_expression_wakes_for_what_passes() -> None:
    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T")
        waiting = await _wait(
            sandbox, peer, queueOffset=1, subscription="TAGS = 'TagA'", expressionType="SQL92"
        )  # fmt: skip
        await send(peer, "T", tag="TagB")
        await sandbox.await_idle()
        assert not waiting.done()
        await send(peer, "T", tag="TagA")
        await sandbox.await_idle()
        assert _offsets(waiting.result()) == [2]


@pytest.mark.parametrize(("settings", "seconds"), [({}, 15.0), ({"longPollingEnable": "false"}, 1.0)])
def test_a_wait_ends_when_its_time_is_over(settings: dict[str, str], seconds: float) -> None:
    async def scenario() -> None:
        async with _sandbox(settings=settings) as sandbox:
            peer = await Peer.of_broker(sandbox)
            await send(peer, "T")
            waiting = await _wait(sandbox, peer, queueOffset=1)
            await sandbox.advance(seconds - 0.1)
            assert not waiting.done()
            await sandbox.advance(0.1)
            assert (waiting.result().code, waiting.result().remark) == (
                ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE"
            )  # fmt: skip

    run(scenario())


async def test_a_pull_that_was_held_is_checked_again() -> None:
    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T")
        waiting = await _wait(sandbox, peer, queueOffset=1)
        await peer.ask_ok(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
        await sandbox.await_idle()
        assert waiting.result().code == ResponseCode.TOPIC_NOT_EXIST


async def test_the_commit_flag_stores_an_offset_once() -> None:
    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T")

        async def stored() -> str:
            answer = await peer.ask_ok(STORED, consumerGroup="G", topic="T", queueId=0)
            return answer.ext_fields["offset"]

        await peer.ask(PULL, **_fields(sysFlag=OWN | COMMIT, subscription="||", commitOffset=3))
        assert await stored() == "0"
        await peer.ask(PULL, **_fields(sysFlag=OWN | COMMIT, queueOffset=99, commitOffset=7))
        assert await stored() == "7"
        await peer.ask(PULL, **_fields(sysFlag=OWN, commitOffset=8))
        assert await stored() == "7"
        waiting = peer.start(PULL, **_fields(sysFlag=OWN | COMMIT | WAIT, queueOffset=1, commitOffset=1))
        await sandbox.await_idle()
        assert await stored() == "1"
        await commit(peer, "G", "T", 0, 5)
        await send(peer, "T")
        await sandbox.await_idle()
        assert _offsets(waiting.result()) == [1]
        assert await stored() == "5"


async def test_a_pull_that_takes_a_reset_commits_over_it() -> None:
    """As in RocketMQ: the reset's mark is gone when the pull's own offset is stored."""

    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T", count=3)
        offsets = sandbox.brokers["broker-a"].offsets
        offsets.reset("G", "T", 0, 1)
        answer = await peer.ask(PULL, **_fields(sysFlag=OWN | COMMIT, queueOffset=3, commitOffset=3))
        assert (answer.remark, answer.ext_fields["nextBeginOffset"]) == ("OFFSET_RESET", "1")
        assert offsets.find("G", "T", 0) == 3


async def test_pulls_of_a_connection_that_is_gone_hurt_nobody() -> None:
    async with _sandbox() as sandbox:
        peer, other = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
        await send(peer, "T")
        await _wait(sandbox, peer, queueOffset=1)
        waiting = await _wait(sandbox, other, queueOffset=1)
        await peer.aclose()
        await send(other, "T")
        await sandbox.await_idle()
        assert _offsets(waiting.result()) == [1]


async def test_pulls_of_a_connection_that_is_gone_wait_no_longer() -> None:
    async with _sandbox() as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        await send(peer, "T")
        await _wait(sandbox, peer, queueOffset=1)
        assert len(broker.holds) == 1
        await peer.aclose()
        await sandbox.await_idle()
        assert len(broker.holds) == 0


async def test_a_held_pull_that_fails_is_answered_and_so_are_the_others() -> None:
    async with _sandbox() as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T")
        failing = await _wait(sandbox, peer, queueOffset=1, consumerGroup="Broken")
        waiting = await _wait(sandbox, peer, queueOffset=1)
        del sandbox.brokers["broker-a"].groups.groups["Broken"]["consumeEnable"]
        await send(peer, "T")
        await sandbox.await_idle()
        assert failing.result().code == ResponseCode.SYSTEM_ERROR
        assert _offsets(waiting.result()) == [1]
