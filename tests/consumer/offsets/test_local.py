"""The file in which broadcasting consumers keep their offsets: as Java writes it, and whole at any moment."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.consumer.offsets.local import LocalOffsets, decode_offsets, encode_offsets, local_offsets_path
from rmqctl.errors import RemoteProtocolError, RmqctlError, UsageError
from rmqctl.model.queue import MessageQueue
from tests.scripted_peer import run

_T = TypeVar("_T")
_MQ = MessageQueue("T", "broker-a", 0)
_OTHER = MessageQueue("U", "broker-a", 0)

# As DefaultMQPushConsumer wrote them on the disk.
_BY_5_4_0 = (
    b'{\n\t"offsetTable":{\n\t\t{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":0,\n\t\t\t"topic":"T"\n\t\t}:4,\n'
    b'\t\t{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":0,\n\t\t\t"topic":"U"\n\t\t}:1\n\t}\n}'
)
_BY_4_9_7 = (
    b'{\n\t"offsetTable":{{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":0,\n\t\t\t"topic":"T"\n\t\t}:4,'
    b'{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":0,\n\t\t\t"topic":"U"\n\t\t}:1\n\t}\n}'
)
_ROWS = {_MQ: 4, _OTHER: 1}


def _with(path: Path, call: Callable[[LocalOffsets], Awaitable[_T]]) -> _T:
    async def scenario() -> _T:
        return await call(LocalOffsets(path))

    return run(scenario())


def _persist(path: Path, offsets: dict[MessageQueue, int]) -> list[str]:
    async def call(store: LocalOffsets) -> list[str]:
        for mq, offset in offsets.items():
            store.update(mq, offset, increase_only=True)
        return [str(failure.error) for failure in await store.persist()]

    return _with(path, call)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return local_offsets_path("192.0.2.2@DEFAULT", "G", tmp_path)


def _bak(path: Path) -> Path:
    return path.with_name("offsets.json.bak")


def test_the_file_stands_where_java_looks_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = tmp_path / ".rocketmq_offsets/192.0.2.2@DEFAULT/G/offsets.json"
    assert local_offsets_path("192.0.2.2@DEFAULT", "G") == expected


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../x", "a\\b", "a\0b"])
def test_a_name_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    for names in ((name, "G"), ("c@1", name)):
        with pytest.raises(UsageError, match="not a valid file name"):
            local_offsets_path(*names, tmp_path)


@pytest.mark.parametrize("text", [_BY_5_4_0, _BY_4_9_7])
def test_what_java_wrote_is_read(text: bytes) -> None:
    assert decode_offsets(text) == _ROWS


def test_what_is_written_is_what_java_5_4_0_writes() -> None:
    assert encode_offsets({_OTHER: 1, _MQ: 4}) == _BY_5_4_0


@given(
    st.dictionaries(
        st.builds(MessageQueue, st.text(), st.text(), st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1)
    ).filter(lambda rows: not any("\ud800" <= letter <= "\udfff" for mq in rows for text in mq[:2] for letter in text))
)
def test_what_is_written_is_read(rows: dict[MessageQueue, int]) -> None:
    assert decode_offsets(encode_offsets(rows)) == rows


@pytest.mark.parametrize(
    "text",
    [
        b"", b"x", b"[]", b"null", b'{"offsetTable":5}', b'{"offsetTable":{"a":5}}', b'{"offsetTable":[1]}', b"\xff",
        b'{"offsetTable":{{"brokerName":"b","queueId":0}:5}}', b'{"other":{}}', _BY_5_4_0[:-20],
        b'{"offsetTable":{{"brokerName":"b","queueId":"0","topic":"T"}:5}}',
        b'{"offsetTable":{{"brokerName":"b","queueId":true,"topic":"T"}:5}}',
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:-1}}',
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:9223372036854775808}}',
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:true}}',
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:"5"}}',
    ],
)  # fmt: skip
def test_what_is_no_such_file_is_refused(text: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_offsets(text)


@pytest.mark.parametrize("text", [b"{}", b'{"offsetTable":{}}'])
def test_a_file_without_queues_is_none(text: bytes) -> None:
    assert decode_offsets(text) == {}


def test_nothing_is_stored_before_the_first_file(path: Path) -> None:
    assert _with(path, lambda store: store.fetch(_MQ)) is None
    assert _persist(path, {}) == []
    assert not path.parent.exists()


def test_what_is_persisted_is_fetched_and_the_file_before_it_is_kept(path: Path) -> None:
    assert _persist(path, {_MQ: 4}) == []
    assert not _bak(path).exists()
    assert _persist(path, {_MQ: 7}) == []
    assert decode_offsets(path.read_bytes()) == {_MQ: 7}
    assert decode_offsets(_bak(path).read_bytes()) == {_MQ: 4}
    assert _with(path, lambda store: store.fetch(_MQ)) == 7
    assert sorted(file.name for file in path.parent.iterdir()) == ["offsets.json", "offsets.json.bak"]
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_queues_that_are_not_held_keep_what_stands_in_the_file(path: Path) -> None:
    _persist(path, {_MQ: 4, _OTHER: 1})

    async def call(store: LocalOffsets) -> tuple[object, ...]:
        store.update(_MQ, 5, increase_only=True)
        store.update(_OTHER, 6, increase_only=True)
        failures = await store.persist([_MQ])
        store.forget(_MQ)
        store.forget(_OTHER)
        return failures, store.snapshot(), await store.persist()

    assert _with(path, call) == ([], {}, [])
    assert decode_offsets(path.read_bytes()) == {_MQ: 5, _OTHER: 1}


def test_fetching_leaves_memory_as_it_is(path: Path) -> None:
    _persist(path, {_MQ: 4})

    async def call(store: LocalOffsets) -> tuple[object, ...]:
        return await store.fetch(_MQ), store.read(_MQ)

    assert _with(path, call) == (4, None)


@pytest.mark.parametrize("damaged", [b"", b"{", _BY_5_4_0[:50]])
def test_a_damaged_file_gives_way_to_the_one_before_it(path: Path, damaged: bytes) -> None:
    _persist(path, {_MQ: 4, _OTHER: 1})
    _persist(path, {_MQ: 7})
    path.write_bytes(damaged)
    assert _with(path, lambda store: store.fetch(_MQ)) == 4
    # The next write mends the file, and keeps the good one beside it.
    assert _persist(path, {_MQ: 8}) == []
    assert decode_offsets(path.read_bytes()) == {_MQ: 8, _OTHER: 1}
    assert decode_offsets(_bak(path).read_bytes()) == {_MQ: 4, _OTHER: 1}


def test_two_damaged_files_are_an_error_and_are_not_written_over(path: Path) -> None:
    path.parent.mkdir(parents=True)
    for file in (path, _bak(path)):
        file.write_bytes(b"{")
    with pytest.raises(UsageError, match=r"offsets\.json is damaged\.") as caught:
        _with(path, lambda store: store.fetch(_MQ))
    assert "Move the file away" in str(caught.value.hint)
    assert _persist(path, {_MQ: 8}) == [f"{path} is damaged."]
    assert path.read_bytes() == b"{"


def test_a_file_that_can_not_be_read_is_an_error_and_not_nothing(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(RmqctlError, match=r"Cannot read .*offsets\.json: is a directory\."):
        _with(path, lambda store: store.fetch(_MQ))
    assert _persist(path, {_MQ: 8}) == [f"Cannot read {path}: is a directory."]


def test_a_folder_that_can_not_be_made_is_a_failure(path: Path) -> None:
    path.parent.parent.write_text("in the way")
    (error,) = _persist(path, {_MQ: 8})
    assert error == f"Cannot read {path}: not a directory."


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_whenever_it_ends_the_offsets_before_or_after_are_there(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, at: int
) -> None:
    """Let the disk fail at each step: what is left there is what a crash at this point would leave."""
    _persist(path, {_MQ: 4})
    _persist(path, {_MQ: 5})
    real = getattr(os, call)
    calls = 0

    def failing(*args: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == at + 1:
            raise OSError(28, "No space left on device")
        return real(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, call, failing)
        errors = _persist(path, {_MQ: 6})
    if calls > at:
        assert errors == [f"Cannot write {path}: no space left on device."]
    assert _with(path, lambda store: store.fetch(_MQ)) in ({5, 6} if errors else {6})
    assert sorted(file.name for file in path.parent.iterdir()) == ["offsets.json", "offsets.json.bak"]
    assert _persist(path, {_MQ: 7}) == []
    assert decode_offsets(path.read_bytes()) == {_MQ: 7}
