"""A journal's file that is new, damaged, somebody else's, or on a disk that fails."""

from __future__ import annotations

import os
import resource
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from rmqctl.changes.journal import file
from rmqctl.changes.journal.journal import Journal
from rmqctl.errors import BusyError, RmqctlError, UsageError
from rmqctl.model.receipt import Result
from rmqctl.state import database

from .test_journal import a_plan, begin, results, whole

_NOBODY = 65534


def connection_of(journal: Journal) -> sqlite3.Connection:
    connection = journal._file._connection
    assert connection is not None
    return connection


def test_every_commit_waits_for_the_disk_and_readers_for_nobody(journal: Journal) -> None:
    begin(journal, "r")
    assert connection_of(journal).execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL
    assert connection_of(journal).execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def _mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Have the folder of this test be on a file system of a type."""
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(f"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / {tmp_path} rw shared:1 - {kind} somewhere rw\n")
    monkeypatch.setattr(database, "_MOUNTINFO", mountinfo)


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "fuse.sshfs", "virtiofs", "of-tomorrow"])
def test_a_journal_on_a_network_has_no_write_ahead_log(
    path: Path, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    _mount(tmp_path, monkeypatch, kind)
    begin(journal, "r")
    assert connection_of(journal).execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    assert connection_of(journal).execute("PRAGMA synchronous").fetchone()[0] == 2
    journal.attempting("r", {0: 10})
    with Journal(path) as other:
        assert results(whole(other, "r"))[0] is Result.UNKNOWN
    assert {file.name for file in tmp_path.iterdir()} == {"journal.db", "mountinfo"}


def test_a_journal_with_a_write_ahead_log_that_came_to_a_network_is_taken_back(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal(path) as journal:
        begin(journal, "r1")
        assert connection_of(journal).execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        _mount(tmp_path, monkeypatch, "nfs")
        monkeypatch.setattr(file, "_BUSY_S", 0.0)
        with Journal(path) as other:
            # As long as another process has it open, it stays as it is.
            begin(other, "r2")
            assert connection_of(other).execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    with Journal(path) as journal:
        begin(journal, "r3")
        assert connection_of(journal).execute("PRAGMA journal_mode").fetchone()[0] == "delete"
        assert [change.receipt_id for change in journal.history()] == ["r3", "r2", "r1"]
    assert {file.name for file in tmp_path.iterdir()} == {"journal.db", "mountinfo"}


def test_where_the_system_does_not_tell_there_is_no_write_ahead_log(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_MOUNTINFO", tmp_path / "none")
    begin(journal, "r")
    assert connection_of(journal).execute("PRAGMA journal_mode").fetchone()[0] == "delete"


def test_a_journal_of_before_redelivered_messages_were_counted_is_read_and_gone_on_with(
    path: Path, journal: Journal
) -> None:
    begin(journal, "r")
    before = whole(journal, "r")
    journal.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE items DROP COLUMN reconsumed_at_least")
    assert whole(journal, "r") == before
    journal.close()
    begin(journal, "r2")
    item = replace(before.items[0], result=Result.CONFIRMED, reconsumed_at_least=7)
    journal.settle("r", {0: item})
    assert whole(journal, "r").items[0] == item


def refusals(path: Path) -> list[RmqctlError]:
    """What a journal that can't be used answers to whoever reads it, and to whoever writes it."""
    found = []
    for use in (lambda journal: journal.history(), lambda journal: begin(journal, "new")):
        with Journal(path) as journal, pytest.raises(RmqctlError) as raised:
            use(journal)
        found.append(raised.value)
    return found


def test_a_journal_of_a_newer_rmqctl_is_refused_and_left_alone(path: Path) -> None:
    with Journal(path) as journal:
        begin(journal, "r")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    for error in refusals(path):
        assert isinstance(error, UsageError)
        assert str(path) in error.sentence
        assert "newer rmqctl (format 2" in error.sentence
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT receipt_id FROM changes").fetchall() == [("r",)]


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    before = path.read_bytes()
    assert [error.sentence for error in refusals(path)] == [f"{path} is not a journal of rmqctl."] * 2
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"something else " * 1000)
    for error in refusals(path):
        assert isinstance(error, UsageError)
        assert error.sentence == f"The journal {path} is damaged: file is not a database."
        assert "Move it away" in (error.hint or "")
    assert path.read_bytes() == b"something else " * 1000


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_a_journal_that_was_cut_is_a_sentence(path: Path, keep: float) -> None:
    with Journal(path) as journal:
        begin(journal, "r", a_plan(2000))
    os.truncate(path, int(path.stat().st_size * keep))
    with Journal(path) as journal, pytest.raises(UsageError, match="is damaged: database disk image is malformed"):
        journal.receipt("r")


def test_a_row_that_means_nothing_is_a_sentence(path: Path, journal: Journal) -> None:
    begin(journal, "r")
    for change in (
        "items SET result = 'PERHAPS'",
        "changes SET operation = 'undreamt of'",
        "changes SET brokers = '['",
    ):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"UPDATE {change}")
            connection.commit()
        with pytest.raises(UsageError, match="invalid row"):
            journal.receipt("r")


def test_a_journal_without_its_tables_is_a_sentence(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 1")
    assert [error.sentence for error in refusals(path)] == [
        f"The journal {path} failed: no such table: changes.",
        f"The journal {path} failed: no such table: changes.",
    ]


def test_a_full_disk_is_a_sentence_and_leaves_what_was_there(journal: Journal) -> None:
    begin(journal, "r1")
    connection = connection_of(journal)
    connection.execute("PRAGMA max_page_count = 1")  # SQLite answers as it does when the disk has no room
    with pytest.raises(RmqctlError) as raised:
        begin(journal, "r2", a_plan(500))
    assert "the disk is full" in raised.value.sentence
    assert raised.value.exit_code == 1
    assert [change.receipt_id for change in journal.history()] == ["r1"]
    connection.execute("PRAGMA max_page_count = 100000")
    begin(journal, "r2", a_plan(500))
    assert len(whole(journal, "r2").items) == 500


def test_a_disk_that_fails_is_a_sentence_and_nothing_is_half_noted(journal: Journal) -> None:
    begin(journal, "r")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(RmqctlError, match="failed: disk I/O error"):
            journal.attempting("r", {0: 10})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert results(whole(journal, "r")) == [Result.NOT_ATTEMPTED] * 3
    journal.attempting("r", {0: 10})
    assert results(whole(journal, "r"))[0] is Result.UNKNOWN


def test_a_folder_that_takes_no_files_is_a_sentence(tmp_path: Path) -> None:
    user = os.geteuid()
    tmp_path.chmod(0o500)
    try:
        if user == 0:
            os.seteuid(_NOBODY)  # root may write anywhere
        with Journal(tmp_path / "journal.db") as journal, pytest.raises(UsageError, match=r"Cannot use .*: permission"):
            begin(journal, "r")
    finally:
        os.seteuid(user)
        tmp_path.chmod(0o700)
    with (
        Journal(Path("/proc/journal.db")) as journal,
        pytest.raises(UsageError, match=r"Cannot use /proc/journal\.db"),
    ):
        begin(journal, "r")
    (tmp_path / "folder").mkdir()
    with Journal(tmp_path / "folder") as journal, pytest.raises(UsageError, match="unable to open"):
        journal.history()


def test_who_does_not_let_go_of_the_file_is_told_of(
    path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(journal, "r")
    monkeypatch.setattr(file, "_BUSY_S", 0.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, Journal(path) as waiting:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError, match="another process"):
            begin(waiting, "r2")
        assert len(waiting.history()) == 1  # readers do not wait
        other.execute("ROLLBACK")
        begin(waiting, "r2")
