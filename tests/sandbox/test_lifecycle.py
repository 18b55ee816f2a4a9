"""Starts, stops and restarts, also several at once."""

from __future__ import annotations

import asyncio

import pytest

from rmqctl.errors import UsageError
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import ResponseCode
from rmqctl.sandbox import Sandbox
from tests.sandbox.peer import Peer
from tests.sandbox.sender import send


async def test_two_restarts_at_once_come_one_after_the_other() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker = sandbox.brokers["broker-a"]
        address = broker.address
        await asyncio.gather(broker.restart(), broker.restart(), broker.resume())
        assert broker.is_running
        assert broker.address == address
        peer = await Peer.of_broker(sandbox)
        assert (await send(peer, "T")).code == ResponseCode.SUCCESS


async def test_a_restart_that_is_under_way_ends_with_the_sandbox() -> None:
    sandbox = Sandbox(clock=VirtualClock())
    await sandbox.start()
    broker = sandbox.brokers["broker-a"]
    restart = asyncio.create_task(broker.restart())
    await asyncio.sleep(0)
    await sandbox.stop()
    await restart
    assert not broker.is_running


async def test_a_sandbox_that_was_stopped_says_so_when_it_is_started_again() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        pass
    await sandbox.stop()
    with pytest.raises(UsageError, match="was stopped"):
        await sandbox.start()
