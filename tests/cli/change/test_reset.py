"""offset reset, apply, plan show, undo and history, from the command line to a broker and back."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from rmqctl.changes.documents.encode import sum_of
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import call
from tests.cli.change.seeded_sandbox import document, seeded, store, stored
from tests.schemas import check_document, check_item

Captured = pytest.CaptureFixture[str]
both = pytest.mark.parametrize("sandbox", ["5.4.0", "4.9.7"], indirect=True)
BACK = ("offset", "reset", "G", "--topic", "T", "--to-offset", "2")


# From the plan to the receipt


@both
def test_a_group_is_moved_and_both_plan_and_receipt_are_shown(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result = call(capsys, *BACK, "--yes")
    assert result.code == 0
    assert stored(sandbox) == {0: 2, 1: 2}
    lines = result.out.splitlines()
    assert lines[0].split() == ["TOPIC", "BROKER", "Q", "MIN", "MAX", "BEFORE", "TARGET", "CHANGE", "RECONSUMED",
                                "SKIPPED", "FIRST-STORED", "NOTE"]  # fmt: skip
    assert lines[1].split()[:10] == ["T", "broker-a", "0", "0", "10", "6", "2", "-4", "4", "0"]
    (heading,) = [number for number, line in enumerate(lines) if "RESULT" in line]
    assert lines[heading + 1].split()[:7] == ["T", "broker-a", "0", "6", "2", "2", "CONFIRMED"]
    assert "The group has no members." in result.err
    assert "8 messages would be redelivered, 0 skipped." in result.err
    assert "Group G: 2 confirmed." in result.err


@pytest.mark.parametrize("form", ["json", "yaml", "jsonl", "csv", "tsv", "name"])
def test_a_script_gets_what_came_of_it_and_nothing_else(sandbox: ThreadedSandbox, capsys: Captured, form: str) -> None:
    result = call(capsys, *BACK, "--yes", "-o", form)
    assert result.code == 0
    assert stored(sandbox) == {0: 2, 1: 2}
    match form:
        case "json":
            assert document(result)["kind"] == "Receipt"
        case "yaml":
            assert result.out.count("kind: ") == 1
            assert "kind: Receipt\n" in result.out
        case "jsonl":
            items = [json.loads(line) for line in result.out.splitlines()]
            assert [item["result"] for item in items] == ["CONFIRMED", "CONFIRMED"]
            for item in items:
                check_item("Receipt", item)
        case "csv" | "tsv":
            assert len(result.out.splitlines()) == 3
            assert "result" in result.out.splitlines()[0]
        case _:
            assert result.out.splitlines() == ["T@broker-a:0", "T@broker-a:1"]


@pytest.mark.parametrize("form", ["json", "yaml", "jsonl", "csv", "tsv", "name", "table", "plain", "wide"])
def test_without_yes_off_a_terminal_nothing_is_changed(sandbox: ThreadedSandbox, capsys: Captured, form: str) -> None:
    result = call(capsys, *BACK, "-o", form)
    assert result.code == 2
    assert stored(sandbox) == {0: 6, 1: 6}
    assert "--yes" in result.err
    if form == "json":
        assert document(result)["kind"] == "Plan"
        assert result.error["name"] == "USAGE"


@pytest.mark.parametrize("how", [("--dry-run",), ("--dry-run", "--yes")])
def test_a_dry_run_shows_the_plan_and_changes_nothing(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, how: tuple[str, ...]
) -> None:
    result = call(capsys, *BACK, *how, "-o", "json")
    assert result.code == 0
    plan = document(result)
    assert (plan["kind"], plan["sha256"]) == ("Plan", sum_of(plan))
    assert [item["target"] for item in plan["items"]] == [2, 2]
    assert stored(sandbox) == {0: 6, 1: 6}
    assert not (tmp_path / "state" / "journal.db").exists()
    # What was printed can be applied.
    path = tmp_path / "printed.json"
    path.write_text(result.out)
    assert call(capsys, "apply", str(path), "--yes").code == 0
    assert stored(sandbox) == {0: 2, 1: 2}


def test_a_plan_with_nothing_in_it_is_a_document_too(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    with seeded(stored=None) as empty:
        result = call(
            capsys, "offset", "reset", "G", "--topic", "T", "--shift-by", "5", "--yes", "-o", "json", "-n", empty.addr
        )
        assert (result.code, document(result)["kind"], document(result)["items"]) == (0, "Plan", [])
        result = call(capsys, "offset", "reset", "G", "--topic", "T", "--shift-by", "5", "--yes", "-n", empty.addr)
        assert (result.code, result.out) == (0, "")
        assert "Nothing would be changed." in result.err
    assert not (tmp_path / "state" / "journal.db").exists()


# Saved plans


def _saved(capsys: Captured, path: Path, *argv: str) -> dict[str, object]:
    result = call(capsys, *(argv or BACK), "--plan", str(path))
    assert result.code == 0, result.err
    plan: dict[str, object] = json.loads(path.read_text())
    check_document(plan)
    return plan


@both
def test_a_saved_plan_is_shown_and_applied(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    plan = _saved(capsys, path, *BACK, "--reason", "wrong day")
    assert stored(sandbox) == {0: 6, 1: 6}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []
    shown = call(capsys, "plan", "show", str(path), "-o", "json")
    assert shown.code == 0
    assert document(shown) == plan
    result = call(capsys, "apply", str(path), "--yes", "-o", "json")
    assert result.code == 0
    receipt = document(result)
    assert (receipt["planId"], receipt["planSha256"], receipt["reason"]) == (plan["id"], plan["sha256"], "wrong day")
    assert stored(sandbox) == {0: 2, 1: 2}


def test_a_plan_is_shown_without_a_cluster(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path,
                                           monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    path = tmp_path / "p.json"
    _saved(capsys, path)
    monkeypatch.delenv("NAMESRV_ADDR")
    for form in ("table", "wide", "json", "csv", "name"):
        assert call(capsys, "plan", "show", str(path), "-o", form).code == 0
    assert call(capsys, "apply", str(path), "--yes").code == 2


def test_a_plan_is_never_written_over_anything(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    for name, make in (("file", Path.write_text), ("link", None), ("folder", None)):
        path = tmp_path / name
        if make is not None:
            make(path, "mine")
        elif name == "link":
            path.symlink_to(tmp_path / "nowhere")
        else:
            path.mkdir()
        result = call(capsys, *BACK, "--plan", str(path))
        assert result.code == 2, name
        assert "already exists" in result.err or "not a regular file" in result.err
    assert (tmp_path / "file").read_text() == "mine"
    assert (tmp_path / "link").is_symlink()
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", ["no/such/folder", "x" * 5000, "a\nb/c"])
def test_a_place_that_takes_no_file_is_said_in_a_sentence(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, name: str
) -> None:
    result = call(capsys, *BACK, "--plan", str(tmp_path / name))
    assert result.code == 2
    assert "--plan " in result.err.splitlines()[0]


def test_words_that_are_no_text_do_no_harm(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    """A byte of another encoding on the command line."""
    path = tmp_path / "p.json"
    assert call(capsys, *BACK, "--reason", "\udcff", "--plan", str(path)).code == 0
    assert call(capsys, "plan", "show", str(path), "-o", "json").code == 0
    assert call(capsys, "apply", str(path), "--yes", "-o", "json").code == 0
    assert call(capsys, "offset", "history", "-o", "json").code == 0
    assert call(capsys, "offset", "history").code == 0


def test_a_plan_that_was_edited_is_refused(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    _saved(capsys, path)
    path.write_text(path.read_text().replace('"target": 2', '"target": 3'))
    for words in (("apply", str(path), "--yes"), ("plan", "show", str(path))):
        result = call(capsys, *words)
        assert (result.code, result.out) == (2, "")
        assert "was edited after the plan was made" in result.err
    assert stored(sandbox) == {0: 6, 1: 6}


def test_a_plan_in_another_layout_is_the_same(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    _saved(capsys, path)
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert call(capsys, "apply", str(path), "--yes").code == 0


def test_a_plan_that_no_longer_holds_is_7_and_says_what_drifted(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "p.json"
    _saved(capsys, path)
    store(sandbox, 1, 7)
    result = call(capsys, "apply", str(path), "--yes", "-o", "json")
    assert (result.code, result.out, result.error["name"], result.error["exitCode"]) == (7, "", "STALE", 7)
    assert "T@broker-a:1: its offset was 6 and is 7." in result.error["message"]
    assert stored(sandbox) == {0: 6, 1: 7}
    assert document(call(capsys, "offset", "history", "-o", "json"))["items"] == []


def test_a_plan_of_another_cluster_is_refused(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    _saved(capsys, path)
    with seeded() as other:
        result = call(capsys, "apply", str(path), "--yes", "-n", other.addr)
        assert result.code == 7
        assert "it may be another cluster" in result.err
        assert stored(other) == {0: 6, 1: 6}


# Back again


@both
def test_an_undo_and_the_undo_of_an_undo(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    first = document(call(capsys, *BACK, "--yes", "-o", "json"))
    undo = call(capsys, "offset", "undo", first["id"], "--yes", "-o", "json")
    assert undo.code == 0
    assert stored(sandbox) == {0: 6, 1: 6}
    again = call(capsys, "offset", "undo", document(undo)["id"], "--yes")
    assert again.code == 0
    assert stored(sandbox) == {0: 2, 1: 2}
    history = document(call(capsys, "offset", "history", "-o", "json"))["items"]
    assert [(item["operation"], item["state"], item["confirmedCount"]) for item in history] == [
        ("offset undo", "DONE", 2), ("offset undo", "DONE", 2), ("offset reset", "DONE", 2)
    ]  # fmt: skip


def test_an_undo_by_the_receipts_file_or_from_a_pipe(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    path = tmp_path / "receipt.json"
    path.write_text(call(capsys, *BACK, "--yes", "-o", "json").out)
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "another-machine"))
    result = call(capsys, "offset", "undo", str(path), "--dry-run", "-o", "json")
    assert [item["target"] for item in document(result)["items"]] == [6, 6]
    with path.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert call(capsys, "offset", "undo", "-", "--yes").code == 0
    assert stored(sandbox) == {0: 6, 1: 6}


def test_an_undo_where_there_was_no_offset(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    with seeded(stored=None) as sandbox:
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        receipt = document(call(capsys, *BACK, "--yes", "-o", "json"))
        assert [item["before"] for item in receipt["items"]] == [None, None]
        result = call(capsys, "offset", "undo", receipt["id"], "--yes", "-o", "json")
        assert result.code == 0
        assert [item["after"] for item in document(result)["items"]] == [None, None]
        shown = document(call(capsys, "offset", "show", "G", "--topic", "T", "-o", "json"))
        assert {item["consumerOffset"] for item in shown["items"]} == {None}


def test_an_undo_of_nothing(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    _saved(capsys, path)
    call(capsys, "apply", str(path), "--yes")
    receipt = document(call(capsys, "apply", str(path), "--yes", "-o", "json"))
    result = call(capsys, "offset", "undo", receipt["id"], "--yes")
    assert result.code == 1
    assert "There is nothing to undo" in result.err


@pytest.mark.parametrize("named", ["nope", "x" * 5000, "", "/", "a/b", "\udcff"])
def test_a_change_that_there_is_not(sandbox: ThreadedSandbox, capsys: Captured, named: str) -> None:
    result = call(capsys, "offset", "undo", named, "--yes")
    assert result.code in (2, 5)
    assert result.err.startswith("rmqctl: ")


def test_the_history_tells_one_change_queue_by_queue(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    receipt = document(call(capsys, *BACK, "--yes", "-o", "json", "--reason", "wrong day"))
    shown = document(call(capsys, "offset", "history", "--id", receipt["id"][:12], "-o", "json"))
    assert shown == receipt
    for form in ("table", "wide", "csv", "jsonl", "yaml", "name"):
        assert call(capsys, "offset", "history", "--id", receipt["id"], "-o", form).code == 0
        assert call(capsys, "offset", "history", "-o", form).code == 0
    (item,) = document(call(capsys, "offset", "history", "G", "-o", "json"))["items"]
    assert (item["reason"], item["route"], item["confirmedCount"]) == ("wrong day", "BROKER_WRITE", 2)
    assert document(call(capsys, "offset", "history", "other", "-o", "json"))["items"] == []


def test_one_change_says_who_made_it_when_and_why(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    receipt = document(call(capsys, *BACK, "--yes", "-o", "json", "--reason", "wrong day"))
    assert (receipt["pid"], receipt["host"], receipt["changeState"]) == (os.getpid(), os.uname().nodename, "DONE")
    shown = call(capsys, "offset", "history", "--id", receipt["id"])
    who = f"by {receipt['user']} on {receipt['host']}"
    assert f"offset reset --to-offset 2: {receipt['startedAtIso']} {who}." in shown.err
    assert "Reason: wrong day" in shown.err
    assert "INTERRUPTED" not in shown.err


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv", "tsv", "name"])
def test_changes_beyond_the_limit_are_never_left_out_silently(
    sandbox: ThreadedSandbox, capsys: Captured, form: str
) -> None:
    receipt = document(call(capsys, *BACK, "--yes", "-o", "json"))
    words = ("offset", "history", "--limit", "1", "-q", "-o", form)
    assert "Only " not in call(capsys, *words).err
    assert call(capsys, "offset", "undo", receipt["id"], "--yes").code == 0
    cut = call(capsys, *words)
    assert (cut.code, cut.err) == (0, "rmqctl: Only 1 change is shown, newest first. Show more with --limit 2.\n")


@pytest.mark.parametrize("limit", ["0", "-1", "x", "9" * 30])
def test_a_limit_that_is_none(capsys: Captured, limit: str) -> None:
    assert call(capsys, "offset", "history", "--limit", limit).code in (0, 2)


def test_without_a_change_the_history_is_empty_and_makes_no_file(capsys: Captured, tmp_path: Path) -> None:
    result = call(capsys, "offset", "history")
    assert (result.code, result.out) == (0, "")
    assert "Nothing was changed from this machine." in result.err
    assert not (tmp_path / "state" / "journal.db").exists()
