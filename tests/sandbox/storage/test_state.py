"""A broker's tables, in memory and in a file."""

from __future__ import annotations

import logging
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqctl.errors import RmqctlError
from rmqctl.protocol.codes import ResponseCode
from rmqctl.sandbox.request import RefusalError
from rmqctl.sandbox.storage.disk_state import FILE_NAME, DiskState
from rmqctl.sandbox.storage.state import StateStore


@pytest.fixture(params=["memory", "disk"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateStore]:
    made = StateStore() if request.param == "memory" else DiskState(tmp_path)
    yield made
    made.close()


def test_tables_hold_what_was_last_put(state: StateStore) -> None:
    state.put("t", "a", 1)
    state.put("t", "b", {"x": [1, None, "ä\n"]})
    state.put("t", "a", 2)
    state.put("u", "a", None)
    state.delete("t", "missing")
    state.delete("nothing", "missing")
    assert state.load("t") == {"a": 2, "b": {"x": [1, None, "ä\n"]}}
    assert state.load("u") == {"a": None}
    state.delete("t", "b")
    assert state.load("t") == {"a": 2}
    assert state.load("other") == {}


def test_a_value_is_kept_as_it_was_when_it_was_put(state: StateStore) -> None:
    value = {"a": 1}
    state.put("t", "k", value)
    value["a"] = 2
    assert state.load("t") == {"k": {"a": 1}}


@pytest.mark.parametrize("behind", [False, True])
def test_a_power_cut_takes_what_was_not_flushed(state: StateStore, behind: bool) -> None:
    state.put("t", "changed", 1)
    state.put("t", "deleted", 1)
    if behind:
        state.flush_behind()
    else:
        state.flush()
    state.put("t", "changed", 2)
    state.put("t", "changed", 3)
    state.delete("t", "deleted")
    state.put("t", "new", 1)
    state.lose_unflushed()
    assert state.load("t") == {"changed": 1, "deleted": 1}
    state.put("t", "changed", 4)
    state.lose_unflushed()
    assert state.load("t") == {"changed": 1, "deleted": 1}


def test_the_file_is_read_again(tmp_path: Path) -> None:
    for number in range(3):
        state = DiskState(tmp_path)
        assert state.load("t") == {"number": number - 1, "ä\n": [1]} or number == 0
        state.put("t", "number", number)
        state.put("t", "ä\n", [1])
        state.put("t", "gone", 1)
        state.delete("t", "gone")
        state.close()


def test_after_a_power_cut_the_file_says_the_same(tmp_path: Path) -> None:
    state = DiskState(tmp_path)
    state.put("t", "k", 1)
    state.flush()
    state.put("t", "k", 2)
    state.lose_unflushed()
    state.put("t", "other", 3)
    state.close()
    found = DiskState(tmp_path)
    assert found.load("t") == {"k": 1, "other": 3}
    found.close()


def test_a_file_of_mostly_history_is_made_anew(tmp_path: Path) -> None:
    state = DiskState(tmp_path)
    for number in range(3000):
        state.put("t", "k", str(number) * 200)
    assert (tmp_path / FILE_NAME).stat().st_size > 1 << 20
    state.flush_behind()
    assert (tmp_path / FILE_NAME).stat().st_size < 2000
    state.put("t", "l", 1)
    state.lose_unflushed()
    state.put("t", "m", 1)
    state.close()
    found = DiskState(tmp_path)
    assert found.load("t") == {"k": "2999" * 200, "m": 1}
    found.close()


@pytest.mark.parametrize("harm", [
    lambda data: data[:-1], lambda data: data[:-10], lambda data: data + b"garbage", lambda data: data + bytes(100),
    lambda data: data + b"00000000 []\n", lambda data: data.replace(b'"last"', b'"lost"'),
])  # fmt: skip
def test_a_damaged_tail_is_cut_off_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: object
) -> None:
    assert callable(harm)
    state = DiskState(tmp_path)
    state.put("t", "first", 1)
    before = (tmp_path / FILE_NAME).stat().st_size
    state.put("t", "last", 1)
    state.close()
    path = tmp_path / FILE_NAME
    path.write_bytes(harm(path.read_bytes()))
    harmed = path.read_bytes()
    harmed_size = len(harmed)
    found = DiskState(tmp_path)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    kept = path.stat().st_size
    assert f"{path}: damaged at byte {kept}: the last {harmed_size - kept} bytes are cut off" in warning
    assert path.read_bytes() + Path(f"{path}.damaged-1").read_bytes() == harmed
    assert found.load("t") == ({"first": 1} if kept == before else {"first": 1, "last": 1})
    found.put("t", "next", 1)
    found.close()
    caplog.clear()
    again = DiskState(tmp_path)
    assert again.load("t")["next"] == 1
    assert not caplog.records
    again.close()


@pytest.mark.parametrize(("content", "says"), [
    (b"", "is not a state file"),
    (b"SQLite format 3\x00", "is not a state file"),
    (b"rmqctl sandbox state 2 0\n", "is not a state file"),
    (b"rmqctl sandbox state 1 1\n00000000 []\n", "is damaged at byte 25, in a part that was already flushed"),
])  # fmt: skip
def test_a_file_that_is_not_ours_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(RmqctlError, match=f"{tmp_path / FILE_NAME} {says}") as refused:
        DiskState(tmp_path)
    assert refused.value.hint
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_a_full_disk_refuses_a_change_and_keeps_what_was(tmp_path: Path) -> None:
    state = DiskState(tmp_path)
    state.put("t", "k", 1)
    size = (tmp_path / FILE_NAME).stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, before[1]))
    try:
        with pytest.raises(RefusalError) as refused:
            state.put("t", "k", 2)
        with pytest.raises(RefusalError):
            state.delete("t", "k")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert state.load("t") == {"k": 1}
    state.put("t", "l", 2)
    state.close()
    found = DiskState(tmp_path)
    assert found.load("t") == {"k": 1, "l": 2}
    found.close()
