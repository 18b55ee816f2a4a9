"""A request to go back does not move a group past unread messages, unless that is allowed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqctl.changes.documents.encode import sum_of
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import Result, call
from tests.cli.change.seeded_sandbox import document, seeded, stored

Captured = pytest.CaptureFixture[str]
_RESET = ("offset", "reset", "G", "--topic", "T")
_BACK = (*_RESET, "--by-duration", "30m")
_UNMOVED, _END = {0: 6, 1: 6}, {0: 10, 1: 10}


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedSandbox]:
    """Run a broker whose clock is an hour ahead of this machine's, and of its messages: 6 of 10 are read."""
    with seeded() as running:
        running.advance(3600)
        monkeypatch.setenv("NAMESRV_ADDR", running.addr)
        yield running


def _first_line(result: Result) -> str:
    return result.err.splitlines()[0]


@pytest.mark.parametrize(
    "target",
    [
        ("--by-duration", "30m"),
        ("--to-time", "-30m"),
        ("--to-time", "PAST"),
    ],
)
def test_a_plan_that_goes_forward_where_back_was_asked_is_refused_and_can_be_looked_at(
    sandbox: ThreadedSandbox, capsys: Captured, target: tuple[str, str]
) -> None:
    # In ten minutes by this machine's clock, which is the past by the brokers'.
    words = (*_RESET, target[0], target[1].replace("PAST", str(int(time.time()) + 600)))
    result = call(capsys, *words, "--yes", "-o", "json")
    assert (result.code, result.out, result.error["name"]) == (1, "", "REFUSED")
    assert "would move 2 queues of group G forward past 8 unread messages" in result.error["message"]
    assert stored(sandbox) == _UNMOVED
    seen = call(capsys, *words, "--dry-run")
    assert seen.code == 0
    assert _first_line(seen).startswith("Skips 8 messages in 2 queues")
    plan = document(call(capsys, *words, "--dry-run", "-o", "json"))
    assert (plan["maySkip"], plan["consequences"][0]["code"]) == (False, "SKIPS")
    assert call(capsys, *words, "--yes", "--allow-skip").code == 0
    assert stored(sandbox) == _END


@pytest.mark.parametrize(
    "words",
    [
        (*_RESET, "--to-latest"),
        (*_RESET, "--to-offset", "9"),
        (*_RESET, "--shift-by", "2"),
        (*_RESET, "--to-time", "now"),
        (*_RESET, "--to-time", "2099-01-01T00:00Z"),
        ("offset", "skip", "G"),
    ],
)
def test_who_asks_to_go_forward_goes_there_and_reads_first_what_is_skipped(
    sandbox: ThreadedSandbox, capsys: Captured, words: tuple[str, ...]
) -> None:
    result = call(capsys, *words, "--yes")
    assert result.code == 0, result.err
    assert _first_line(result).startswith("Skips ")
    assert "--allow-skip" not in result.err
    assert min(stored(sandbox).values()) > 6


@pytest.mark.parametrize("target", [("--to-earliest",), ("--shift-by", "-2"), ("--by-duration", "2h")])
def test_who_goes_back_is_not_asked_for_more(
    sandbox: ThreadedSandbox, capsys: Captured, target: tuple[str, ...]
) -> None:
    result = call(capsys, *_RESET, *target, "--yes")
    assert result.code == 0, result.err
    assert "Skips" not in result.err
    assert max(stored(sandbox).values()) < 6


def test_a_group_without_offsets_may_have_read_nothing(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    with seeded(stored=None) as sandbox:
        sandbox.advance(3600)
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        result = call(capsys, *_BACK, "--yes")
        assert result.code == 1
        assert "past up to 20 unread messages. 2 queues have no stored offset" in result.err
        assert stored(sandbox) == {}
        assert call(capsys, *_RESET, "--to-earliest", "--yes").code == 0


@pytest.mark.parametrize(
    ("made", "is_older", "code"),
    [
        (_BACK, False, 1),
        (_BACK, True, 1),
        ((*_BACK, "--allow-skip"), False, 0),
        ((*_RESET, "--to-latest"), True, 0),
    ],
)
def test_a_saved_plan_may_skip_only_if_it_was_made_so(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, made: tuple[str, ...], is_older: bool, code: int
) -> None:
    path = tmp_path / "p.json"
    assert call(capsys, *made, "--plan", str(path)).code == 0
    if is_older:  # releases before 'maySkip' did not write it, nor the consequence
        plan = json.loads(path.read_text())
        del plan["maySkip"], plan["consequences"][0]
        path.write_text(json.dumps({**plan, "sha256": sum_of(plan)}))
    assert _first_line(call(capsys, "plan", "show", str(path))).startswith("Skips 8 messages")
    assert _first_line(call(capsys, "apply", str(path), "--dry-run")).startswith("Skips 8 messages")
    assert call(capsys, "apply", str(path), "--yes").code == code
    assert stored(sandbox) == (_UNMOVED if code else _END)


def test_what_an_undo_skips_is_its_first_line(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    receipt = document(call(capsys, *_RESET, "--to-offset", "2", "--yes", "-o", "json"))
    result = call(capsys, "offset", "undo", receipt["id"], "--yes")
    assert (result.code, stored(sandbox)) == (0, _UNMOVED)
    assert _first_line(result).startswith("Skips 8 messages")
