from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from rmqctl.changes.dlq.ledger import (
    Ledger,
    LedgerIdentity,
    LedgerResult,
    LedgerRow,
    LedgerState,
    has_ledger,
)
from rmqctl.changes.dlq.ledger_summaries import read_ledgers
from rmqctl.changes.dlq.rules.replay import ReplayTarget, ReplayTargetKind, retry_target
from rmqctl.errors import BusyError, UsageError
from rmqctl.model.receipt import ChangeState, Who
from rmqctl.state.folder import host_name

_ID = LedgerIdentity("C@ns:1", {"broker-a": "h:1", "broker-b": "h:2"}, "G", retry_target("G"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    state = tmp_path / "state"
    monkeypatch.setenv("RMQCTL_STATE", str(state))
    return state / "ledgers"


@contextmanager
def _open(identity: LedgerIdentity = _ID, now_ms: int = 1) -> Iterator[Ledger]:
    ledger = Ledger(identity, now_ms)
    try:
        yield ledger
    finally:
        ledger.close()


def _row(offset: int, *, earlier: str = "") -> LedgerRow:
    return LedgerRow("broker-a", 0, offset, f"id{offset}", earlier, "T", "broker-b", 1, 5, 10)


def _sent(*offsets: int) -> list[LedgerResult]:
    return [LedgerResult(_row(offset), LedgerState.SENT, 10 + offset) for offset in offsets]


def test_what_was_about_to_be_sent_is_in_doubt_until_it_is_said_what_came_of_it() -> None:
    with _open() as ledger:
        assert not ledger.has_letters()
        ledger.note(under_way=[_row(1), _row(2), _row(3, earlier="m")])
        ident = ledger.id
    with _open() as ledger:
        assert ledger.id == ident
        assert ledger.in_doubt() == [_row(1), _row(2), _row(3, earlier="m")]
        done = [*_sent(1), LedgerResult(_row(4, earlier="m"), LedgerState.DROPPED, None)]
        ledger.note(done=done, under_way=[_row(3, earlier="m")])
        assert ledger.in_doubt() == [_row(3, earlier="m")]
        assert ledger.has_letters()
        assert ledger.done_between("broker-a", 0, 0, 3) == {(1, "id1")}
        assert ledger.done_between("broker-a", 1, 0, 3) == set()
        assert ledger.deliveries(["id1", "id2", "id3", "id4"]) == {("id1", ""), ("id4", "m")}
        # Neither what is in doubt nor what was dropped is on the target.
        assert ledger.sent_places(["id1", "id2", "id3", "id4"]) == {("id1", "broker-a", 0, 1)}


def test_many_are_noted_and_asked_for_at_once() -> None:
    with _open() as ledger:
        ledger.note(done=_sent(*range(1_001)))
        assert len(ledger.done_between("broker-a", 0, 0, 2_000)) == 1_001
        assert len(ledger.deliveries([f"id{offset}" for offset in range(1_500)])) == 1_001


def test_runs_and_counts_are_read_while_it_is_open() -> None:
    with _open(now_ms=3) as ledger:
        ledger.begin_run(Who("me", host_name(), os.getpid(), None), "a bug was fixed", 4, 5)
        ledger.note(done=[*_sent(1), LedgerResult(_row(2), LedgerState.DROPPED, None)], under_way=[_row(3)])
        (summary,) = read_ledgers()
        assert (summary.sent_count, summary.dropped_count, summary.in_doubt_count) == (1, 1, 1)
        assert (summary.group, summary.target, summary.created_at_ms) == ("G", retry_target("G"), 3)
        assert (summary.runs[0].state, summary.runs[0].left_count) == (ChangeState.RUNNING, 2)
        ledger.end_run(9)
        # What one run was about to send, another one finds.
        ledger.begin_run(Who("me", "elsewhere", 1, None), None, 2, 10)
        ledger.note(done=_sent(3))
    (summary,) = read_ledgers(("G",))
    first, second = summary.runs
    assert (first.ended_at_ms, first.planned_count, first.sent_count, first.reason) == (9, 4, 1, "a bug was fixed")
    assert (first.state, first.dropped_count, first.user) == (ChangeState.DONE, 1, "me")
    assert (second.state, second.sent_count, second.left_count) == (ChangeState.ELSEWHERE, 1, 1)
    assert read_ledgers(("H",)) == []


def test_what_runs_left_is_read_also_from_a_ledger_that_has_no_table_for_it(folder: Path) -> None:
    def left() -> list[tuple[tuple[str, ...], int]]:
        (summary,) = read_ledgers()
        return [(run.unread, run.beyond_count) for run in summary.runs]

    with _open() as ledger:
        for number in range(2):
            ledger.begin_run(Who("me", host_name(), os.getpid(), None), None, 4, number)
            assert left()[number:] == [((), 0)]
            ledger.note_gaps({"broker-b", "broker-a"}, 7)
        ledger.note_gaps((), 3)
        assert left() == [(("broker-a", "broker-b"), 7), ((), 3)]
    (path,) = folder.glob("*.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE gaps")
    assert left() == [((), 0), ((), 0)]


def test_a_second_process_is_refused() -> None:
    with _open(), pytest.raises(BusyError, match="process"), _open():
        pass
    with _open():
        pass


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (replace(_ID, cluster="C@other:1", brokers={"broker-a": "h:1"}), True),  # by another name server
        (replace(_ID, brokers={"broker-a": "h:1", "broker-b": "moved:2"}), True),
        (replace(_ID, brokers={"broker-a": "h:3", "broker-b": "h:4"}), False),  # another cluster of the same names
        (replace(_ID, target=ReplayTarget(ReplayTargetKind.ORIGIN, None)), False),
        (replace(_ID, group="H"), False),
        (replace(_ID, name="once more"), False),
    ],
)
def test_which_ledger_is_the_same(other: LedgerIdentity, is_same: bool) -> None:
    assert not has_ledger(_ID)
    with _open() as ledger:
        ident = ledger.id
    assert has_ledger(other) == is_same
    with _open(other) as ledger:
        assert (ledger.id == ident) == is_same


def test_it_is_the_same_after_each_broker_was_away_in_turn() -> None:
    """A rolling restart: no run sees both brokers, and the second one sees none that the first one saw."""
    with _open() as ledger:
        ident = ledger.id
    for brokers in ({"broker-b": "h:2"}, {"broker-a": "h:1"}):
        with _open(replace(_ID, brokers=brokers)) as ledger:
            assert ledger.id == ident


def test_a_file_whose_process_was_killed_before_it_had_tables_is_passed_over(folder: Path) -> None:
    with _open():
        (path,) = folder.glob("*.db")
    path.write_bytes(b"")
    assert not has_ledger(_ID)
    assert read_ledgers() == []
    with _open() as ledger:
        ident = ledger.id
    assert [each.id for each in read_ledgers()] == [ident]


def test_it_is_for_this_user_alone_and_damage_is_said(folder: Path) -> None:
    with _open():
        paths = list(folder.iterdir())
        assert {path.stat().st_mode & 0o077 for path in paths} == {0}
    (path,) = folder.glob("*.db")
    path.write_bytes(b"no database at all, but long enough to be read as one" * 50)
    for action in (read_ledgers, lambda: has_ledger(_ID), lambda: Ledger(_ID, 1)):
        with pytest.raises(UsageError):
            action()
