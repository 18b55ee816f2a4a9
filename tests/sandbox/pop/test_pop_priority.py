"""Priority topics: where their messages are stored, and the order in which pops read them."""

from __future__ import annotations

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox import Sandbox
from tests.sandbox.peer import Peer

from .test_pop import POP, bodies, messages, pop_fields

_PRIORITY = "_SYS_MSG_PRIORITY_"


async def _peer(sandbox: Sandbox, *, factor: int | None = None) -> Peer:
    """Connect; create the priority topic T of 4 queues, and the group G with its factor."""
    peer = await Peer.of_broker(sandbox)
    await peer.ask_ok(
        RequestCode.UPDATE_AND_CREATE_TOPIC, topic="T", defaultTopic="TBW102", readQueueNums=4, writeQueueNums=4,
        perm=6, topicFilterType="SINGLE_TAG", topicSysFlag=0, order="false", attributes="+message.type=PRIORITY",
    )  # fmt: skip
    attributes = "{}" if factor is None else f'{{"+priority.factor": "{factor}"}}'
    await peer.ask_ok(
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        f'{{"groupName": "G", "consumeEnable": true, "attributes": {attributes}}}'.encode(),
    )
    return peer


async def _send(peer: Peer, body: str, *, queue_id: int = 0, **properties: str) -> str:
    """Send a message; return the queue that it went to."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    answer = await peer.ask_ok(
        RequestCode.SEND_MESSAGE_V2, body.encode(), a="PP", b="T", c="TBW102", d=4, e=queue_id, f=0, g=1, h=0, i=text,
        j=0, k="false",
    )  # fmt: skip
    return str(answer.ext_fields["queueId"])


async def _pop(peer: Peer, sandbox: Sandbox, **changes: object) -> Command:
    return await peer.ask_ok(POP, **pop_fields(sandbox, **changes))


@pytest.mark.parametrize(
    ("properties", "queue_id", "is_kept"),
    [
        ({_PRIORITY: "2"}, "2", True), ({_PRIORITY: "9"}, "3", True), ({_PRIORITY: "-1"}, "1", True),
        ({_PRIORITY: "99999999999"}, "1", True), ({_PRIORITY: "high"}, "1", True), ({}, "1", False),
        ({_PRIORITY: "2", "__SHARDINGKEY": "k"}, "1", False),
    ],
)  # fmt: skip
async def test_a_message_goes_to_the_queue_of_its_priority(
    properties: dict[str, str], queue_id: str, is_kept: bool
) -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _peer(sandbox)
        chosen = await _send(peer, "m", queue_id=1, **properties)
        (message,) = messages(await _pop(peer, sandbox))
    assert (chosen, str(message.queue_id)) == (queue_id, queue_id)
    assert (_PRIORITY in message.properties) == is_kept


@pytest.mark.parametrize(("is_ascending", "order"), [("true", "3210"), ("false", "0123")])
async def test_a_pop_reads_the_highest_priority_first(is_ascending: str, order: str) -> None:
    async with Sandbox(clock=VirtualClock(), settings={"priorityOrderAsc": is_ascending}) as sandbox:
        peer = await _peer(sandbox)
        for priority in "1302":
            await _send(peer, priority, **{_PRIORITY: priority})
        popped = [bodies(await _pop(peer, sandbox, maxMsgNums=1)) for _ in range(4)]
    assert popped == [[each] for each in order]


async def test_without_a_priority_factor_each_pop_starts_at_another_queue() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _peer(sandbox, factor=0)
        for number in range(8):
            await _send(peer, str(number % 4), **{_PRIORITY: str(number % 4)})
        popped = [bodies(await _pop(peer, sandbox, maxMsgNums=1))[0] for _ in range(4)]
    assert sorted(popped) == ["0", "1", "2", "3"]


@pytest.mark.parametrize(("percent", "first"), [("0", "new"), ("100", "old")])
async def test_retries_are_the_lowest_or_the_highest_priority(percent: str, first: str) -> None:
    settings = {"popFromRetryProbabilityForPriority": percent}
    async with Sandbox(clock=VirtualClock(), settings=settings) as sandbox:
        peer = await _peer(sandbox)
        await _send(peer, "old", **{_PRIORITY: "3"})
        await _pop(peer, sandbox, invisibleTime=1000)
        await sandbox.advance(2)
        await _send(peer, "new", **{_PRIORITY: "0"})
        popped = bodies(await _pop(peer, sandbox, maxMsgNums=1))
    assert popped == [first]


async def test_retries_keep_their_order_in_queues_of_their_own() -> None:
    settings = {"useSeparateRetryQueue": "true"}
    async with Sandbox(clock=VirtualClock(), settings=settings) as sandbox:
        peer = await _peer(sandbox)
        for priority in "021":
            await _send(peer, priority, **{_PRIORITY: priority})
        await _pop(peer, sandbox, invisibleTime=1000)
        await sandbox.advance(2)
        again = [bodies(await _pop(peer, sandbox, maxMsgNums=1, invisibleTime=1000)) for _ in range(3)]
        await sandbox.advance(2)
        waiting = await _pop(peer, sandbox)
        retry = sandbox.brokers["broker-a"].topics.find("%RETRY%G_T")
    assert again == [["2"], ["1"], ["0"]]
    assert bodies(waiting) == ["2", "1", "0"]
    assert retry is not None
    assert (retry.read_queue_count, retry.write_queue_count) == (4, 4)


async def test_a_retry_topic_gets_queues_when_the_topic_has_more_of_them() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _peer(sandbox)
        await _send(peer, "2", **{_PRIORITY: "2"})
        await _pop(peer, sandbox, invisibleTime=1000)
        await sandbox.advance(2)
        await peer.ask_ok(RequestCode.UPDATE_BROKER_CONFIG, b"useSeparateRetryQueue=true")
        await _send(peer, "3", **{_PRIORITY: "3"})
        first = await _pop(peer, sandbox, invisibleTime=1000)
        await sandbox.advance(2)
        again = await _pop(peer, sandbox)
    assert bodies(first) == ["3", "2"]
    assert [(message.body, message.queue_id) for message in messages(again)] == [(b"3", 3), (b"2", 0)]
