"""--partial where a broker is missing, silent or tells only a part: what can be changed is, and the rest is named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import call
from tests.cli.change.seeded_sandbox import document, make_known, seeded, store, stored
from tests.sandbox.peer import Peer
from tests.sandbox.progress import commit, send

Captured = pytest.CaptureFixture[str]
Lose = Callable[[ThreadedSandbox], None]
B = "broker-b"
REASON = "not seen: broker-b: not registered; rmqctl last saw it at "


def _stop(sandbox: ThreadedSandbox) -> None:
    sandbox.stop_broker(B)


def _silence(sandbox: ThreadedSandbox) -> None:
    for code in (Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Q.GET_CONSUME_STATS):
        sandbox.faults.drop(code, server=B, count=None)


lost = pytest.mark.parametrize("lose", [_stop, _silence], ids=["missing", "silent"])


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedSandbox]:
    with seeded(brokers=2) as sandbox:
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        make_known(sandbox, "H")
        yield sandbox


def _put_elsewhere(sandbox: ThreadedSandbox, topic: str) -> None:
    """Put a topic with an offset of G on broker-b alone."""

    async def put(inner: Sandbox) -> None:
        peer = await Peer.of_broker(inner, B)
        await send(peer, topic, 0, count=3)
        await commit(peer, "G", topic, 0, 1)
        await peer.aclose()
        await inner.await_idle()

    sandbox.run(put(sandbox.sandbox))


def _results(result: Any) -> list[tuple[str, str]]:
    found = {(item["brokerName"], item["result"]) for item in document(result)["items"]}
    return sorted(found)


HALF = [("broker-a", "CONFIRMED"), (B, "NOT_ATTEMPTED")]


@lost
@pytest.mark.parametrize(
    "words",
    [
        ("group", "create", "new"),
        ("group", "update", "G", "--retries", "3"),
        ("group", "delete", "G"),
        ("group", "delete", "G", "--with-offsets"),
        ("offset", "reset", "G", "--topic", "T", "--to-offset", "2"),
        ("offset", "skip", "G"),
        ("offset", "delete", "G", "--topic", "T"),
        ("offset", "clone", "G", "H"),
    ],
    ids=" ".join,
)
def test_the_rest_is_named_in_plan_receipt_and_history(
    two: ThreadedSandbox, capsys: Captured, lose: Lose, words: tuple[str, ...]
) -> None:
    assert call(capsys, "offset", "show", "G").code == 0
    lose(two)
    refused = call(capsys, *words, "--yes", "-o", "json")
    assert (refused.code, refused.error["name"]) == (1, "REFUSED")
    assert B in refused.error["message"]
    plan = document(shown := call(capsys, *words, "--dry-run", "-o", "json"))
    assert shown.code == 8
    assert {item["route"] for item in plan["items"] if item["brokerName"] == B} == {"UNSEEN"}
    done = call(capsys, *words, "--yes", "--partial", "-o", "json")
    assert (done.code, _results(done)) == (8, HALF)
    receipt = document(done)
    notes = {item["note"] for item in receipt["items"] if item["brokerName"] == B}
    assert all(note.startswith(REASON if lose is _stop else "not seen: ") for note in notes)
    assert {error["brokerName"] for error in receipt["errors"]} == {B}
    (change,) = json.loads(call(capsys, "offset", "history", receipt["group"], "-o", "json").out)["items"]
    assert change["notAttemptedCount"] == sum(item["brokerName"] == B for item in receipt["items"])
    noted = document(call(capsys, "offset", "history", "--id", receipt["id"], "-o", "json"))
    assert noted["items"] == receipt["items"]


def _texts(plan: dict[str, Any], code: str) -> str:
    return " ".join(item["text"] for item in plan["consequences"] if item["code"] == code)


def test_what_is_counted_of_a_part_is_at_least(two: ThreadedSandbox, capsys: Captured) -> None:
    assert call(capsys, "offset", "show", "G").code == 0
    two.stop_broker(B)
    plan = document(call(capsys, "group", "delete", "G", "--dry-run", "-o", "json"))
    assert "Offsets of at least 2 queues " in _texts(plan, "OFFSETS_STAY")
    plan = document(call(capsys, "group", "delete", "G", "--with-offsets", "--dry-run", "-o", "json"))
    assert _texts(plan, "OFFSETS_GO").startswith("All its offsets at broker-a are deleted.")


@pytest.mark.parametrize("words", [("group", "create", "new"), ("offset", "skip", "G")], ids=" ".join)
def test_an_undo_says_what_was_never_attempted(two: ThreadedSandbox, capsys: Captured, words: tuple[str, ...]) -> None:
    assert call(capsys, "offset", "show", "G").code == 0
    two.stop_broker(B)
    receipt = document(call(capsys, *words, "--yes", "--partial", "-o", "json"))
    two.start_broker(B)
    plan = document(call(capsys, "offset", "undo", receipt["id"], "--dry-run", "-o", "json"))
    assert {item["brokerName"] for item in plan["items"]} == {"broker-a"}
    assert f"did not attempt {'2 queues' if words[0] == 'offset' else 'the configuration'} at broker-b" in _texts(
        plan, "NOT_ATTEMPTED"
    )
    undone = call(capsys, "offset", "undo", receipt["id"], "--yes")
    assert (undone.code, "did not attempt" in undone.err) == (0, True)


@pytest.mark.parametrize("has_memory", [True, False])
@pytest.mark.parametrize(
    "words", [("group", "update", "G", "--retries", "3"), ("offset", "skip", "G")], ids=["group", "offset"]
)
def test_an_undo_goes_back_where_it_can(
    two: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], has_memory: bool
) -> None:
    if not has_memory:
        monkeypatch.setenv("RMQCTL_CACHE", os.devnull)
    receipt = document(call(capsys, *words, "--yes", "-o", "json"))
    two.stop_broker(B)
    refused = call(capsys, "offset", "undo", receipt["id"], "--yes", "-o", "json")
    assert (refused.code, "broker-b" in refused.error["message"]) == (1, True)
    undone = call(capsys, "offset", "undo", receipt["id"], "--yes", "--partial", "-o", "json")
    assert (undone.code, _results(undone)) == (8, HALF)
    assert all(REASON in item["note"] for item in document(undone)["items"] if item["brokerName"] == B)


@pytest.mark.parametrize(
    "words",
    [("offset", "reset", "G", "--topic", "T", "--topic", "U", "--to-earliest"), ("offset", "undo", "{id}")],
    ids=["reset", "undo"],
)
def test_a_topic_of_which_nothing_is_seen_does_not_hide_the_others(
    two: ThreadedSandbox, capsys: Captured, words: tuple[str, ...]
) -> None:
    _put_elsewhere(two, "U")
    receipt = document(call(capsys, "offset", "skip", "G", "--topic", "T", "--topic", "U", "--yes", "-o", "json"))
    two.stop_broker(B)
    words = tuple(word.format(id=receipt["id"]) for word in words)
    done = call(capsys, *words, "--yes", "--partial", "-o", "json")
    assert (done.code, _results(done)) == (8, HALF)
    found = {(item["topic"], item["route"]) for item in document(done)["items"]}
    assert found == {("T", "BROKER_WRITE"), ("T", "UNSEEN"), ("U", "UNSEEN")}
    assert stored(two) == ({0: 6, 1: 6} if words[1] == "undo" else {0: 0, 1: 0})


# Saved plans


@lost
@pytest.mark.parametrize("has_memory", [True, False])
@pytest.mark.parametrize(
    "words",
    [
        ("group", "update", "G", "--retries", "3"),
        ("group", "delete", "G", "--with-offsets"),
        ("offset", "reset", "G", "--topic", "T", "--to-offset", "2"),
        ("offset", "delete", "G", "--topic", "T"),
    ],
    ids=" ".join,
)
def test_a_saved_plan_is_applied_where_it_can_be(
    two: ThreadedSandbox, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...],
    lose: Lose, has_memory: bool,
) -> None:  # fmt: skip
    if not has_memory:
        monkeypatch.setenv("RMQCTL_CACHE", os.devnull)
    path = str(tmp_path / "plan.json")
    assert call(capsys, *words, "--plan", path).code == 0
    lose(two)
    stale = call(capsys, "apply", path, "--yes", "-o", "json")
    assert (stale.code, B in stale.error["message"]) == (7, True)
    shown = call(capsys, "apply", path, "--partial", "--dry-run", "-o", "json")
    assert shown.code == 8
    assert {item["route"] for item in document(shown)["items"] if item["brokerName"] == B} == {"UNSEEN"}
    done = call(capsys, "apply", path, "--yes", "--partial", "-o", "json")
    assert (done.code, _results(done)) == (8, HALF)
    assert {error["brokerName"] for error in document(done)["errors"]} == {B}


def test_what_is_left_of_a_saved_plan_is_still_checked(two: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = str(tmp_path / "plan.json")
    assert call(capsys, "offset", "reset", "G", "--topic", "T", "--to-offset", "2", "--plan", path).code == 0
    two.stop_broker(B)
    store(two, 0, 7)
    stale = call(capsys, "apply", path, "--yes", "--partial")
    assert (stale.code, "T@broker-a:0: its offset was 6 and is 7." in stale.err) == (7, True)
    assert stored(two) == {0: 7, 1: 6}


def test_a_saved_plan_of_which_all_is_there_stays_as_it_is(
    two: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    assert call(capsys, "offset", "skip", "G", "--plan", str(path)).code == 0
    receipt = document(done := call(capsys, "apply", str(path), "--yes", "--partial", "-o", "json"))
    assert (done.code, receipt["planId"]) == (0, json.loads(path.read_text())["id"])


# Groups that a broker does not tell of


def test_a_broker_that_does_not_tell_its_groups_is_not_seen(
    two: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    whole, part = str(tmp_path / "whole.json"), tmp_path / "part.json"
    words = ("offset", "reset", "G", "--topic", "T", "--to-offset", "2")
    assert call(capsys, *words, "--plan", whole).code == 0
    two.faults.answer(Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, R.SYSTEM_ERROR, server=B, count=None)
    assert call(capsys, *words, "--plan", str(part)).code == 8
    plan = json.loads(part.read_text())
    assert plan["configuredAt"] == ["broker-a"]
    notes = {item["note"] for item in plan["items"] if item["brokerName"] == B}
    assert all(note.startswith("not seen: configurations of groups: ") for note in notes)
    refused = call(capsys, "apply", str(part), "--yes", "-o", "json")
    assert (refused.code, refused.error["name"]) == (1, "REFUSED")
    # A plan that knew it can't be checked now.
    stale = call(capsys, "apply", whole, "--yes", "-o", "json")
    assert (stale.code, "did not report whether it still is" in stale.error["message"]) == (7, True)
    done = call(capsys, "apply", whole, "--yes", "--partial", "-o", "json")
    assert (done.code, _results(done)) == (8, HALF)


def test_an_offset_that_can_not_be_read_is_not_left_alone_without_a_word(
    two: ThreadedSandbox, capsys: Captured
) -> None:
    for queue_id in (0, 1):
        store(two, queue_id, 0, broker_name=B)
    two.faults.answer(Q.QUERY_CONSUMER_OFFSET, R.SYSTEM_ERROR, server=B, count=None)
    two.faults.answer(Q.GET_ALL_CONSUMER_OFFSET, R.SYSTEM_ERROR, server=B, count=None)
    done = call(capsys, "offset", "reset", "G", "--topic", "T", "--to-offset", "2", "--yes", "--partial", "-o", "json")
    assert (done.code, _results(done)) == (8, HALF)


# Members that are not seen


def test_members_at_a_broker_that_is_missing_are_unknown(two: ThreadedSandbox, capsys: Captured) -> None:
    words = ("offset", "skip", "G", "--dry-run", "-o", "json")
    assert "The group has no members." in _texts(document(call(capsys, *words)), "OFFLINE")
    two.stop_broker(B)
    plan = document(call(capsys, *words))
    assert "The group has no members" not in _texts(plan, "OFFLINE")
    assert _texts(plan, "MEMBERS_UNSEEN") == "Members at broker-b are unknown (BROKER_NOT_REGISTERED)."
    assert "members unknown" in call(capsys, "offset", "show", "G").err


# Offsets from elsewhere


@pytest.mark.parametrize("form", [(), ("-o", "csv"), ("--kafka",)], ids=["json", "csv", "kafka"])
def test_a_file_that_is_not_whole_says_so_and_so_does_its_import(
    two: ThreadedSandbox, capsys: Captured, tmp_path: Path, form: tuple[str, ...]
) -> None:
    assert call(capsys, "offset", "show", "G").code == 0
    path = tmp_path / "offsets"
    two.stop_broker(B)
    assert call(capsys, "offset", "export", "G", *form, "--file", str(path)).code == 8
    assert "broker-b: not registered; rmqctl last saw it at " in path.read_text()
    two.start_broker(B)
    for queue_id in (0, 1):
        store(two, queue_id, 9)
    words = ("offset", "import", str(path), *(("--group", "G") if form else ()))
    plan = document(shown := call(capsys, *words, "--dry-run", "-o", "json"))
    assert (shown.code, "incomplete" in _texts(plan, "FILE_NOT_WHOLE")) == (8, True)
    refused = call(capsys, *words, "--yes", "-o", "json")
    assert (refused.code, refused.error["name"], B in refused.error["message"]) == (1, "REFUSED", True)
    done = call(capsys, *words, "--yes", "--partial", "-o", "json")
    assert done.code == 8
    assert {each for each in _results(done) if each[0] == "broker-a"} == {("broker-a", "CONFIRMED")}
    assert {each for each in _results(done) if each[0] == B} == (set() if form else {(B, "NOT_ATTEMPTED")})
    assert (stored(two), stored(two, B)) == ({0: 6, 1: 6}, {0: 6, 1: 6})


@lost
def test_a_whole_file_is_imported_where_it_can_be(
    two: ThreadedSandbox, capsys: Captured, tmp_path: Path, lose: Lose
) -> None:
    path = str(tmp_path / "offsets.csv")
    assert call(capsys, "offset", "export", "G", "-o", "csv", "--file", path).code == 0
    lose(two)
    for queue_id in (0, 1):
        store(two, queue_id, 9)
    words = ("offset", "import", path, "--group", "G", "--yes", "-o", "json")
    refused = call(capsys, *words)
    assert (refused.code, refused.error["name"]) == (1, "REFUSED")
    done = call(capsys, *words, "--partial")
    assert (done.code, _results(done)) == (8, HALF)
    assert stored(two) == {0: 6, 1: 6}
