"""The log of records, in memory and in files."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqctl.errors import RmqctlError
from rmqctl.sandbox.storage.commit_log import CommitLog
from rmqctl.sandbox.storage.disk_log import DiskLog


@pytest.fixture(params=["memory", "disk"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CommitLog]:
    made = CommitLog(10) if request.param == "memory" else DiskLog(tmp_path / "log", 10)
    yield made
    made.close()


def test_what_is_appended_is_read_across_segments(log: CommitLog) -> None:
    for record in (b"aaaa", b"bbbb", b"cccc", b"dddddddddddd", b"e"):
        log.append(record)
    assert log.end == 25
    assert [segment.size_bytes for segment in log.segments] == [8, 4, 12, 1]
    assert log.read(0, 4) == b"aaaa"
    assert log.read(4, 21) == b"bbbbccccdddddddddddde"
    assert log.read(24, 100) == b"e"
    assert log.read(25, 1) == log.read(-1, 1) == log.read(0, 0) == b""


def test_the_oldest_segments_go_and_the_last_one_stays(log: CommitLog) -> None:
    for _ in range(6):
        log.append(b"12345")
    log.drop_before(19)
    assert log.start == 10
    assert log.read(5, 5) == b""
    assert log.read(10, 5) == b"12345"
    log.drop_before(30)
    assert (log.start, log.end) == (20, 30)
    assert log.second_segment_start() is None


def test_the_end_can_be_cut_off_down_to_an_older_segment(log: CommitLog) -> None:
    for record in (b"11111", b"22222", b"33333", b"44444", b"55555"):
        log.append(record)
    log.truncate(15)
    assert (log.end, log.read(10, 10)) == (15, b"33333")
    log.truncate(10)
    log.append(b"66666")
    assert log.read(0, 100) == b"111112222266666"


def test_what_is_flushed_is_known_and_older_segments_are(log: CommitLog) -> None:
    log.append(b"12345")
    assert log.flushed == 0
    log.flush()
    assert log.flushed == 5
    log.append(b"12345")
    assert log.flushed == 5
    log.append(b"1")
    assert log.flushed == 10


def test_a_flush_behind_is_done_when_the_log_is_flushed(log: CommitLog) -> None:
    log.append(b"12345")
    log.flush_behind()
    log.append(b"6")
    log.truncate(5)
    assert log.flushed == 5


def test_files_are_found_again(tmp_path: Path) -> None:
    log = DiskLog(tmp_path / "log", 10)
    for _ in range(5):
        log.append(b"12345")
    log.drop_before(10)
    log.close()
    assert [path.name for path in sorted((tmp_path / "log").iterdir())] == [f"{base:020}" for base in (10, 20)]
    found = DiskLog(tmp_path / "log", 10)
    assert (found.start, found.end, found.read(20, 9)) == (10, 25, b"12345")
    found.close()


@pytest.mark.parametrize(("harm", "says"), [
    (lambda folder: (folder / f"{10:020}").unlink(), r"log: 10 bytes before 0{18}20 are missing\."),
    (lambda folder: (folder / f"{0:020}").write_bytes(b"short"), r"log: 5 bytes before 0{18}10 are missing\."),
    (lambda folder: (folder / f"{0:020}").write_bytes(b"longer than it was"), r"log: 8 bytes before 0{18}10 are dupl"),
])  # fmt: skip
def test_a_hole_between_files_is_refused(tmp_path: Path, harm: object, says: str) -> None:
    log = DiskLog(tmp_path / "log", 10)
    for _ in range(5):
        log.append(b"12345")
    log.close()
    assert callable(harm)
    harm(tmp_path / "log")
    with pytest.raises(RmqctlError, match=says) as refused:
        DiskLog(tmp_path / "log", 10)
    assert refused.value.hint


def test_a_full_disk_takes_a_record_wholly_or_not_at_all(tmp_path: Path) -> None:
    log = DiskLog(tmp_path / "log", 1000)
    log.append(b"12345")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            log.append(b"abcde")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (log.end, (tmp_path / "log" / f"{0:020}").read_bytes()) == (5, b"12345")
    log.append(b"fghij")
    assert log.read(0, 100) == b"12345fghij"
    log.close()
