"""Topics made, changed, listed and deleted by request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.profile import find_profile
from rmqctl.sandbox.request import RefusalError
from rmqctl.sandbox.topics.attributes import altered, parse_changes, topic_attributes
from tests.sandbox.peer import Peer, consumer_data, subscription

WANTED = {
    "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 3, "perm": 6, "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0, "order": False,
}  # fmt: skip
RELEASES = ("5.4.0", "4.9.7")


async def make(peer: Peer, topic: str, **more: Any) -> None:
    await peer.ask_ok(RequestCode.UPDATE_AND_CREATE_TOPIC, **{**WANTED, "topic": topic, **more})


async def test_a_topic_that_is_made_is_routed_to_at_once_and_changes_are_too() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker, names = await Peer.of_broker(sandbox), await Peer.of_name_server(sandbox)
        await make(broker, "T")
        route = await names.ask_json(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T")
        assert (route["queueDatas"][0]["readQueueNums"], route["queueDatas"][0]["writeQueueNums"]) == (4, 3)
        await make(broker, "T", readQueueNums=8, perm=4)
        route = await names.ask_json(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T")
        assert (route["queueDatas"][0]["readQueueNums"], route["queueDatas"][0]["perm"]) == (8, 4)
        await broker.aclose()
        await names.aclose()


@pytest.mark.parametrize("release", RELEASES)
async def test_names_that_no_topic_may_have_are_refused(release: str) -> None:
    async with Sandbox(clock=VirtualClock(), plays=release) as sandbox:
        peer = await Peer.of_broker(sandbox)
        for name in ("", "A B", "A" * 128, "TBW102", "rmq_sys_x", "broker-a", "RMQ_SYS_TRACE_TOPIC"):
            answer = await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, **WANTED, topic=name)
            assert answer.code == (29 if release == "5.4.0" else 1), name
        assert set(sandbox.brokers["broker-a"].topics.topics) == set(
            Sandbox(plays=release).brokers["broker-a"].topics.topics
        )
        await peer.aclose()


async def test_a_deleted_topic_stays_at_the_name_server_until_that_is_told() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker, names = await Peer.of_broker(sandbox), await Peer.of_name_server(sandbox)
        await make(broker, "T")
        await broker.ask_ok(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
        await sandbox.advance(60)
        await names.ask_ok(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T")
        await names.ask_ok(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="T", clusterName="DefaultCluster")
        await sandbox.advance(60)
        answer = await names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T")
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        await broker.aclose()
        await names.aclose()


async def test_pulls_that_wait_for_a_topic_hear_of_its_end() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await make(peer, "T")
        await peer.heartbeat("c", consumer_data("G", subscription("T")))
        waiting = peer.start(
            RequestCode.PULL_MESSAGE, consumerGroup="G", topic="T", queueId=0, queueOffset=0, maxMsgNums=32,
            sysFlag=2, commitOffset=0, suspendTimeoutMillis=15000, subVersion=1,
        )  # fmt: skip
        await sandbox.await_idle()
        assert not waiting.done()
        await peer.ask_ok(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
        await sandbox.await_idle()
        assert waiting.result().code == ResponseCode.TOPIC_NOT_EXIST
        await peer.aclose()


@pytest.mark.parametrize(("release", "offset"), [("5.4.0", None), ("4.9.7", 5)])
async def test_offsets_go_with_their_topic_since_5_only(release: str, offset: int | None) -> None:
    async with Sandbox(clock=VirtualClock(), plays=release) as sandbox:
        peer, broker = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"]
        for name in ("T", "%RETRY%G_T", "%RETRY%G+T", "%RETRY%G"):
            broker.topics.create_for_group(name, 1)
        broker.offsets.store("G", "T", 0, 5)
        broker.offsets.store("G", "U", 0, 6)
        await peer.ask_ok(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
        assert broker.offsets.find("G", "T", 0) == offset
        assert broker.offsets.find("G", "U", 0) == 6
        retry_topics = {name for name in broker.topics.topics if name.startswith("%RETRY%")}
        assert retry_topics == ({"%RETRY%G"} if release == "5.4.0" else {"%RETRY%G_T", "%RETRY%G+T", "%RETRY%G"})
        await peer.aclose()


async def test_a_list_of_topics_is_taken_as_a_whole_or_not_at_all() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, topics = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"].topics

        async def ask(*names: str) -> int:
            items = [{"topicName": name, "readQueueNums": 2, "writeQueueNums": 2} for name in names]
            return (await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {"topicConfigList": items})).code

        assert await ask("T", "U") == ResponseCode.SUCCESS
        assert await ask("V", "A B") == ResponseCode.INVALID_PARAMETER
        # The defect of RocketMQ: one that is already as it shall be stops them all.
        assert await ask("V", "T", "W") == ResponseCode.SUCCESS
        assert [name in topics.topics for name in "TUVW"] == [True, True, False, False]
        await peer.aclose()


async def test_all_topics_come_in_pages_that_begin_anew_when_the_table_changes() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, topics = await Peer.of_broker(sandbox), sandbox.brokers["broker-a"].topics
        names: list[str] = []
        version = ""
        while len(names) < len(topics.topics):
            fields = {"topicSeq": len(names), "maxTopicNum": 4, "dataVersion": version}
            page = await peer.ask_json(RequestCode.GET_ALL_TOPIC_CONFIG, **fields)
            names += sorted(page["topicConfigTable"])
            version = json.dumps(page["dataVersion"])
        assert names == sorted(topics.topics)
        await make(peer, "T")
        page = await peer.ask_json(RequestCode.GET_ALL_TOPIC_CONFIG, topicSeq=4, maxTopicNum=4, dataVersion=version)
        assert sorted(page["topicConfigTable"]) == sorted(topics.topics)[:4]
        whole = await peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
        assert whole.ext_fields == {"totalTopicNum": str(len(topics.topics))}
        await peer.aclose()


async def test_attributes_are_kept_through_changes_that_do_not_name_them() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await make(peer, "T", attributes="+message.type=FIFO,+reserve.time=10")
        await make(peer, "T", readQueueNums=9)
        await make(peer, "T", attributes="-reserve.time")
        topic = await peer.ask_json(RequestCode.GET_TOPIC_CONFIG, topic="T")
        assert topic["attributes"] == {"message.type": "FIFO"}
        await peer.aclose()


@pytest.mark.parametrize(
    ("changes", "is_new", "remark"),
    [
        ("message.type=FIFO", True, "add/alter attribute format is wrong: message.type"),
        ("+message.type", True, "delete attribute format is wrong: +message.type"),
        ("+a=1,+a=2", True, "key duplication: +a"),
        ("+message.type=", True, "Index 1 out of bounds for length 1"),
        ("-message.type", True, "only add attribute is supported while creating topic. key: message.type"),
        ("-message.type", False, "attempt to delete a nonexistent key: message.type"),
        ("+nope=1", False, "unsupported key: nope"),
        ("+queue.type=SimpleCQ", False, "attempt to update an unchangeable attribute. key: queue.type"),
        ("+queue.type=x", True, "value is not in set: [SimpleCQ, BatchCQ]"),
        ("+reserve.time=-2", True, "value is not in range(-1, 9223372036854775807)"),
        ("+reserve.time=x", True, 'For input string: "x"'),
        ("+=1", True, "kv string format wrong."),
    ],
)
def test_changes_of_attributes_that_can_not_be(changes: str, is_new: bool, remark: str) -> None:
    with pytest.raises(RefusalError) as caught:
        altered(
            topic_attributes(find_profile("5.4.0")), {"cleanup.policy": "DELETE"}, parse_changes(changes), is_new=is_new
        )
    assert (caught.value.code, caught.value.remark) == (ResponseCode.SYSTEM_ERROR, remark)


@pytest.mark.parametrize(
    ("release", "count"), [("5.4.0", 15), ("4.9.7", 9)],
)  # fmt: skip
def test_a_broker_begins_with_the_topics_of_its_release(release: str, count: int) -> None:
    topics = Sandbox(plays=release).brokers["broker-a"].topics
    assert len(topics.topics) == count
    assert topics.topics["SCHEDULE_TOPIC_XXXX"].read_queue_count == 18
    assert (
        "TBW102"
        not in Sandbox(plays=release, settings={"autoCreateTopicEnable": "false"}).brokers["broker-a"].topics.topics
    )
    traced = Sandbox(plays=release, settings={"traceTopicEnable": "true"}).brokers["broker-a"].topics
    assert traced.topics["RMQ_SYS_TRACE_TOPIC"].write_queue_count == 1


async def test_a_topic_of_more_queues_than_can_be_listed_is_refused() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        wanted = {**WANTED, "topic": "T", "readQueueNums": 65_537}
        answer = await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, **wanted)
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert sandbox.brokers["broker-a"].topics.find("T") is None
        await make(peer, "T", readQueueNums=65_536)
        await peer.aclose()
