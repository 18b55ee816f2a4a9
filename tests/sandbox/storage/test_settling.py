"""Messages that wait come once, whatever happens between the writes that say so."""

from __future__ import annotations

import contextlib
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.errors import RmqctlError
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.request import RefusalError
from tests.sandbox.peer import Peer
from tests.sandbox.sender import pairs, send
from tests.sandbox.storage.store_access import bodies

WAYS = {"delays": {"DELAY": 1}, "timers": {"TIMER_DELAY_MS": 1000}}
SETTINGS = {"recallMessageEnable": "true"}

each_way = pytest.mark.parametrize("way", WAYS)


@contextlib.contextmanager
def full_disk(size_bytes: int = 1) -> Iterator[None]:
    """Let no file grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def send_late(sandbox: Sandbox, way: str, body: bytes = b"late", key: str = "U") -> str:
    """Send a message that waits a second; return what it can be recalled by."""
    peer = await Peer.of_broker(sandbox)
    answer = await send(peer, "T", body, properties=pairs(UNIQ_KEY=key, **WAYS[way]))
    assert answer.code == ResponseCode.SUCCESS
    await peer.aclose()
    return answer.ext_fields.get("recallHandle", "")


def interrupt(sandbox: Sandbox, way: str, interrupted: Callable[[Any], None]) -> Callable[[Any], None]:
    """Let another function deliver; return the one that did."""
    owner = getattr(sandbox.brokers["broker-a"], way)
    deliver: Callable[[Any], None] = owner._deliver
    owner._deliver = interrupted
    return deliver


def stored(sandbox: Sandbox) -> list[bytes]:
    """Return what came."""
    return bodies(sandbox.brokers["broker-a"].store)


async def find_twice(clock: VirtualClock, folder: Path, messages: list[bytes]) -> None:
    """Assert that these messages are stored after a restart, and after another one."""
    for _ in range(2):
        async with Sandbox(clock=clock, dir=folder) as sandbox:
            await sandbox.advance(3)
            assert stored(sandbox) == messages


async def kill_before_delivery(tmp_path: Path, way: str, clock: VirtualClock) -> Path:
    """Return what a process leaves that is killed when it has noted that it delivers, and has not delivered."""
    left: list[Path] = []
    async with Sandbox(clock=clock, dir=tmp_path / "one") as sandbox:
        await send_late(sandbox, way)
        interrupt(sandbox, way, lambda _: left.append(shutil.copytree(tmp_path / "one", tmp_path / "two")))
        await sandbox.advance(3)
    return left[0]


@each_way
async def test_a_message_that_the_disk_refused_is_not_taken_for_delivered(tmp_path: Path, way: str) -> None:
    clock = VirtualClock()
    async with Sandbox(clock=clock, dir=tmp_path / "one") as sandbox:
        await send_late(sandbox, way)

        def refuse(_: Any) -> None:
            raise RefusalError(ResponseCode.SERVICE_NOT_AVAILABLE, "the disk is full")

        interrupt(sandbox, way, refuse)
        await sandbox.advance(3)
        peer = await Peer.of_broker(sandbox)
        await send(peer, "T", b"other")
        await peer.aclose()
        left = shutil.copytree(tmp_path / "one", tmp_path / "two")
    await find_twice(clock, left, [b"other", b"late"])


@each_way
async def test_a_start_on_a_full_disk_loses_and_repeats_none(tmp_path: Path, way: str) -> None:
    clock = VirtualClock()
    left = await kill_before_delivery(tmp_path, way, clock)
    with full_disk():
        async with Sandbox(clock=clock, dir=left) as sandbox:
            await sandbox.advance(3)
            assert stored(sandbox) == []
    await find_twice(clock, left, [b"late"])


@each_way
async def test_what_is_known_of_messages_that_are_gone_swallows_no_new_ones(tmp_path: Path, way: str) -> None:
    clock = VirtualClock()
    async with Sandbox(clock=clock, dir=tmp_path) as sandbox:
        for number in range(3):
            await send_late(sandbox, way, b"old", f"old{number}")
        await sandbox.advance(3)
        assert stored(sandbox) == [b"old"] * 3
    # A power cut took the log, which the tables were ahead of.
    shutil.rmtree(tmp_path / "broker-a" / "commitlog")
    with full_disk(), pytest.raises(RmqctlError, match=r"broker-a .*File too large"):
        Sandbox(clock=clock, dir=tmp_path)
    async with Sandbox(clock=clock, dir=tmp_path) as sandbox:
        await send_late(sandbox, way, b"new", "new")
    await find_twice(clock, tmp_path, [b"new"])


@each_way
async def test_a_message_whose_end_could_not_be_noted_comes_once(tmp_path: Path, way: str) -> None:
    clock = VirtualClock()
    async with Sandbox(clock=clock, dir=tmp_path / "one") as sandbox:
        await send_late(sandbox, way, b"first", "1")
        await send_late(sandbox, way, b"second", "2")
        state, put = sandbox.brokers["broker-a"].state, sandbox.brokers["broker-a"].state.put
        left: list[Path] = []

        def refuse(table: str, key: str, value: Any) -> None:
            raise RefusalError(ResponseCode.SERVICE_NOT_AVAILABLE, "the disk is full")

        def interrupted(due: Any) -> None:
            if due.body == b"first":
                deliver(due)
                state.put = refuse  # type: ignore[method-assign]
            else:
                left.append(shutil.copytree(tmp_path / "one", tmp_path / "two"))

        deliver = interrupt(sandbox, way, interrupted)
        await sandbox.advance(2.5)
        state.put = put  # type: ignore[method-assign]
        await sandbox.advance(2)
    async with Sandbox(clock=clock, dir=left[0]) as sandbox:
        await sandbox.advance(3)
        assert stored(sandbox) == [b"first", b"second"]


async def test_what_was_recalled_stays_so_when_killed_within_its_slot(tmp_path: Path) -> None:
    way = "timers"  # others can't be recalled

    clock, left = VirtualClock(), []
    async with Sandbox(clock=clock, dir=tmp_path / "one", settings=SETTINGS) as sandbox:
        await send_late(sandbox, way, b"wanted", "1")
        handle = await send_late(sandbox, way, b"recalled", "2")
        peer = await Peer.of_broker(sandbox)
        await peer.ask_ok(RequestCode.RECALL_MESSAGE, producerGroup="P", topic="T", recallHandle=handle)
        await peer.aclose()
        interrupt(sandbox, way, lambda _: left.append(shutil.copytree(tmp_path / "one", tmp_path / "two")))
        await sandbox.advance(3)
    for _ in range(2):
        async with Sandbox(clock=clock, dir=left[0], settings=SETTINGS) as sandbox:
            await sandbox.advance(3)
            assert stored(sandbox) == [b"wanted"]
