"""What a sandbox finds in its folder: after the end of a process, after a power cut, and when files are damaged."""

from __future__ import annotations

import logging
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqctl.errors import RmqctlError
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.message import StoredMessage
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.storage import recovery
from rmqctl.sandbox.storage.commit_log import CommitLog
from rmqctl.sandbox.storage.record_scan import DamagedError, iter_records
from rmqctl.sandbox.storage.store import MessageStore
from tests.sandbox.peer import Peer, consumer_data, subscription
from tests.sandbox.storage.kill_runs import run_cycles
from tests.sandbox.storage.store_access import Disk, bodies, message, put

SEND = {"a": "P", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 0, "h": 0, "i": "", "j": 0, "m": False}


def killed(folder: Path, to: Path) -> Path:
    """Return a copy of what a process would leave that is killed right now."""
    return shutil.copytree(folder, to)


async def fill(sandbox: Sandbox) -> Peer:
    """Store some of everything."""
    peer = await Peer.of_broker(sandbox)
    for number in range(5):
        await peer.ask_ok(RequestCode.SEND_MESSAGE_V2, b"m%d" % number, **SEND)
    await peer.ask_ok(RequestCode.SEND_MESSAGE_V2, b"late", **{**SEND, "i": "DELAY\x013\x02"})
    await peer.heartbeat("me", consumer_data("G", subscription("T")))
    await peer.ask_ok(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="G", topic="T", queueId=0, commitOffset=3)
    return peer


async def seen(sandbox: Sandbox) -> list[Any]:
    """Return what `fill` stored."""
    broker = sandbox.brokers["broker-a"]
    group = broker.groups.find("G")
    return [bodies(broker.store), "T" in broker.topics.topics, group is not None, broker.offsets.find("G", "T", 0)]


STORED = [[b"m0", b"m1", b"m2", b"m3", b"m4"], True, True, 3]


async def test_everything_is_there_after_the_process_was_killed(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with Sandbox(clock=clock, dir=tmp_path / "one") as sandbox:
        peer = await fill(sandbox)
        await sandbox.advance(4)
        left = killed(tmp_path / "one", tmp_path / "two")
        await peer.aclose()
    async with Sandbox(clock=clock, dir=left) as sandbox:
        assert await seen(sandbox) == STORED
        # The delay goes on: level 3 is 10 s, of which 4 are over.
        await sandbox.advance(5.5)
        assert await seen(sandbox) == STORED
        await sandbox.advance(1)
        assert bodies(sandbox.brokers["broker-a"].store)[5:] == [b"late"]
        await sandbox.advance(60)
        assert len(bodies(sandbox.brokers["broker-a"].store)) == 6


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_delayed_message_comes_once_when_killed_between_two_writes(tmp_path: Path, is_stored: bool) -> None:
    clock = VirtualClock()
    async with Sandbox(clock=clock, dir=tmp_path / "one") as sandbox:
        await (await fill(sandbox)).aclose()
        broker = sandbox.brokers["broker-a"]
        deliver, left = broker.delays._deliver, []

        def interrupted(due: Any) -> None:
            if is_stored:
                deliver(due)
            left.append(killed(tmp_path / "one", tmp_path / "two"))
            if not is_stored:
                deliver(due)

        broker.delays._deliver = interrupted
        await sandbox.advance(11)
    async with Sandbox(clock=clock, dir=left[0]) as sandbox:
        await sandbox.advance(1)
        assert bodies(sandbox.brokers["broker-a"].store)[5:] == [b"late"]


@pytest.mark.parametrize("on_disk", [False, True])
async def test_a_restart_keeps_everything_and_a_power_cut_what_was_flushed(tmp_path: Path, on_disk: bool) -> None:
    place = {"dir": tmp_path} if on_disk else {}
    async with Sandbox(clock=VirtualClock(), **place) as sandbox:
        broker = sandbox.brokers["broker-a"]
        await (await fill(sandbox)).aclose()
        await broker.restart()
        assert await seen(sandbox) == STORED
        await sandbox.advance(5)
        peer = await Peer.of_broker(sandbox)
        await peer.ask_ok(RequestCode.SEND_MESSAGE_V2, b"m5", **SEND)
        await peer.ask_ok(RequestCode.SEND_MESSAGE_V2, b"x", **{**SEND, "b": "T2"})
        fields = {"consumerGroup": "G", "topic": "T", "queueId": 0}
        await peer.ask_ok(RequestCode.UPDATE_CONSUMER_OFFSET, **fields, commitOffset=5)
        await peer.aclose()
        await broker.restart(lose_unflushed=True)
        assert await seen(sandbox) == STORED
        assert broker.topics.find("T2") is None
        await sandbox.advance(10)
        assert bodies(broker.store)[5:] == [b"late"]


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_sync_flush_lets_a_power_cut_take_no_message(tmp_path: Path, flush: str) -> None:
    async with Sandbox(clock=VirtualClock(), dir=tmp_path, settings={"flushDiskType": flush}) as sandbox:
        broker = sandbox.brokers["broker-a"]
        peer = await Peer.of_broker(sandbox)
        await peer.ask_ok(RequestCode.SEND_MESSAGE_V2, b"m", **SEND)
        await peer.aclose()
        await broker.restart(lose_unflushed=True)
        assert bodies(broker.store) == ([b"m"] if flush == "SYNC_FLUSH" else [])


async def test_a_full_disk_refuses_and_what_comes_later_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Sandbox(clock=VirtualClock(), dir=tmp_path / "one") as sandbox:
        broker = sandbox.brokers["broker-a"]
        peer = await fill(sandbox)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (broker.store.log.end + 100, before[1]))
        try:
            refused = await peer.ask(RequestCode.SEND_MESSAGE_V2, b"." * 200, **SEND)
            batch = (b"\x00\x00\x00\x1a" + bytes(12) + b"\x00\x00\x00\x04body\x00\x00") * 3
            fields = {**SEND, "m": True}
            refused_batch = await peer.ask(RequestCode.SEND_MESSAGE_V2, batch, **fields)
            await sandbox.advance(11)
            assert bodies(broker.store) == STORED[0]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        for answer in (refused, refused_batch):
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "disk is full [File too large]" in (answer.remark or "")
        sent = await peer.ask_ok(RequestCode.SEND_MESSAGE_V2, b"m5", **SEND)
        assert sent.ext_fields["queueOffset"] == "5"
        await sandbox.advance(11)
        left = killed(tmp_path / "one", tmp_path / "two")
        await peer.aclose()
    async with Sandbox(clock=VirtualClock(), dir=left) as sandbox:
        assert bodies(sandbox.brokers["broker-a"].store) == [*STORED[0], b"m5", b"late"]


async def test_another_port_reads_old_messages(tmp_path: Path) -> None:
    async with Sandbox(clock=VirtualClock(), dir=tmp_path) as sandbox:
        await (await fill(sandbox)).aclose()
        old = sandbox.brokers["broker-a"].address
    async with Sandbox(clock=VirtualClock(), dir=tmp_path) as sandbox:
        broker = sandbox.brokers["broker-a"]
        stored = broker.store.message_in_log(0)
        assert stored is not None
        assert stored.store_host == old != broker.address


async def test_two_brokers_have_a_folder_each(tmp_path: Path) -> None:
    for _ in range(2):
        async with Sandbox(clock=VirtualClock(), dir=tmp_path, brokers=2) as sandbox:
            for name in sandbox.brokers:
                peer = await Peer.of_broker(sandbox, name)
                await peer.ask_ok(RequestCode.SEND_MESSAGE_V2, name.encode(), **SEND)
                await peer.aclose()
            held = {name: bodies(broker.store) for name, broker in sandbox.brokers.items()}
    assert held == {"broker-a": [b"broker-a"] * 2, "broker-b": [b"broker-b"] * 2}


# --- What retention and deletions leave behind


def test_where_queues_begin_survives(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    put(disk.store, *(message(body=b"old", queue_id=number % 2) for number in range(10)), now_ms=1)
    put(disk.store, message(body=b"new"), now_ms=5)
    disk.store.drop_stored_before(3)
    for store in (disk.store, disk.reopen(), disk.reopen()):
        assert (store.min_offset("T", 0), store.max_offset("T", 0), bodies(store)) == (5, 6, [b"new"])
        assert (store.min_offset("T", 1), store.max_offset("T", 1), bodies(store, "T", 1)) == (5, 5, [])
    assert put(disk.store, message(body=b"newer", queue_id=1))[0].queue_offset == 5
    assert bodies(disk.reopen(), "T", 1) == [b"newer"]
    disk.close()


def test_segments_that_are_gone_are_not_missed(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=1000, capacity_bytes=4000)
    put(disk.store, message(queue_id=1), *(message(body=b"%d" % number) for number in range(100)))
    low = disk.store.min_offset("T", 0)
    assert low > 50
    store = disk.reopen()
    assert (store.min_offset("T", 0), store.min_offset("T", 1), store.max_offset("T", 1)) == (low, 1, 1)
    assert bodies(store) == [b"%d" % number for number in range(low, 100)]
    disk.close()


def test_a_deleted_topic_stays_deleted_and_begins_anew(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    put(disk.store, *(message(body=b"old") for _ in range(5)), message("Other", body=b"kept"))
    disk.store.delete_topic("T")
    assert disk.reopen().find_queue("T", 0) is None
    put(disk.store, message(body=b"new"))
    store = disk.reopen()
    assert (bodies(store), store.min_offset("T", 0), bodies(store, "Other")) == ([b"new"], 0, [b"kept"])
    disk.close()


def test_a_cut_before_the_deletion_does_not_swallow_what_comes_after(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    put(disk.store, *(message(body=b"old") for _ in range(5)))
    disk.store.delete_topic("T")
    disk.close()
    (segment,) = disk.segments
    segment.write_bytes(segment.read_bytes()[:-1])
    disk._open()
    put(disk.store, message(body=b"new"))
    assert bodies(disk.reopen()) == [b"new"]
    disk.close()


def test_keys_and_tags_are_found_again(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    put(disk.store, message(TAGS="A", KEYS="k"), message(TAGS="B"))
    before = list(disk.store.queue("T", 0).tags_codes)
    store = disk.reopen()
    assert list(store.queue("T", 0).tags_codes) == before
    assert list(store.index.newest_first("T", "k")) == [0]
    disk.close()


# --- Damage


def _cut(count: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:-count]


DAMAGES = {
    "torn record": (_cut(30), "an incomplete record"),
    "half a header": (lambda data: data + data[:6], "an incomplete header"),
    "garbage": (lambda data: data + b"\xa5" * 300, "no record starts here"),
    "zeroes": (lambda data: data + bytes(4096), "no record starts here"),
    "wrong CRC": (lambda data: data.replace(b"body 9", b"Body 9"), "a record with a wrong body CRC"),
    "a record of another place": (lambda data: data + data[: int.from_bytes(data[:4], "big")], "a record of another"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_tail_is_cut_off_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    disk = Disk(tmp_path, segment_bytes=100_000)
    put(disk.store, *(message(body=b"body %d" % number) for number in range(10)))
    size = disk.log.end
    disk.close()
    harm, reason = DAMAGES[name]
    (segment,) = disk.segments
    segment.write_bytes(harm(segment.read_bytes()))
    harmed = segment.read_bytes()
    harmed_size = len(harmed)
    disk._open()
    kept = bodies(disk.store)
    assert kept == [b"body %d" % number for number in range(len(kept))]
    assert len(kept) == (10 if harmed_size > size else 9)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    lost = harmed_size - segment.stat().st_size
    assert f"{segment}: damaged at byte {segment.stat().st_size} ({reason}" in warning
    kept_path = Path(f"{segment}.damaged-1")
    assert f"the last {lost} bytes are cut off, and kept in {kept_path}" in warning
    assert segment.read_bytes() + kept_path.read_bytes() == harmed
    caplog.clear()
    put(disk.store, message(body=b"next"))
    assert bodies(disk.reopen()) == [*kept, b"next"]
    assert not caplog.records
    disk.close()


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_start_by_saved_entries_finds_what_the_records_say(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    disk = Disk(tmp_path_factory.mktemp("saved"), segment_bytes=600)
    for number in range(1, data.draw(st.integers(20, 40))):
        step = data.draw(st.sampled_from(["put"] * 12 + ["delete", "expire", "reopen"]))
        topic, queue_id = data.draw(st.sampled_from(["T", "U"])), data.draw(st.integers(0, 1))
        if step == "put":
            put(disk.store, message(topic, queue_id, b"%d" % number, KEYS=f"k{number % 3}", TAGS="t"), now_ms=number)
        elif step == "delete":
            disk.store.delete_topic(topic)
        elif step == "expire":
            disk.store.drop_stored_before(number - 10)
        else:
            disk.reopen()
    saved = {path: path.read_bytes() for path in disk.folder.glob("commitlog/*.entries")}
    assert len(saved) == len(disk.segments) - 1
    by_entries = _contents(disk.reopen())
    disk.close()
    for path, content in saved.items():
        harm = data.draw(st.sampled_from(["none", "torn", "absent", "of another segment"]))
        if harm == "torn":
            path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
        elif harm == "of another segment":
            path.write_bytes(data.draw(st.sampled_from(list(saved.values()))))
        elif harm == "absent":
            path.unlink()
    disk._open()
    assert _contents(disk.store) == by_entries
    disk.close()


@pytest.mark.parametrize(("harm", "said", "lost"), [
    (lambda paths: paths[-1].unlink(), "the last {} bytes of messages are missing", -1),
    (lambda paths: paths[-1].write_bytes(b""), "the last {} bytes of messages are missing", -1),
    (lambda paths: paths[0].unlink(), "the {} bytes of messages before it are missing", 0),
])  # fmt: skip
def test_whole_files_that_are_missing_are_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: Callable[[list[Path]], None], said: str, lost: int
) -> None:
    disk = Disk(tmp_path, segment_bytes=500)
    put(disk.store, *(message(body=b"body %d" % number) for number in range(20)))
    # What retention drops is not missing.
    disk.store.flush_behind()
    disk.store._free_before(disk.log.second_segment_start() or 0)
    disk.store.flush_behind()
    disk.reopen()
    assert not caplog.records
    disk.close()
    paths = disk.segments
    lost_bytes = paths[lost].stat().st_size
    harm(paths)
    disk._open()
    (warning,) = [record.getMessage() for record in caplog.records]
    assert said.format(lost_bytes) in warning
    caplog.clear()
    disk.store.flush_behind()
    disk.reopen()
    assert not caplog.records
    disk.close()


def test_a_full_segment_whose_bytes_changed_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk(tmp_path, segment_bytes=500)
    put(disk.store, *(message(KEYS=f"k{number}") for number in range(20)))
    disk.close()
    first = disk.segments[0]
    first.write_bytes(first.read_bytes().replace(b"k1\x02", b"k7\x02", 1))
    disk._open()
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith(f"{first}: its bytes changed since it was full")
    disk.close()


def test_a_long_start_says_how_far_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path, segment_bytes=2_000_000)
    put(disk.store, *(message(body=b"." * 500_000) for _ in range(8)))
    monkeypatch.setattr(recovery, "_REPORT_S", -1.0)
    caplog.set_level(logging.INFO, "rmqctl.sandbox")
    disk.reopen()
    reports = [record.getMessage() for record in caplog.records if " of 3 MiB of messages" in record.getMessage()]
    assert reports[-1].startswith("read 3 of 3 MiB of messages")
    assert len(reports) >= len(disk.segments) > 2
    disk.close()


def _contents(store: MessageStore) -> Any:
    queues = {
        (topic, queue_id): (queue.min_offset, queue.max_offset, *map(list, queue._columns()))
        for topic, by_id in store.queues.items() for queue_id, queue in by_id.items()
    }  # fmt: skip
    keys = {key: [each.commit_log_offset for each in store.find_by_key("T", key, 99, 0, 999)] for key in ("k0", "k1")}
    return queues, keys


def test_damage_before_the_last_segment_is_refused(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=500)
    put(disk.store, *(message(body=b"body %d" % number) for number in range(20)))
    disk.close()
    first = disk.segments[0]
    first.write_bytes(first.read_bytes().replace(b"body 1", b"Body 1"))
    with pytest.raises(RmqctlError, match=rf"{first} is damaged at byte \d+: .*CRC") as it:
        disk._open()
    assert it.value.hint
    disk.close()


@pytest.fixture(scope="module")
def last_segment() -> tuple[bytes, int]:
    """Return a segment that is not the log's first, and its base."""
    store = MessageStore(CommitLog(2000), 1 << 30)
    put(store, *(message("T", number % 3, b"body %d" % number * 3, KEYS=f"k{number}") for number in range(40)))
    segment = store.log.segments[-1]
    return segment.read(0, segment.size_bytes), segment.base


def _identities(data: bytes, base: int) -> list[tuple[Any, ...]]:
    found = []
    try:
        for record in iter_records(data, base):
            each = StoredMessage.decode(data[record.at : record.at + record.size_bytes])
            found.append((record.at, each.queue_offset, each.commit_log_offset, each.stored_body))
    except DamagedError:
        pass
    return found


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_damage_leaves_a_readable_prefix(last_segment: tuple[bytes, int], data: st.DataObject) -> None:
    whole, base = last_segment
    at = data.draw(st.integers(0, len(whole) - 1))
    kind = data.draw(st.sampled_from(["cut", "byte", "zeroes", "garbage"]))
    if kind == "cut":
        harmed = whole[:at]
    elif kind == "byte":
        harmed = whole[:at] + bytes((whole[at] ^ data.draw(st.integers(1, 255)),)) + whole[at + 1 :]
    else:
        length = min(data.draw(st.integers(1, 600)), len(whole) - at)
        filling = bytes(length) if kind == "zeroes" else data.draw(st.binary(min_size=length, max_size=length))
        harmed = whole[:at] + filling + whole[at + length :]
    originals = _identities(whole, base)
    kept = _identities(harmed, base)
    # What stands before the damage is all there, and nothing that was not stored. The queue offset has no check sum,
    # but the store compares it with the one that must come next.
    untouched = [each for number, each in enumerate(originals) if [*originals, (len(whole),)][number + 1][0] <= at]
    assert kept[: len(untouched)] == untouched
    assert [(place, body) for _, _, place, body in kept] == [
        (place, body) for _, _, place, body in originals[: len(kept)]
    ]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_sandbox_starts_after_any_damage_of_the_last_segment(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    disk = Disk(tmp_path_factory.mktemp("harmed"), segment_bytes=1500)
    expected = [b"body %d" % number for number in range(25)]
    put(disk.store, *(message(body=body) for body in expected))
    disk.close()
    segment = disk.segments[-1]
    whole = segment.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(1, 255))
    segment.write_bytes(
        data.draw(st.sampled_from([whole[:at], whole[:at] + bytes((whole[at] ^ byte,)) + whole[at + 1 :]]))
    )
    disk._open()
    kept = bodies(disk.store)
    assert kept == expected[: len(kept)]
    assert {queue_id for topic in disk.store.queues for queue_id in disk.store.queues[topic]} == {0}
    put(disk.store, message(body=b"next"))
    assert bodies(disk.reopen()) == [*kept, b"next"]
    disk.close()


@pytest.mark.by_the_clock
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    """Kills after real fractions of a second; how much is acknowledged by then depends on the machine."""
    ledger = run_cycles(tmp_path, 5, seed=20)
    assert not ledger.wrong, ledger.wrong[:4]
    assert ledger.acknowledged_count > 200
