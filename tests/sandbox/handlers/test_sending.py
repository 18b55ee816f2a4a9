"""What becomes of sends: topics made, properties added, what is refused and how."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.properties import decode_properties
from rmqctl.sandbox import Sandbox
from tests.sandbox.peer import Peer
from tests.sandbox.sender import batch_body, bodies, pairs, read, send, send_batch
from tests.scripted_peer import run

BOTH = pytest.mark.parametrize("plays", ["5.4.0", "4.9.7"])


def play(plays: str, scenario: Callable[[Sandbox, Peer], Awaitable[None]], **options: object) -> None:
    """Run a scenario with one client of one broker."""

    async def whole() -> None:
        async with Sandbox(clock=VirtualClock(), plays=plays, **options) as sandbox:  # type: ignore[arg-type]
            peer = await Peer.of_broker(sandbox)
            await scenario(sandbox, peer)
            await peer.aclose()

    run(whole())


@BOTH
def test_a_topic_is_made_with_as_many_queues_as_asked_for_and_the_name_server_knows(plays: str) -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        assert (await send(peer, "T", d=20, e=2)).code == ResponseCode.SUCCESS
        topic = sandbox.brokers["broker-a"].topics.find("T")
        assert topic is not None
        assert (topic.read_queue_count, topic.write_queue_count, topic.perm) == (3, 3, 6)
        namesrv = await Peer.of_name_server(sandbox)
        route = await namesrv.ask_json(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T")
        assert route["queueDatas"][0]["writeQueueNums"] == 3
        await namesrv.aclose()

    play(plays, scenario, queues=3)


def test_no_topic_is_made_where_that_is_not_allowed() -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        answer = await send(peer, "T")
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        assert answer.remark is not None
        assert answer.remark.startswith("topic[T] not exist, apply first please!\nSee https://")

    play("5.4.0", scenario, settings={"autoCreateTopicEnable": "false"})


@BOTH
@pytest.mark.parametrize(
    ("topic", "changes", "code_5", "code_4"),
    [
        ("a b", {}, ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR),
        (" ", {}, ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR),
        ("x" * 128, {}, ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR),
        ("T", {"e": 4}, ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR),
        ("SCHEDULE_TOPIC_XXXX", {}, ResponseCode.NO_PERMISSION, ResponseCode.NO_PERMISSION),
        ("RMQ_SYS_TRANS_HALF_TOPIC", {}, ResponseCode.NO_PERMISSION, ResponseCode.NO_PERMISSION),
        ("T", {"f": 4}, ResponseCode.NO_PERMISSION, ResponseCode.NO_PERMISSION),
        ("T", {"properties": pairs(A="x" * 32_760)}, ResponseCode.MESSAGE_ILLEGAL, ResponseCode.MESSAGE_ILLEGAL),
        ("T", {"body": b"x" * (4 * 1024 * 1024 + 1)}, ResponseCode.MESSAGE_ILLEGAL, ResponseCode.MESSAGE_ILLEGAL),
        ("T", {"properties": pairs(DELAY="soon")}, ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_ERROR),
        ("T", {"e": None}, ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_ERROR),
        ("T", {"f": 2**31}, ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_ERROR),
        ("T", {"body": b""}, ResponseCode.SYSTEM_ERROR, ResponseCode.SUCCESS),
        ("T", {"properties": pairs(INNER_NUM=2)}, ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SUCCESS),
        ("%RETRY%", {}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, ResponseCode.SUCCESS),
    ],
)
def test_what_is_refused(plays: str, topic: str, changes: dict[str, object], code_5: int, code_4: int) -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        answer = await send(peer, topic, **changes)  # type: ignore[arg-type]
        assert answer.code == (code_5 if plays == "5.4.0" else code_4), answer.remark
        # A broker's own failures carry nothing, its refusals tell the region as every answer does.
        is_failure = (answer.remark or "").startswith("java.")
        assert ("MSG_REGION" in answer.ext_fields) is not is_failure

    play(plays, scenario)


def test_properties_of_5() -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        sent = await send(peer, "T", properties=pairs(WAIT="true", KEYS="k", POP_CK="x", CLUSTER="mine", A="") + "junk")
        (message,) = await read(peer, "T")
        properties = message.properties
        unique_key = properties.pop("UNIQ_KEY")
        assert properties == {
            "WAIT": "true", "KEYS": "k", "CLUSTER": "DefaultCluster", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
        }  # fmt: skip
        assert len(unique_key) == 32
        assert sent.ext_fields["transactionId"] == unique_key
        assert message.record.endswith(b"\x02")

    play("5.4.0", scenario)


def test_properties_of_4_9() -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        sent = await send(peer, "T", properties=pairs(WAIT="true", KEYS="k", POP_CK="x"))
        (message,) = await read(peer, "T")
        assert message.properties == {"KEYS": "k", "POP_CK": "x", "CLUSTER": "DefaultCluster"}
        assert message.record.endswith(b"CLUSTER\x01DefaultCluster")
        assert "transactionId" not in sent.ext_fields

    play("4.9.7", scenario)


def test_a_batch_keeps_its_messages_own_properties_and_answers_all_their_ids() -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        body = batch_body((b"one", pairs(UNIQ_KEY="U1", TAGS="TagA")), (b"two", "A\x01b"))
        answer = await send_batch(peer, "T", body, properties=pairs(UNIQ_KEY="B", WAIT="true"), j=2, h=9)
        assert answer.ext_fields["queueOffset"] == "0"
        assert answer.ext_fields["transactionId"] == "B"
        one, two = await read(peer, "T")
        assert answer.ext_fields["msgId"] == f"{one.offset_id},{two.offset_id}"
        assert one.record.endswith(b"UNIQ_KEY\x01U1\x02TAGS\x01TagA\x02")
        assert two.record.endswith(b"A\x01b")
        assert [(message.flag, message.reconsume_times) for message in (one, two)] == [(0, 2), (1, 2)]

    play("5.4.0", scenario)


def test_4_9_adds_a_batchs_properties_to_each_of_its_messages() -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        await send_batch(peer, "T", batch_body((b"one", pairs(KEYS="k", WAIT="no"))), properties=pairs(WAIT="true"))
        (message,) = await read(peer, "T")
        assert message.record.endswith(b"KEYS\x01k\x02WAIT\x01no\x02WAIT\x01true\x02CLUSTER\x01DefaultCluster")
        assert decode_properties("KEYS\x01k\x02WAIT\x01no\x02WAIT\x01true")["WAIT"] == "true"

    play("4.9.7", scenario)


@pytest.mark.parametrize(
    ("topic", "changes", "code"),
    [
        ("%RETRY%G", {}, ResponseCode.MESSAGE_ILLEGAL),
        ("T", {"properties": pairs(DELAY=1)}, ResponseCode.MESSAGE_ILLEGAL),
        ("T", {"properties": pairs(TIMER_DELAY_SEC=1)}, ResponseCode.MESSAGE_ILLEGAL),
        ("T", {"f": 4}, ResponseCode.MESSAGE_ILLEGAL),
        ("T", {"body": b"garbage that is no batch at all"}, ResponseCode.SYSTEM_ERROR),
        ("T", {"body": batch_body((b"a", ""), (b"b", pairs(A="x")))[:-1]}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_batches_that_are_refused_leave_nothing(topic: str, changes: dict[str, object], code: int) -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        answer = await send_batch(peer, topic, **{"body": batch_body((b"a", "")), **changes})  # type: ignore[arg-type]
        assert answer.code == code
        assert await bodies(peer, topic) == []

    play("5.4.0", scenario)


def test_whole_field_names_mean_the_same() -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        fields = {
            "producerGroup": "P", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": 2, "queueId": 1,
            "sysFlag": 0, "bornTimestamp": 7, "flag": 3, "properties": pairs(TAGS="t"), "reconsumeTimes": 0,
        }  # fmt: skip
        await peer.ask_ok(RequestCode.SEND_MESSAGE, b"one", **fields)
        (message,) = await read(peer, "T", 1)
        assert (message.body, message.flag, message.born_at_ms, message.tags) == (b"one", 3, 7, "t")

    play("5.4.0", scenario)


def test_only_ordered_topics_mind_that_a_broker_is_not_writable_but_the_routes_tell_everybody() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        broker = sandbox.brokers["broker-a"]
        await send(peer, "T")
        await send(peer, "Ordered")
        broker.topics.change("Ordered", is_ordered=True)
        broker.refuse_writes()
        assert (await send(peer, "T")).code == ResponseCode.SUCCESS
        answer = await send(peer, "Ordered")
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark == "the broker[127.0.0.1] sending message is forbidden"
        namesrv = await Peer.of_name_server(sandbox)
        route = await namesrv.ask_json(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T")
        assert route["queueDatas"][0]["perm"] == 4
        await namesrv.aclose()

    play("5.4.0", scenario)


@BOTH
def test_a_client_that_tried_too_often_sends_to_the_dead_letters(plays: str) -> None:
    async def scenario(_: Sandbox, peer: Peer) -> None:
        for tries in (2, 3, 4):
            await send(peer, "%RETRY%G", f"try {tries}".encode(), j=tries, l=3)
        # 4.9 counts the last try as one too many, as it does for what is sent back.
        retried, dead = ([b"try 2", b"try 3"], [b"try 4"]) if plays == "5.4.0" else ([b"try 2"], [b"try 3", b"try 4"])
        assert await bodies(peer, "%RETRY%G") == retried
        assert await bodies(peer, "%DLQ%G") == dead

    play(plays, scenario)


def test_retries_of_a_group_that_holds_locks_are_dead_letters_until_the_locks_expire() -> None:
    async def scenario(sandbox: Sandbox, peer: Peer) -> None:
        broker = sandbox.brokers["broker-a"]
        broker.locks.lock("G", [broker.queue("T", 0)], "client")
        answer = await send(peer, "%RETRY%G", b"locked", properties=pairs(DELAY=3, UNIQ_KEY="U"), j=1, l=16, e=2)
        assert answer.ext_fields["queueId"] == "2"
        (message,) = await read(peer, "%DLQ%G")
        assert message.properties["DELAY"] == "-1"
        await sandbox.advance(61)
        await send(peer, "%RETRY%G", b"free", j=1, l=16)
        assert await bodies(peer, "%RETRY%G") == [b"free"]

    play("5.4.0", scenario)
