"""Disks that fail between two writes, power cuts between two flushes: nothing that was acknowledged goes."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import ResponseCode
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.groups.offsets import OffsetTable
from rmqctl.sandbox.pop.check_points import CheckPoint, CheckPoints
from rmqctl.sandbox.pop.orders import OrderlyQueues
from rmqctl.sandbox.request import RefusalError
from rmqctl.sandbox.storage import disk_state
from rmqctl.sandbox.storage.disk_state import FILE_NAME, DiskState
from rmqctl.sandbox.storage.state import StateStore
from tests.sandbox.peer import Peer
from tests.sandbox.sender import send
from tests.sandbox.storage.store_access import Disk, bodies, message, put
from tests.sandbox.storage.test_settling import full_disk, send_late


def refuse(*_: Any) -> None:
    raise RefusalError(ResponseCode.SERVICE_NOT_AVAILABLE, "the disk is full")


def fail(*_: Any) -> None:
    raise OSError(errno.EIO, "Input/output error")


def note_syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files and folders that are synced from now on."""
    synced: list[str] = []
    fsync: Callable[[int], None] = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return synced


def fill_state(state: DiskState) -> None:
    """Let most of the file be history."""
    for number in range(3000):
        state.put("t", "k", str(number) * 200)


@pytest.mark.parametrize("call", ["delete", "put"])
def test_a_topic_that_is_half_deleted_loses_no_messages(tmp_path: Path, call: str) -> None:
    disk = Disk(tmp_path)
    put(disk.store, *(message(body=b"old") for _ in range(5)))
    disk.store.drop_stored_before(2000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk.state, call, refuse)
        with pytest.raises(RefusalError):
            disk.store.delete_topic("T")
    put(disk.store, message(body=b"new"))
    before = disk.store.max_offset("T", 0)
    store = disk.reopen()
    assert bodies(store)[-1:] == [b"new"]
    assert store.max_offset("T", 0) == before
    disk.close()


def test_where_a_queue_begins_is_written_when_the_disk_takes_it_again(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    put(disk.store, *(message(body=b"old") for _ in range(5)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk.state, "put", refuse)
        with pytest.raises(RefusalError):
            disk.store.drop_stored_before(2000)
    disk.store.drop_stored_before(2000)
    assert disk.reopen().min_offset("T", 0) == 5
    disk.close()


@pytest.mark.parametrize("on_disk", [False, True])
async def test_tables_are_never_flushed_ahead_of_the_messages_they_tell_of(tmp_path: Path, on_disk: bool) -> None:
    place = {"dir": tmp_path} if on_disk else {}
    settings = {"flushIntervalCommitLog": "600000"}
    async with Sandbox(clock=VirtualClock(), settings=settings, **place) as sandbox:
        broker = sandbox.brokers["broker-a"]
        for way in ("delays", "timers"):
            for number in range(3):
                await send_late(sandbox, way, b"%d" % number, f"{way}{number}")
        await broker.restart()
        await sandbox.advance(7)  # tables are flushed every 5 s
        await broker.restart(lose_unflushed=True)
        await sandbox.advance(7)
        assert sorted(bodies(broker.store)) == sorted([b"0", b"1", b"2"] * 2)


def test_a_file_that_was_made_anew_is_the_one_that_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    state = DiskState(tmp_path / "one")
    fill_state(state)
    monkeypatch.setattr(disk_state, "sync_folder", fail)
    state.flush_behind()
    state.put("t", "after", 1)
    monkeypatch.undo()
    found = DiskState(shutil.copytree(tmp_path / "one", tmp_path / "two"))
    assert found.load("t") == {"k": "2999" * 200, "after": 1}
    found.close()
    state.close()


def test_a_full_disk_is_not_filled_with_half_a_new_file(tmp_path: Path) -> None:
    state = DiskState(tmp_path)
    fill_state(state)
    with full_disk(100):
        state.flush_behind()
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    state.put("t", "after", 1)
    state.close()
    found = DiskState(tmp_path)
    assert found.load("t") == {"k": "2999" * 200, "after": 1}
    found.close()


async def test_facts_are_on_the_disk_before_they_have_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = note_syncs(monkeypatch)

    async with Sandbox(clock=VirtualClock(), dir=tmp_path / "data"):
        assert synced[:2] == ["sandbox.new", "data"]


def test_a_segment_that_was_removed_does_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path, segment_bytes=500)
    put(disk.store, *(message() for _ in range(20)))
    disk.store.flush()
    synced = note_syncs(monkeypatch)
    disk.store.drop_stored_before(2000)
    assert len(disk.segments) == 1
    assert "commitlog" in synced
    disk.close()


async def test_a_disk_that_fails_at_the_end_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_names() -> list[str]:
        links = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        return [name for name in links if str(tmp_path) in name]

    sandbox = Sandbox(clock=VirtualClock(), dir=tmp_path)
    await sandbox.start()
    await send_late(sandbox, "delays")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output"):
            await sandbox.stop()
    assert open_names() == []
    await sandbox.stop()
    async with Sandbox(clock=VirtualClock(), dir=tmp_path):
        assert open_names() != []


async def test_a_delayed_message_whose_flush_fails_comes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Sandbox(clock=VirtualClock(), dir=tmp_path, settings={"flushDiskType": "SYNC_FLUSH"}) as sandbox:
        await send_late(sandbox, "delays")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            await sandbox.advance(3)
        await sandbox.advance(3)
        assert bodies(sandbox.brokers["broker-a"].store) == [b"late"]


async def test_a_message_that_is_stored_and_not_flushed_is_no_failed_send(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal would make the producer send it once more."""

    async with Sandbox(clock=VirtualClock(), dir=tmp_path, settings={"flushDiskType": "SYNC_FLUSH"}) as sandbox:
        peer = await Peer.of_broker(sandbox)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            answer = await send(peer, "T", b"one")
        assert (answer.code, answer.remark) == (ResponseCode.FLUSH_DISK_TIMEOUT, None)
        assert (answer.ext_fields["queueOffset"], bodies(sandbox.brokers["broker-a"].store)) == ("0", [b"one"])
        assert (await send(peer, "T", b"two")).code == ResponseCode.SUCCESS
        await peer.aclose()


def test_what_could_not_be_deleted_is_deleted_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    state = StateStore()
    state.put("pop_orders", "T@G@0", [None, 1, 1, [0], [], [], []])
    offsets, points, orders = OffsetTable(lambda: 0, state), CheckPoints(state), OrderlyQueues(state)
    offsets.store("G", "T", 0, 5)
    point = CheckPoint("G", "T", 0, 0, 1, 100, [0])
    points.put(point)
    deletions: list[Callable[[], None]] = [
        lambda: offsets.delete(group="G"), lambda: points.acknowledge(point.key, 0), lambda: orders.clear("T", "G", 0)
    ]  # fmt: skip
    for delete in deletions:
        with monkeypatch.context() as patch:
            patch.setattr(state, "delete", refuse)
            with pytest.raises(RefusalError):
                delete()
    assert offsets.find("G", "T", 0) == 5
    for delete in deletions:
        delete()
    assert [state.load(table) for table in ("offsets", "pop_check_points", "pop_orders")] == [{}, {}, {}]


def test_an_offset_that_could_not_be_stored_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    state = StateStore()
    offsets = OffsetTable(lambda: 0, state)
    monkeypatch.setattr(state, "put", refuse)
    with pytest.raises(RefusalError):
        offsets.store("G", "T", 0, 5)
    assert offsets.topics_of("G") == []
