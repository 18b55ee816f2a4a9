"""Who holds which queue of an orderly group."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.sandbox import Sandbox
from tests.sandbox.peer import Peer

LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ


def _body(client_id: str, *queue_ids: int, group: str = "G", **more: Any) -> dict[str, Any]:
    queues = [{"topic": "T", "brokerName": "broker-a", "queueId": queue_id} for queue_id in queue_ids]
    return {"clientId": client_id, "consumerGroup": group, "mqSet": queues, "onlyThisBroker": False, **more}


async def _lock(peer: Peer, client_id: str, *queue_ids: int, **more: Any) -> list[int]:
    body = await peer.ask_json(LOCK, _body(client_id, *queue_ids, **more))
    return [queue["queueId"] for queue in body["lockOKMQSet"]]


async def test_a_queue_is_its_clients_until_it_is_given_back() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        assert await _lock(peer, "one", 0, 1) == [0, 1]
        assert await _lock(peer, "other", 0, 1, 2) == [2]
        assert await _lock(peer, "one", 0, 2, onlyThisBroker=True) == [0]
        # Another client's queue can't be given back.
        answer = await peer.ask_ok(UNLOCK, _body("other", 0))
        assert answer.body == b""
        assert await _lock(peer, "other", 0) == []
        await peer.ask_ok(UNLOCK, _body("one", 0))
        assert await _lock(peer, "other", 0) == [0]
        # Each group has its own locks.
        assert await _lock(peer, "other", 1, group="G2") == [1]


async def test_a_lock_ends_60_s_after_it_was_renewed_whatever_becomes_of_the_connection() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, other = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
        await _lock(peer, "one", 0)
        await sandbox.advance(40)
        await _lock(peer, "one", 0)
        await peer.aclose()
        await sandbox.advance(60)
        assert sandbox.brokers["broker-a"].locks.has_any("G")
        assert await _lock(other, "other", 0) == []
        await sandbox.advance(0.1)
        assert not sandbox.brokers["broker-a"].locks.has_any("G")
        assert await _lock(other, "other", 0) == [0]


async def test_a_restart_frees_all() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        await _lock(await Peer.of_broker(sandbox), "one", 0)
        await sandbox.brokers["broker-a"].restart()
        assert await _lock(await Peer.of_broker(sandbox), "other", 0) == [0]


async def test_a_queue_can_be_given_back_without_an_answer() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await _lock(peer, "one", 0)
        peer.tell(UNLOCK, _body("one", 0))
        await sandbox.await_idle()
        assert await _lock(peer, "other", 0) == [0]


async def test_locks_that_nobody_renews_are_not_kept() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await _lock(peer, "one", 0)
        tracemalloc.start()
        for number in range(20):
            await _lock(peer, "one", *range(100), group=f"G{number}")
        full_bytes = tracemalloc.get_traced_memory()[0]
        for _ in range(3):
            await sandbox.advance(50)
            assert await _lock(peer, "one", 0) == [0]
        left_bytes = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert left_bytes < full_bytes / 2
        assert sandbox.brokers["broker-a"].locks.has_any("G")


@pytest.mark.parametrize("code", [LOCK, UNLOCK])
@pytest.mark.parametrize(
    "body", [b"", b"nonsense", b"[]", b'{"consumerGroup":"G","mqSet":null}', b'{"consumerGroup":"G","mqSet":[5]}']
)
async def test_a_request_that_makes_no_sense_is_refused(code: RequestCode, body: bytes) -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        assert (await peer.ask(code, body)).code == ResponseCode.SYSTEM_ERROR
        assert await _lock(peer, "one", 0) == [0]
