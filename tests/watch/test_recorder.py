"""Recordings: what is written can be read, restarts continue, and the size is bounded."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rmqctl.errors import BusyError, RmqctlError, UsageError
from rmqctl.observe.recording import RecordedSample, read_recording
from rmqctl.watch.recorder import Recorder

from .test_health import A0, MINUTE_MS, recorded


def _samples(number: int, count: int = 1) -> list[RecordedSample]:
    return [recorded(number * MINUTE_MS + at, {A0: (number, number + 9)}) for at in range(count)]


def _open(path: Path, most_bytes: int = 1 << 20, keep_count: int = 2) -> Recorder:
    return Recorder(str(path), most_bytes=most_bytes, keep_count=keep_count)


def _times(path: Path) -> list[int]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [each.sample.at_ms // MINUTE_MS for each in read_recording(data.splitlines(keepends=True), path.name)]


def test_a_restart_continues_behind_the_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "groups.jsonl"
    recorder = _open(path)
    for number in range(3):
        recorder.write(_samples(number))
    recorder.close()
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:50])  # the process or the machine stopped here
    recorder = _open(path)
    assert [each.sample.at_ms for each in recorder.recent(MINUTE_MS)] == [MINUTE_MS, 2 * MINUTE_MS]
    recorder.write(_samples(3))
    recorder.close()
    assert _times(path) == [0, 1, 2, 3]


def test_full_files_are_compressed_and_the_oldest_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "groups.jsonl"
    recorder = _open(path, most_bytes=3000)
    for number in range(40):
        recorder.write(_samples(number))
        assert path.stat().st_size <= 3000
    recorder.close()
    files = sorted(each.name for each in tmp_path.iterdir())
    assert files == ["groups.jsonl", "groups.jsonl.1.gz", "groups.jsonl.2.gz"]
    kept = [_times(tmp_path / name) for name in reversed(files)]
    assert [number for numbers in kept for number in numbers] == list(range(kept[0][0], 40))


def test_nothing_is_kept_on_request(tmp_path: Path) -> None:
    recorder = _open(tmp_path / "r", most_bytes=2000, keep_count=0)
    for number in range(20):
        recorder.write(_samples(number))
    recorder.close()
    assert [each.name for each in tmp_path.iterdir()] == ["r"]


def test_a_file_that_was_not_compressed_is_compressed_later(tmp_path: Path) -> None:
    path = tmp_path / "r"
    recorder = _open(path)
    recorder.write(_samples(0))
    recorder.close()
    path.rename(tmp_path / "r.full")  # the process ended in the middle of a rotation
    (tmp_path / "r.0.gz").write_bytes(b"half")
    recorder = _open(path)
    recorder.write(_samples(1))
    recorder.close()
    assert (_times(tmp_path / "r.1.gz"), _times(path)) == ([0], [1])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["r", "r.1.gz"]


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    recorder = _open(tmp_path / "r")
    with pytest.raises(BusyError):
        _open(tmp_path / "r")
    recorder.close()
    _open(tmp_path / "r").close()


@pytest.mark.parametrize("name", [".", "missing/r"])
def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="Cannot write --record"):
        _open(tmp_path / name)


def test_another_file_is_not_taken_for_a_recording(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("hello\n")
    recorder = _open(tmp_path / "r")
    with pytest.raises(UsageError, match="line 1"):
        list(recorder.recent(0))
    recorder.close()


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = _open(tmp_path / "r")
    recorder.write(_samples(0))
    real = __import__("os").write

    def write(descriptor: int, data: bytes) -> int:
        real(descriptor, data[:40])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rmqctl.watch.recorder.os.write", write)
    with pytest.raises(RmqctlError, match="no space left"):
        recorder.write(_samples(1))
    monkeypatch.undo()
    recorder.write(_samples(2))
    recorder.close()
    assert _times(tmp_path / "r") == [0, 2]
