"""The journal on real files, with processes that are killed, and several that write at once."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from rmqctl.changes.journal.journal import Journal
from rmqctl.errors import UsageError
from rmqctl.model.plan import ConfigItem, Operation, Plan, PlanItem, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ChangeState, ConfigReceiptItem, Receipt, ReceiptItem, Result, Who

_ROOT = Path(__file__).parents[2]
_NOBODY = 65534
_HOST = os.uname().nodename


def a_plan(count: int = 3, *, name: str = "p", group: str = "G", cluster: str = "C", route: Route = Route.SERVER_SIDE,
           item_route: Route = Route.SERVER_SIDE) -> Plan:  # fmt: skip
    items = [PlanItem(MessageQueue("T", "broker-a", number), 10 + number, 5, item_route) for number in range(count)]
    return Plan(
        id=name,
        operation=Operation.OFFSET_RESET,
        created_at_ms=900,
        cluster=cluster,
        brokers={"broker-a": "127.0.0.1:10911"},
        group=group,
        route=route,
        asked="--to-offset 5",
        reason="wrong data",
        items=tuple(items),
    )


def begin(
    journal: Journal, receipt_id: str, plan: Plan | None = None, *, now_ms: int = 1000, host: str = _HOST
) -> None:
    plan = a_plan() if plan is None else plan
    journal.begin(
        receipt_id, plan, f'{{"id":"{plan.id}"}}', "5" * 64, now_ms=now_ms, who=Who("ada", host, os.getpid(), "prod")
    )


def settled(number: int, result: Result = Result.CONFIRMED, *, route: Route = Route.SERVER_SIDE) -> ReceiptItem:
    return ReceiptItem(MessageQueue("T", "broker-a", number), 10 + number, 5, route, result, 5, True)


def whole(journal: Journal, receipt_id: str) -> Receipt:
    receipt = journal.receipt(receipt_id)
    assert receipt is not None
    return receipt


def results(receipt: Receipt) -> list[Result]:
    return [item.result for item in (*receipt.items, *receipt.configs)]


def test_reading_a_journal_that_is_not_there_gives_nothing_and_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    with Journal() as journal:
        assert journal.history() == []
        assert journal.receipt("r") is None
        assert journal.plan_text("r") is None
        assert journal.last_attempt(_AT, "G") is None
        assert list(tmp_path.iterdir()) == []
        begin(journal, "r")
        assert len(journal.history()) == 1
    assert (tmp_path / "state" / "journal.db").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_a_file_that_was_created_and_not_filled_is_an_empty_journal(path: Path, journal: Journal) -> None:
    path.touch(0o600)
    assert journal.history() == []
    assert path.stat().st_size == 0
    begin(journal, "r")
    assert len(journal.history()) == 1


def test_files_are_for_the_user_alone_while_they_are_written_too(path: Path, journal: Journal) -> None:
    path.touch()
    path.chmod(0o644)
    begin(journal, "r")
    files = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert files == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}


def test_a_change_is_noted_from_its_begin_to_its_end(journal: Journal) -> None:
    begin(journal, "r")
    assert results(whole(journal, "r")) == [Result.NOT_ATTEMPTED] * 3
    journal.attempting("r", {0: 11, 1: None})
    first, second, third = whole(journal, "r").items
    assert (first.result, first.before, first.target, first.is_after_known) == (Result.UNKNOWN, 11, 5, False)
    assert (second.result, second.before) == (Result.UNKNOWN, None)
    assert (third.result, third.before) == (Result.NOT_ATTEMPTED, 12)
    done = ReceiptItem(MessageQueue("T", "broker-a", 0), 11, 5, Route.BROKER_WRITE, Result.CONFIRMED, 5, True)
    unknown = ReceiptItem(
        MessageQueue("T", "broker-a", 1), None, 5, Route.SERVER_SIDE, Result.UNKNOWN, None, True, True, "No answer."
    )
    journal.settle("r", {0: done, 1: unknown})
    journal.end("r", 2000)
    assert whole(journal, "r") == Receipt(
        id="r",
        plan_id="p",
        plan_sha256="5" * 64,
        operation=Operation.OFFSET_RESET,
        started_at_ms=1000,
        ended_at_ms=2000,
        cluster="C",
        brokers={"broker-a": "127.0.0.1:10911"},
        group="G",
        route=Route.SERVER_SIDE,
        asked="--to-offset 5",
        reason="wrong data",
        who=Who("ada", _HOST, os.getpid(), "prod"),
        items=(
            done,
            unknown,
            ReceiptItem(MessageQueue("T", "broker-a", 2), 12, 5, Route.SERVER_SIDE, Result.NOT_ATTEMPTED),
        ),
    )
    assert journal.plan_text("r") == '{"id":"p"}'


def test_what_is_seen_later_overrules_even_after_the_end(journal: Journal) -> None:
    begin(journal, "r")
    journal.attempting("r", {2: 12})
    journal.settle("r", {2: settled(2, Result.UNKNOWN)})
    journal.end("r", 2000)
    journal.settle("r", {2: settled(2)})
    assert whole(journal, "r").items[2] == settled(2)
    assert whole(journal, "r").ended_at_ms == 2000


def test_an_item_that_is_attempted_again_keeps_what_was_stored_before_the_first_time(journal: Journal) -> None:
    begin(journal, "r")
    journal.attempting("r", {0: 77})
    journal.attempting("r", {0: 5})
    assert whole(journal, "r").items[0].before == 77


def test_what_was_attempted_and_not_settled_by_a_process_that_went_on_is_unknown(journal: Journal) -> None:
    begin(journal, "r")
    journal.attempting("r", {0: 10})
    journal.end("r", 2000)
    item = whole(journal, "r").items[0]
    assert (item.result, "not seen" in item.note) == (Result.UNKNOWN, True)


def test_configurations_are_kept_whole_and_numbered_after_offsets(journal: Journal) -> None:
    plan = Plan(
        id="p",
        operation=Operation.GROUP_DELETE,
        created_at_ms=900,
        cluster="C",
        brokers={},
        group="G",
        route=Route.GROUP_CONFIG,
        items=(PlanItem(MessageQueue("T", "broker-a", 0), 2**63 - 1, None, Route.GROUP_CONFIG),),
        configs=(
            ConfigItem("broker-a", {"groupName": "G", "retryMaxTimes": 16}, None),
            ConfigItem("broker-b", None, {"groupName": "G"}),
        ),
    )
    begin(journal, "r", plan)
    journal.attempting("r", {1: {"groupName": "G", "retryMaxTimes": 3, "attributes": {"a": "ü"}}, 2: None})
    confirmed = ConfigReceiptItem(
        "broker-a", {"retryMaxTimes": 3}, None, Result.CONFIRMED, None, is_after_known=True, note="It is gone."
    )
    journal.settle("r", {1: confirmed})
    receipt = whole(journal, "r")
    assert receipt.items[0].before == 2**63 - 1
    assert receipt.items[0].target is None
    assert receipt.configs[0] == confirmed
    assert receipt.configs[1].before is None
    assert receipt.configs[1].target == {"groupName": "G"}
    assert results(receipt) == [Result.NOT_ATTEMPTED, Result.CONFIRMED, Result.UNKNOWN]
    assert journal.history()[0].counts[Result.NOT_ATTEMPTED] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda journal: journal.attempting("other", {0: 1}),
        lambda journal: journal.attempting("r", {0: 1, 3: 1}),
        lambda journal: journal.settle("r", {0: settled(0), 1: settled(2)}),
        lambda journal: journal.settle("r", {0: ConfigReceiptItem("broker-a", None, None, Result.CONFIRMED)}),
        lambda journal: journal.end("other", 1),
    ],
)
def test_what_is_not_of_the_plan_is_a_mistake_and_changes_nothing(
    journal: Journal, wrong: Callable[[Journal], None]
) -> None:
    begin(journal, "r")
    with pytest.raises(LookupError):
        wrong(journal)
    assert results(whole(journal, "r")) == [Result.NOT_ATTEMPTED] * 3


def test_a_receipt_is_found_by_the_start_of_its_id_and_by_its_plan(journal: Journal) -> None:
    begin(journal, "abc-1", a_plan(name="one"))
    begin(journal, "abd-2", a_plan(name="twice"))
    begin(journal, "abd-23", a_plan(name="twice"))
    assert whole(journal, "abc").id == "abc-1"
    assert whole(journal, "abd-2").id == "abd-2"  # the whole id of one, the start of another
    assert whole(journal, "one").id == "abc-1"
    assert journal.plan_text("one") == '{"id":"one"}'
    for nothing in ("", "ABC", "abc_1", "%", "abc-12", "on", "\udcff"):
        assert journal.receipt(nothing) is None
        assert journal.plan_text(nothing) is None
    with pytest.raises(UsageError) as raised:
        journal.receipt("abd")
    assert raised.value.sentence.endswith(": abd-2, abd-23.")
    with pytest.raises(UsageError) as raised:
        journal.plan_text("twice")
    assert raised.value.sentence == "Plan twice was applied several times: abd-2, abd-23."


def test_of_many_receipts_some_are_named(journal: Journal) -> None:
    for number in range(12):
        begin(journal, f"a{number:02}")
    with pytest.raises(UsageError, match=r"a00, a01, .*a09 and 2 more\.$"):
        journal.receipt("a")


def test_history_tells_who_did_what_newest_first(journal: Journal) -> None:
    begin(journal, "r1", now_ms=5000)
    begin(journal, "r2", a_plan(group="H"), now_ms=4000)  # the clock was set back meanwhile
    begin(journal, "r3", a_plan(cluster="D"))
    journal.attempting("r1", {0: 10, 1: 11})
    journal.settle("r1", {0: settled(0)})
    journal.end("r1", 6000)
    assert [change.receipt_id for change in journal.history()] == ["r3", "r2", "r1"]
    assert [change.receipt_id for change in journal.history(limit=2)] == ["r3", "r2"]
    assert [change.receipt_id for change in journal.history(name="G")] == ["r3", "r1"]
    assert [change.receipt_id for change in journal.history(name="G", cluster="D")] == ["r3"]
    assert journal.history(name="g") == []
    (change,) = journal.history(name="G", cluster="C")
    assert (change.plan_id, change.operation, change.route) == ("p", Operation.OFFSET_RESET, Route.SERVER_SIDE)
    assert (change.started_at_ms, change.ended_at_ms, change.state) == (5000, 6000, ChangeState.DONE)
    assert change.who == Who("ada", _HOST, os.getpid(), "prod")
    assert (change.cluster, change.subject.group, change.asked, change.reason) == (
        "C",
        "G",
        "--to-offset 5",
        "wrong data",
    )
    assert change.counts == {
        Result.CONFIRMED: 1,
        Result.UNCHANGED: 0,
        Result.UNKNOWN: 1,  # its attempt was noted, and nothing after it
        Result.NOT_ATTEMPTED: 1,
    }


_AT = {"broker-a": "127.0.0.1:10911"}


def test_each_topic_that_clients_were_told_of_counts_for_the_cool_down(journal: Journal) -> None:
    plan = a_plan(route=Route.CLIENT_PUSH, item_route=Route.CLIENT_PUSH)
    other = replace(plan.items[1], mq=plan.items[1].mq._replace(topic="U"))
    begin(journal, "r", replace(plan, items=(plan.items[0], other)))
    journal.attempting("r", {0: 10})
    assert journal.last_attempt(_AT, "G") == (1000, 1)
    journal.attempting("r", {1: 10})
    assert journal.last_attempt(_AT | {"broker-b": "127.0.0.1:10921"}, "G") == (1000, 2)


def test_a_change_of_nothing_is_history_too(journal: Journal) -> None:
    begin(journal, "r", a_plan(0))
    journal.attempting("r", {})
    journal.settle("r", {})
    assert journal.history()[0].counts == dict.fromkeys(Result, 0)
    assert whole(journal, "r").items == ()
    assert journal.last_attempt(_AT, "G") is None


def test_the_cool_down_begins_with_the_newest_change_that_attempted_anything(journal: Journal) -> None:
    begin(journal, "r1", a_plan(route=Route.CLIENT_PUSH, item_route=Route.CLIENT_PUSH), now_ms=1000)
    assert journal.last_attempt(_AT, "G") is None
    journal.attempting("r1", {0: 10})
    assert journal.last_attempt(_AT, "G") == (1000, 1)
    journal.attempting("r1", {1: 11}, now_ms=1800)
    begin(journal, "r2", now_ms=2000)
    assert journal.last_attempt(_AT, "G") == (1800, 1)
    journal.attempting("r2", {0: 10}, now_ms=2100)
    assert journal.last_attempt(_AT, "G") == (2100, 0)
    journal.settle("r2", {0: settled(0, Result.NOT_ATTEMPTED)})  # it could not be sent
    assert journal.last_attempt(_AT, "G") == (1800, 1)
    assert journal.last_attempt(_AT, "H") is None
    assert journal.last_attempt({"broker-a": "10.0.0.1:10911"}, "G") is None


def test_of_a_mixed_change_the_push_counts_where_it_was_used(journal: Journal) -> None:
    begin(journal, "r", a_plan(route=Route.MIXED))
    journal.attempting("r", {0: 10})
    assert journal.last_attempt(_AT, "G") == (1000, 0)
    journal.settle("r", {0: settled(0, route=Route.CLIENT_PUSH)})
    assert journal.last_attempt(_AT, "G") == (1000, 1)


def test_words_that_are_no_text_are_kept_readable(journal: Journal) -> None:
    text = '{"reason":"\udcff"}'
    journal.begin("r", a_plan(), text, "", now_ms=1, who=Who("ad\udcffa", "h", 1, None))
    journal.settle(
        "r", {0: ReceiptItem(MessageQueue("T", "broker-a", 0), 1, 2, Route.MIXED, Result.UNKNOWN, note="\ud800")}
    )
    assert journal.history()[0].who.user == "ad\\udcffa"
    assert whole(journal, "r").items[0].note == "\\ud800"
    assert json.loads(journal.plan_text("r") or "") == json.loads(text)  # the same to whoever reads it


# Processes that go on, end and are killed.

_CHANGES = """
import os, sys
from pathlib import Path
from rmqctl.changes.journal.journal import Journal
from tests.changes.journal.test_journal import a_plan, begin, settled
first = sys.argv[2]
with Journal(Path(sys.argv[1])) as journal:
    def tell(words):
        print(words, flush=True)
"""
_STOP_IN_THE_MIDDLE = (
    _CHANGES
    + """
    begin(journal, first, a_plan(4))
    journal.attempting(first, {0: 70, 1: 71})
    journal.settle(first, {0: settled(0)})
    journal.attempting(first, {2: None})
    tell("attempted")
    sys.stdin.read()
"""
)
_FOR_EVER = (
    _CHANGES
    + """
    for number in range(10**6):
        name = f"{first}{number}"
        tell(f"{name} ?")
        begin(journal, name, a_plan(2))
        tell(f"{name} begun")
        journal.attempting(name, {0: 10})
        tell(f"{name} attempted")
        journal.settle(name, {0: settled(0)})
        tell(f"{name} settled")
        journal.end(name, 2000)
        tell(f"{name} ended")
"""
)
_SOME = """
import sys
from pathlib import Path
from rmqctl.changes.journal.journal import Journal
from tests.changes.journal.test_journal import begin, settled
print("ready", flush=True)
sys.stdin.readline()
for number in range(15):
    with Journal(Path(sys.argv[1])) as journal:
        name = f"{sys.argv[2]}{number}"
        begin(journal, name)
        journal.attempting(name, {0: 10})
        journal.settle(name, {0: settled(0)})
        journal.end(name, 2000)
"""


@contextmanager
def process(code: str, path: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", code, str(path), name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as started:
        try:
            yield started
        finally:
            started.kill()


def line_of(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


def test_a_process_that_is_killed_in_the_middle_leaves_what_it_did(path: Path, journal: Journal) -> None:
    with process(_STOP_IN_THE_MIDDLE, path, "r") as child:
        assert line_of(child) == "attempted"
        (change,) = journal.history()
        assert (change.state, change.who.pid, change.ended_at_ms) == (ChangeState.RUNNING, child.pid, None)
        assert f"process {child.pid} is still running" in whole(journal, "r").items[1].note
        child.send_signal(signal.SIGKILL)
        child.wait()
        (change,) = journal.history()
        assert (change.state, change.ended_at_ms) == (ChangeState.INTERRUPTED, None)
        assert change.counts[Result.UNKNOWN] == 2
        receipt = whole(journal, "r")
        assert receipt.ended_at_ms is None
        assert results(receipt) == [Result.CONFIRMED, Result.UNKNOWN, Result.UNKNOWN, Result.NOT_ATTEMPTED]
        assert [item.before for item in receipt.items] == [10, 71, None, 13]
        note = "The process ended before its result was seen."
        assert [item.note for item in receipt.items] == ["", note, note, ""]
        # Another process may look later, and tell what became of it.
        journal.settle("r", {1: settled(1, Result.UNCHANGED)})
        assert whole(journal, "r").items[1].result is Result.UNCHANGED


@pytest.mark.parametrize("line_count", [1, 2, 3, 4, 5, 37, 203])
def test_what_was_told_as_noted_is_there_after_a_kill_at_any_point(path: Path, line_count: int) -> None:
    told: dict[str, str] = {}
    with process(_FOR_EVER, path, "r") as child:
        assert child.stdout is not None
        for _ in range(line_count):
            name, step = child.stdout.readline().split()
            told[name] = step
        child.kill()
        for line in child.stdout.readlines():  # it went on until it was gone
            name, step = line.split()
            told[name] = step
    with Journal(path) as journal:
        names = {change.receipt_id for change in journal.history()}
        assert {name for name, step in told.items() if step != "?"} <= names <= set(told)
        for name in names:
            receipt = whole(journal, name)
            states = {"?": 0, "begun": 0, "attempted": 1, "settled": 2, "ended": 3}
            (first, second) = results(receipt)
            state = [Result.NOT_ATTEMPTED, Result.UNKNOWN, Result.CONFIRMED].index(first)
            state += receipt.ended_at_ms is not None
            # It may have done one step more than it could tell.
            assert states[told[name]] <= state <= states[told[name]] + 1
            assert second is Result.NOT_ATTEMPTED


def test_several_processes_write_a_new_journal_at_once_while_it_is_read(path: Path, journal: Journal) -> None:
    with process(_SOME, path, "a") as a, process(_SOME, path, "b") as b, process(_SOME, path, "c") as c:
        for child in (a, b, c):
            assert line_of(child) == "ready"
        for child in (a, b, c):
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        seen = 0
        while any(child.poll() is None for child in (a, b, c)):
            count = len(journal.history())
            assert count >= seen
            seen = count
        assert [child.returncode for child in (a, b, c)] == [0, 0, 0]
    changes = journal.history()
    assert sorted(change.receipt_id for change in changes) == sorted(f"{name}{i}" for name in "abc" for i in range(15))
    assert all(change.counts[Result.CONFIRMED] == 1 and change.ended_at_ms == 2000 for change in changes)


def test_two_journals_of_one_process_do_not_hinder_each_other(path: Path, journal: Journal) -> None:
    begin(journal, "r1")
    with Journal(path) as other:
        begin(other, "r2")
        journal.end("r1", 2000)
        assert [change.ended_at_ms for change in other.history()] == [None, 2000]


def test_a_number_that_another_process_got_since_does_not_count_as_running(path: Path, journal: Journal) -> None:
    begin(journal, "r")
    assert journal.history()[0].state is ChangeState.RUNNING
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE changes SET process_start = '1'")
        connection.commit()
    assert journal.history()[0].state is ChangeState.INTERRUPTED


def test_whether_a_change_of_another_host_still_runs_is_not_known(journal: Journal) -> None:
    begin(journal, "r", host=f"not-{_HOST}")
    journal.attempting("r", {0: 10})
    assert journal.history()[0].state is ChangeState.ELSEWHERE
    assert f"process {os.getpid()} on not-{_HOST} may still be running" in whole(journal, "r").items[0].note
    journal.end("r", 2000)
    assert journal.history()[0].state is ChangeState.DONE
