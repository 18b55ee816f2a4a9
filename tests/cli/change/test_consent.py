"""What stops a change, or asks first: refusals, locks, contexts, columns that there are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rmqctl.changes.journal.group_lock import group_lock
from rmqctl.model.plan import Subject
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import call, closed_address
from tests.cli.change.seeded_sandbox import UPDATE, document, join, store, stored
from tests.cli.time_leap import leaping
from tests.sandbox.peer import Peer, consumer_data, subscription
from tests.sandbox.progress import commit, send
from tests.schemas import check_document

Captured = pytest.CaptureFixture[str]
both = pytest.mark.parametrize("sandbox", ["5.4.0", "4.9.7"], indirect=True)
BACK = ("offset", "reset", "G", "--topic", "T", "--to-offset", "2")


def _saved(capsys: Captured, path: Path, *argv: str) -> dict[str, object]:
    result = call(capsys, *(argv or BACK), "--plan", str(path))
    assert result.code == 0, result.err
    plan: dict[str, object] = json.loads(path.read_text())
    check_document({**plan, "errors": []})
    return plan


# Where something is refused


@pytest.mark.parametrize(
    ("code", "exit_code", "results"),
    [(R.SYSTEM_ERROR, 8, {"CONFIRMED", "UNCHANGED"}), (R.NO_PERMISSION, 4, {"CONFIRMED", "UNCHANGED"})],
)
def test_a_queue_that_a_broker_refuses(
    sandbox: ThreadedSandbox, capsys: Captured, code: int, exit_code: int, results: set[str]
) -> None:
    sandbox.faults.answer(UPDATE, code, remark="no")
    result = call(capsys, *BACK, "--yes", "-o", "json")
    assert result.code == exit_code
    receipt = document(result)
    assert {item["result"] for item in receipt["items"]} == results
    for item in receipt["items"]:
        assert item["after"] == stored(sandbox)[item["queueId"]]
    assert receipt["errors"]


def test_what_was_not_written_is_not_called_not_read(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sandbox.faults.answer(UPDATE, R.SYSTEM_ERROR, remark="no", count=None)
    result = call(capsys, *BACK, "--yes")
    assert "rmqctl: not written: broker-a: offset of T@broker-a:0: " in result.err
    assert "not read" not in result.err
    errors = document(call(capsys, *BACK, "--yes", "-o", "json"))["errors"]
    assert {error["attempt"] for error in errors} == {"WRITE"}


def test_a_write_that_times_out_is_unknown_and_goes_back_when_it_comes_late(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.faults.delay(3600, UPDATE, count=None)
    # A third of it for each write, and then it is looked at again for some seconds.
    with leaping(sandbox, monkeypatch, strike_s=10 * 3600 / 3, later_s=1):
        result = call(capsys, *BACK, "--yes", "--timeout", "10h")
    assert result.code == 9
    assert result.out.count("UNKNOWN") == 2
    assert "rmqctl: write not answered: broker-a: offsets: " in result.err
    assert "To go back: rmqctl offset undo 2" in result.err
    assert "., " not in result.out
    (change,) = document(call(capsys, "offset", "history", "-o", "json"))["items"]
    assert (change["unknownCount"], change["unchangedCount"]) == (2, 0)
    undo = ("offset", "undo", change["id"], "--timeout", "10h")
    shown = call(capsys, *undo, "--dry-run", "-o", "json")
    assert (shown.code, document(shown)["items"][0]["awaits"]) == (0, {"receiptId": change["id"], "target": 2})
    with leaping(sandbox, monkeypatch, strike_s=0, later_s=1):
        early = call(capsys, *undo, "--yes")
    assert (early.code, early.out.count("UNKNOWN"), stored(sandbox)) == (9, 2, {0: 6, 1: 6})
    assert f"To look again: rmqctl offset undo {change['id']}" in early.err
    assert "To go back" not in early.err
    sandbox.faults.clear()
    sandbox.advance(3600)
    assert stored(sandbox) == {0: 2, 1: 2}
    assert call(capsys, "offset", "undo", change["id"], "--yes").code == 0
    assert stored(sandbox) == {0: 6, 1: 6}


def test_an_update_of_a_group_that_is_still_in_flight_is_not_undone_by_doing_nothing(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def retries() -> list[int]:
        return [item["retryMaxTimes"] for item in document(call(capsys, "group", "config", "G", "-o", "json"))["items"]]

    sandbox.faults.delay(3600, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, count=None)
    with leaping(sandbox, monkeypatch, strike_s=10 * 3600 / 3, later_s=1):
        assert call(capsys, "group", "update", "G", "--retries", "7", "--yes", "--timeout", "10h").code == 9
    (change,) = document(call(capsys, "offset", "history", "-o", "json"))["items"]
    undo = ("offset", "undo", change["id"], "--yes", "--timeout", "10h")
    with leaping(sandbox, monkeypatch, strike_s=0, later_s=1):
        early = call(capsys, *undo)
    assert (early.code, early.out.count("UNKNOWN"), retries()) == (9, 1, [16])
    assert f"To look again: rmqctl offset undo {change['id']}" in early.err
    assert "To go back" not in early.err
    sandbox.faults.clear()
    sandbox.advance(3600)
    assert retries() == [7]
    assert (call(capsys, *undo).code, retries()) == (0, [16])
    # Its journal knows that it came and went back: nothing is awaited again.
    last = call(capsys, *undo)
    assert (last.code, "Nothing would be changed." in last.err) == (0, True)


def test_the_rest_is_done_by_asking_again(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sandbox.faults.answer(UPDATE, R.SYSTEM_ERROR, remark="no")
    assert call(capsys, *BACK, "--yes").code == 8
    assert call(capsys, *BACK, "--yes").code == 0
    assert stored(sandbox) == {0: 2, 1: 2}


def test_nobody_there(capsys: Captured) -> None:
    result = call(capsys, *BACK, "--yes", "-n", closed_address())
    assert (result.code, result.out) == (6, "")


def test_a_group_that_somebody_else_changes_is_busy(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    _saved(capsys, path)
    with group_lock(Subject("G"), "offset skip", [sandbox.call(lambda inner: inner.brokers["broker-a"].address)]):
        for words in (BACK, ("apply", str(path)), ("offset", "skip", "G")):
            result = call(capsys, *words, "--yes", "-o", "json")
            assert (result.code, result.error["name"]) == (1, "BUSY")
            assert "(offset skip)" in result.error["message"]
        assert stored(sandbox) == {0: 6, 1: 6}
        assert call(capsys, *BACK, "--dry-run").code == 0
    assert call(capsys, *BACK, "--yes").code == 0


def test_a_folder_for_the_journal_that_can_not_be_used_stops_it_before_anything_is_sent(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a-file").write_text("")
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "a-file"))
    result = call(capsys, *BACK, "--yes")
    assert result.code == 2
    assert stored(sandbox) == {0: 6, 1: 6}


def test_a_group_that_runs_is_done_and_not_confirmed_without_a_wait(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    join(sandbox)
    result = call(capsys, *BACK, "--yes", "--wait-stable", "0s", "-o", "json")
    assert result.code == 9
    receipt = document(result)
    assert {(item["result"], item["isPending"], item["route"]) for item in receipt["items"]} == {
        ("UNKNOWN", True, "SERVER_SIDE")
    }
    assert stored(sandbox) == {0: 2, 1: 2}
    # Back, over the reset that waits.
    result = call(capsys, "offset", "undo", receipt["id"], "--yes", "--wait-stable", "0s", "-o", "json")
    assert (result.code, stored(sandbox)) == (9, {0: 6, 1: 6})


def test_broadcasting_groups_are_refused(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    join(sandbox, model="BROADCASTING")
    for words in (BACK, ("offset", "skip", "G"), ("offset", "reset", "G", "--all-topics", "--to-earliest")):
        result = call(capsys, *words, "--yes", "-o", "json")
        assert (result.code, result.out, result.error["name"]) == (1, "", "REFUSED")
    assert stored(sandbox) == {0: 6, 1: 6}


# Contexts


def _context(config_file: Path, sandbox: ThreadedSandbox, **flags: bool) -> None:
    words = "".join(f"{name} = {str(value).lower()}\n" for name, value in flags.items())
    config_file.write_text(f'[contexts.prod]\nnamesrv = "{sandbox.addr}"\n{words}')


def test_a_readonly_context_changes_nothing_and_still_plans(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, config_file: Path
) -> None:
    path = tmp_path / "p.json"
    _saved(capsys, path)
    _context(config_file, sandbox, readonly=True)
    receipt_words = ("offset", "undo", "x")
    for words in (BACK, ("apply", str(path)), ("offset", "skip", "G"), ("offset", "clone", "G", "H"), receipt_words,
                  ("offset", "delete", "G", "--topic", "T"), ("offset", "import", str(path))):  # fmt: skip
        result = call(capsys, *words, "--yes", "--context", "prod", "-o", "json")
        assert (result.code, result.out, result.error["name"]) == (1, "", "REFUSED"), words
        assert "readonly" in result.error["message"]
    assert stored(sandbox) == {0: 6, 1: 6}
    for words in (BACK, ("apply", str(path)), ("offset", "skip", "G")):
        assert call(capsys, *words, "--dry-run", "--context", "prod").code == 0


@pytest.mark.parametrize("form", ["json", "table"])
def test_a_protected_context_wants_the_groups_name(
    sandbox: ThreadedSandbox, capsys: Captured, config_file: Path, form: str
) -> None:
    _context(config_file, sandbox, protected=True)
    words = (*BACK, "--context", "prod", "-o", form)
    for consent, code in (((), 2), (("--yes",), 2), (("--confirm", "g"), 3), (("--confirm", "", "--yes"), 3)):
        result = call(capsys, *words, *consent)
        assert result.code == code, consent
        assert stored(sandbox) == {0: 6, 1: 6}
    result = call(capsys, *words, "--confirm", "G")
    assert result.code == 0
    assert stored(sandbox) == {0: 2, 1: 2}
    (change,) = document(call(capsys, "offset", "history", "-o", "json"))["items"]
    assert change["context"] == "prod"


def test_a_contexts_namespace_stands_before_the_names_and_the_history_knows_it(
    sandbox: ThreadedSandbox, capsys: Captured, config_file: Path
) -> None:
    async def seed(inner: Sandbox) -> None:
        peer = await Peer.of_broker(inner)
        await send(peer, "NS%T", count=9)
        await peer.heartbeat("gone", consumer_data("NS%G", subscription("NS%T")))
        await peer.aclose()
        await inner.await_idle()
        peer = await Peer.of_broker(inner)
        await commit(peer, "NS%G", "NS%T", 0, 6)
        await peer.aclose()

    sandbox.run(seed(sandbox.sandbox))
    config_file.write_text(f'[contexts.prod]\nnamesrv = "{sandbox.addr}"\nnamespace = "NS"\n')
    words = ("--context", "prod")
    assert call(capsys, *BACK, "--queue", "broker-a:0", "--yes", *words).code == 0
    assert stored(sandbox, group="NS%G", topic="NS%T") == {0: 2}
    assert stored(sandbox) == {0: 6, 1: 6}
    for names in (("G", *words), ("G", "--namespace", "NS"), ("NS%G",)):
        items = document(call(capsys, "offset", "history", *names, "-o", "json"))["items"]
        assert [item["group"] for item in items] == ["NS%G"], names


def test_the_id_that_a_change_prints_shows_it(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    assert call(capsys, *BACK, "--yes").code == 0
    (change,) = document(call(capsys, "offset", "history", "-o", "json"))["items"]
    shown, named = (call(capsys, "offset", "history", *words, change["id"]) for words in ((), ("--id",)))
    assert (shown.code, shown.out, shown.err) == (0, named.out, named.err)
    nowhere = call(capsys, "offset", "history", "20200101T000000-abcdef")
    assert (nowhere.code, nowhere.out) == (5, "")


def test_the_same_file_a_second_time_does_not_call_its_own_work_the_groups(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "p.json"
    _saved(capsys, path, "offset", "skip", "G", "--topic", "T")
    for _ in range(2):
        result = call(capsys, "apply", str(path), "--yes")
        assert (result.code, "advanced" in result.err) == (0, False)
    assert stored(sandbox) == {0: 10, 1: 10}


# Columns, conditions, order


def test_columns_are_the_receipts_and_a_wrong_one_is_found_before_the_change(
    sandbox: ThreadedSandbox, capsys: Captured
) -> None:
    for wrong in (("--columns", "minOffset"), ("--columns", "nope"), ("--sort", "nope"), ("--where", "queueId=0"),
                  ("--where", "nope=1")):  # fmt: skip
        for form in ("json", "table"):
            result = call(capsys, *BACK, "--yes", *wrong, "-o", form)
            assert (result.code, result.out) == (2, ""), wrong
            assert stored(sandbox) == {0: 6, 1: 6}
    result = call(capsys, *BACK, "--yes", "--columns", "queueId,result", "--sort", "-queueId", "-o", "csv")
    assert (result.code, result.out) == (0, "queueId,result\n1,CONFIRMED\n0,CONFIRMED\n")


def test_a_dry_run_takes_columns_conditions_and_order(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result = call(capsys, *BACK, "--dry-run", "--columns", "queueId,target", "--where", "queueId=1", "-o", "csv")
    assert (result.code, result.out) == (0, "queueId,target\n1,2\n")


def test_no_color_no_headers_and_quiet(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result = call(capsys, *BACK, "--yes", "--quiet", "--no-headers", "-o", "csv", "--columns", "result")
    assert (result.code, result.out, result.err) == (0, "CONFIRMED\nCONFIRMED\n", "")


def test_a_plan_is_not_saved_under_a_dash(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(capsys, *BACK, "--plan", "-")
    assert (result.code, "--dry-run -o json" in result.err) == (2, True)
    assert not any(tmp_path.iterdir())


def test_a_dry_run_of_a_saved_plan_tells_whether_it_still_holds(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    path, group_path = tmp_path / "plan.json", tmp_path / "group.json"
    _saved(capsys, path)
    _saved(capsys, group_path, "group", "update", "G", "--retries", "3")
    for each in (path, group_path):
        assert call(capsys, "apply", str(each), "--dry-run").code == 0
    store(sandbox, 0, 7)
    assert call(capsys, "group", "update", "G", "--retries", "4", "--yes").code == 0
    for each in (path, group_path):
        result = call(capsys, "apply", str(each), "--dry-run", "-o", "json")
        assert (result.code, result.out, result.error["name"]) == (7, "", "STALE")
    assert stored(sandbox) == {0: 7, 1: 6}


def test_columns_of_a_receipt_are_no_mistake_where_nothing_is_to_be_changed(
    sandbox: ThreadedSandbox, capsys: Captured
) -> None:
    words = ("group", "update", "G", "--retries", "4", "--yes", "--columns", "after,result", "--sort", "result")
    assert [call(capsys, *words).code for _ in range(2)] == [0, 0]
