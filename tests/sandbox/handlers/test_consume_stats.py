"""How far groups have come, as brokers tell it."""

from __future__ import annotations

from typing import Any

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.sandbox import Sandbox
from tests.sandbox.peer import Peer, consumer_data, subscription
from tests.sandbox.progress import commit, join, pull, send

STATS, ALL_STATS = RequestCode.GET_CONSUME_STATS, RequestCode.GET_BROKER_CONSUME_STATS
WHO, TOPICS = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, RequestCode.QUERY_TOPICS_BY_CONSUMER
SUBSCRIPTION, SPAN = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, RequestCode.QUERY_CONSUME_TIME_SPAN
ENTRIES = RequestCode.QUERY_CONSUME_QUEUE


def _table(body: Any) -> dict[str, dict[str, int]]:
    return {f"{queue['topic']}:{queue['queueId']}": entry for queue, entry in body["offsetTable"].items()}


async def _offline(sandbox: Sandbox, group: str, topic: str) -> Peer:
    """Let a group be configured by a client that leaves at once; return a client that is in no group."""
    await (await join(sandbox, "passer-by", group, topic)).aclose()
    await sandbox.await_idle()
    return await Peer.of_broker(sandbox)


async def test_progress_of_queues() -> None:
    clock = VirtualClock()
    async with Sandbox(clock=clock) as sandbox:
        peer = await _offline(sandbox, "G", "T")
        await send(peer, "T", 0, count=4)
        stored_at_ms = clock.now_ms()
        await commit(peer, "G", "T", 0, 2)
        await sandbox.advance(5)
        await pull(peer, "G", "T", 0, 2)
        await sandbox.advance(5)
        body = await peer.ask_json(STATS, consumerGroup="G")
        assert _table(body) == {
            "T:0": {"brokerOffset": 4, "consumerOffset": 2, "lastTimestamp": stored_at_ms, "pullOffset": 4},
            "T:1": {"brokerOffset": 0, "consumerOffset": 0, "lastTimestamp": 0, "pullOffset": 0},
        }
        assert body["consumeTps"] == 0.2


async def test_4_9_knows_no_positions_of_pulls_and_no_list_of_topics() -> None:
    async with Sandbox(clock=VirtualClock(), plays="4.9.7") as sandbox:
        peer = await _offline(sandbox, "G", "T")
        await send(peer, "T", 0, count=4)
        await send(peer, "U", 0)
        await commit(peer, "G", "T", 0, 99)
        body = await peer.ask_json(STATS, consumerGroup="G", topicList="U")
        assert _table(body)["T:0"] == {"brokerOffset": 4, "consumerOffset": 99, "lastTimestamp": 0}
        assert "U:0" not in _table(body)
        assert await peer.ask_json(STATS) == {"consumeTps": 0.0, "offsetTable": {}}


async def test_a_live_subscription_hides_other_topics_but_not_listed_ones() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _offline(sandbox, "G", "T")
        await send(peer, "T", 0)
        await send(peer, "U", 0)
        for topic in ("T", "U"):
            await commit(peer, "G", topic, 0, 1)
        assert sorted(_table(await peer.ask_json(STATS, consumerGroup="G"))) == ["T:0", "T:1", "U:0", "U:1"]
        member = await join(sandbox, "one", "G", "T")
        assert sorted(_table(await peer.ask_json(STATS, consumerGroup="G"))) == ["T:0", "T:1"]
        assert _table(await peer.ask_json(STATS, consumerGroup="G", topic="U")) == {}
        listed = await peer.ask_json(STATS, consumerGroup="G", topicList=";U;None;")
        assert sorted(_table(listed)) == ["U:0", "U:1"]
        await member.aclose()


async def test_progress_of_all_groups() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _offline(sandbox, "G", "T")
        await send(peer, "T", 0, count=4)
        await commit(peer, "G", "T", 0, 1)
        await pull(peer, "G", "T", 0, 1)
        body = await peer.ask_json(ALL_STATS, isOrder=False)
        by_group = {group: parts for item in body["consumeStatsList"] for group, parts in item.items()}
        assert by_group["TOOLS_CONSUMER"] == []
        (part,) = by_group["G"]
        assert _table(part)["T:0"]["pullOffset"] == 0
        assert (body["totalDiff"], body["totalInflightDiff"]) == (3, -1)
        assert body["brokerAddr"] == sandbox.brokers["broker-a"].address
        assert {"G": []} in (await peer.ask_json(ALL_STATS, isOrder=True))["consumeStatsList"]


async def test_time_spans() -> None:
    clock = VirtualClock()
    async with Sandbox(clock=clock) as sandbox:
        peer = await _offline(sandbox, "G", "T")
        answer = await peer.ask(SPAN, topic="T", group="G")
        assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[T] not exist")
        await send(peer, "T", 0)
        first_ms = clock.now_ms()
        await sandbox.advance(7)
        await send(peer, "T", 0)
        await sandbox.advance(2)

        async def spans() -> dict[int, dict[str, Any]]:
            body = await peer.ask_json(SPAN, topic="T", group="G")
            return {span["messageQueue"]["queueId"]: span for span in body["consumeTimeSpanSet"]}

        # Nothing stored, and nothing there: as long ago as 1970, and a millisecond.
        one, other = (await spans()).values()
        assert one["delayTime"] == other["delayTime"] == clock.now_ms() + 1
        assert (one["minTimeStamp"], one["maxTimeStamp"]) == (first_ms, first_ms + 7000)
        assert (other["minTimeStamp"], other["consumeTimeStamp"], other["maxTimeStamp"]) == (-1, -1, -1)
        await commit(peer, "G", "T", 0, 1)
        span = (await spans())[0]
        assert (span["consumeTimeStamp"], span["delayTime"]) == (first_ms, 2000)
        assert span["consumeTimeStampStr"].endswith(f":{first_ms % 1000:03d}")
        await commit(peer, "G", "T", 0, 2)
        assert (await spans())[0]["delayTime"] == 0


async def test_who_consumes_what() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _offline(sandbox, "G", "T")
        await send(peer, "T", 0)
        await send(peer, "U", 0)
        await commit(peer, "G", "U", 0, 1)
        await peer.heartbeat("one", consumer_data("H", subscription("U", "TagA")))
        assert await peer.ask_json(WHO, topic="T") == {"groupList": []}
        assert await peer.ask_json(WHO, topic="U") == {"groupList": ["G", "H"]}
        address = sandbox.brokers["broker-a"].address
        assert await peer.ask_json(TOPICS, group="G") == {"brokerAddr": address, "topicList": ["U"]}
        assert await peer.ask_json(TOPICS, group="H") == {"brokerAddr": address, "topicList": []}
        assert await peer.ask_json(SUBSCRIPTION, group="G", topic="U") == {"group": "G", "topic": "U"}
        found = await peer.ask_json(SUBSCRIPTION, group="H", topic="U")
        assert found["subscriptionData"]["subString"] == "TagA"


async def test_4_9_has_no_questions_for_topics_and_subscriptions_of_a_group() -> None:
    async with Sandbox(clock=VirtualClock(), plays="4.9.7") as sandbox:
        peer = await Peer.of_broker(sandbox)
        for code in (TOPICS, SUBSCRIPTION):
            answer = await peer.ask(code, group="G", topic="T")
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert await peer.ask_json(WHO) == {"groupList": []}


async def test_entries_of_a_queue() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await join(sandbox, "one", "G", "T")
        answer = await peer.ask(ENTRIES, topic="T", queueId=0, index=0, count=5)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "0@T is not exist!")
        for tag in ("TagA", "", "TagB"):
            await send(peer, "T", 0, tag=tag)
        body = await peer.ask_json(ENTRIES, topic="T", queueId=0, index=1, count=5)
        assert [entry["tagsCode"] for entry in body["queueData"]] == [0, 2598920]
        assert (body["minQueueIndex"], body["maxQueueIndex"]) == (0, 3)
        first, second = body["queueData"]
        assert first["physicOffset"] + first["physicSize"] == second["physicOffset"]
        assert "filterData" not in body
        body = await peer.ask_json(ENTRIES, topic="T", queueId=0, index=0, count=1, consumerGroup="G")
        assert body["subscriptionData"]["subString"] == "*"
        body = await peer.ask_json(ENTRIES, topic="T", queueId=0, index=0, count=1, consumerGroup="H")
        assert body["filterData"] == "H@T is not online!"
        for index in (-1, 3):
            answer = await peer.ask(ENTRIES, topic="T", queueId=0, index=index, count=5)
            assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b"")
            assert answer.remark == f"Index {index} of 0@T is not exist!"


@pytest.mark.parametrize("code", [STATS, WHO, SPAN, ENTRIES, SUBSCRIPTION])
async def test_missing_fields_are_answered_with_an_error(code: int) -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        answer = await (await Peer.of_broker(sandbox)).ask(code)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").startswith("java.lang.NullPointerException")
