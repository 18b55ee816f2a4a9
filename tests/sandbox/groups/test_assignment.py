"""Which queues brokers give to whom, by pull and by pop."""

from __future__ import annotations

from functools import partial

import pytest

from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.rules.allocate import Allocate
from rmqctl.rules.allocate.averagely import allocate_averagely, allocate_by_circle
from rmqctl.rules.allocate.pop_share import allocate_for_pop
from rmqctl.sandbox import Sandbox
from tests.sandbox.peer import Peer, consumer_data, subscription


def shares(allocate: Allocate, queue_count: int, client_count: int) -> list[list[int]]:
    queues = [MessageQueue("T", "b", number) for number in range(queue_count)]
    clients = [f"c{number}" for number in range(client_count)]
    assignment = allocate(queues, clients)
    return [[queue.queue_id for queue in assignment[client]] for client in clients]


@pytest.mark.parametrize(
    ("queue_count", "client_count", "expected"),
    [
        (10, 3, [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]),
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (2, 4, [[0], [1], [], []]),
        (4, 2, [[0, 1], [2, 3]]),
    ],
)
def test_averagely(queue_count: int, client_count: int, expected: list[list[int]]) -> None:
    assert shares(allocate_averagely, queue_count, client_count) == expected


def test_by_circle() -> None:
    assert shares(allocate_by_circle, 8, 3) == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert shares(allocate_by_circle, 1, 2) == [[0], []]


def test_for_pop() -> None:
    def sharing(share_count: int) -> Allocate:
        return partial(allocate_for_pop, inner=allocate_averagely, share_count=share_count)

    assert shares(sharing(1), 4, 3) == [[0, 1, 2], [2, 3], [3, 0, 1]]
    assert shares(sharing(2), 4, 3) == [[-1]] * 3
    assert shares(sharing(0), 4, 3) == [[-1]] * 3
    assert shares(sharing(2), 4, 7) == [[0], [1], [2], [3], [0], [1], [2]]


async def test_assignments_of_two_brokers_by_pull_and_by_pop() -> None:
    async with Sandbox(clock=VirtualClock(), brokers=2) as sandbox:
        peer = await Peer.of_broker(sandbox)
        for name in sandbox.brokers:
            each = await Peer.of_broker(sandbox, name)
            await each.ask_ok(
                RequestCode.UPDATE_AND_CREATE_TOPIC, topic="T", defaultTopic="TBW102", readQueueNums=2,
                writeQueueNums=2, perm=6, topicFilterType="SINGLE_TAG", topicSysFlag=0, order="false",
            )  # fmt: skip
            await each.aclose()
        await peer.heartbeat("c1", consumer_data("G", subscription("T")))
        other = await Peer.of_broker(sandbox)
        await other.heartbeat("c2", consumer_data("G", subscription("T")))
        body = {
            "clientId": "c2", "consumerGroup": "G", "messageModel": "CLUSTERING", "strategyName": "AVG",
            "topic": "T",
        }  # fmt: skip
        answer = await peer.ask_json(RequestCode.QUERY_ASSIGNMENT, body)
        assert answer == {"messageQueueAssignments": [
            {"messageQueue": {"topic": "T", "brokerName": "broker-b", "queueId": queue_id}, "mode": "PULL"}
            for queue_id in (0, 1)
        ]}  # fmt: skip
        mode = {"consumerGroup": "G", "topic": "T", "mode": "POP", "popShareQueueNum": 0}
        await peer.ask_ok(RequestCode.SET_MESSAGE_REQUEST_MODE, mode)
        answer = await peer.ask_json(RequestCode.QUERY_ASSIGNMENT, body)
        assert answer == {"messageQueueAssignments": [
            {"messageQueue": {"topic": "T", "brokerName": name, "queueId": -1}, "mode": "POP"}
            for name in ("broker-a", "broker-b")
        ]}  # fmt: skip
        for each in (peer, other):
            await each.aclose()


async def test_the_mode_survives_a_restart_and_is_shown() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        mode = {"consumerGroup": "G", "topic": "TBW102", "mode": "POP", "popShareQueueNum": 2}
        await peer.ask_ok(RequestCode.SET_MESSAGE_REQUEST_MODE, mode)
        await sandbox.brokers["broker-a"].restart()
        peer = await Peer.of_broker(sandbox)
        answer = await peer.ask_json(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        assert answer == {"messageRequestModeMap": {"TBW102": {"G": mode}}}
        refused = await peer.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, {**mode, "topic": "%RETRY%G"})
        assert refused.code == ResponseCode.NO_PERMISSION
        await peer.aclose()
