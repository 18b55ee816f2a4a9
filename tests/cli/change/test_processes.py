"""Processes of their own: two at once, one that is interrupted, one that is killed, one on a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from rmqctl.changes.interrupts import Interrupts
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import call
from tests.cli.change.seeded_sandbox import UPDATE, document, join, program, stored

Captured = pytest.CaptureFixture[str]
BACK = ("offset", "reset", "G", "--topic", "T", "--to-offset", "2")
_PATIENCE_S = 120.0


def _await_journal(capsys: Captured, state: str) -> dict[str, object]:
    """Wait until the journal has a change in this state."""
    until_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until_s:
        items = document(call(capsys, "offset", "history", "-o", "json"))["items"]
        if items and items[0]["state"] == state and (state != "RUNNING" or items[0]["unknownCount"]):
            found: dict[str, object] = items[0]
            return found
        select.select([], [], [], 0.02)
    raise AssertionError(f"nothing was {state}")


def _ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=_PATIENCE_S)
    assert "Traceback" not in err
    return process.returncode, out, err


def test_the_second_of_two_at_once_is_turned_away(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sandbox.faults.delay(3600, UPDATE, count=None)
    first = program(*BACK, "--yes", "--timeout", "1h", namesrv=sandbox.addr)
    try:
        assert _await_journal(capsys, "RUNNING")["pid"] == first.pid
        result = call(capsys, *BACK, "--yes", "-o", "json")
        assert (result.code, result.out, result.error["name"]) == (1, "", "BUSY")
        assert f"process {first.pid} (offset reset)" in result.error["message"]
        sandbox.faults.clear()
        sandbox.advance(3600)
        code, out, _ = _ended(first)
        assert (code, stored(sandbox)) == (0, {0: 2, 1: 2})
        assert "CONFIRMED" in out
    finally:
        first.kill()
        first.wait()
    assert call(capsys, *BACK, "--yes").code == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_who_is_cut_off_in_the_middle_leaves_a_journal_that_is_true(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    # The first is stored at once, the second never.
    sandbox.faults.delay(0, UPDATE)
    sandbox.faults.silence(UPDATE, count=None)
    process = program(*BACK, "--yes", "--timeout", "1h", namesrv=sandbox.addr)
    try:
        running = _await_journal(capsys, "RUNNING")
        assert running["unknownCount"] == 2
        process.send_signal(how)
        code, _, err = _ended(process)
        assert code == (130 if how == signal.SIGINT else -how)
        if how == signal.SIGINT:
            assert "Traceback" not in err
    finally:
        process.kill()
        process.wait()
    change = _await_journal(capsys, "INTERRUPTED")
    assert (change["id"], change["endedAtMs"]) == (running["id"], None)
    assert "INTERRUPTED: its process ended" in call(capsys, "offset", "history", "--id", str(change["id"])).err
    receipt = document(call(capsys, "offset", "history", "--id", str(change["id"]), "-o", "json"))
    assert {item["result"] for item in receipt["items"]} == {"UNKNOWN"}
    assert {item["isAfterKnown"] for item in receipt["items"]} == {False}
    assert {item["before"] for item in receipt["items"]} == {6}
    # The lock is free, and what may have been changed can be put back.
    sandbox.faults.clear()
    monkeypatch.setattr("rmqctl.changes.late_writes.LOOK_AGAIN_S", 0.0)
    # Of the second write nobody knows that it never comes.
    result = call(capsys, "offset", "undo", str(change["id"]), "--yes", "-o", "json")
    assert (result.code, stored(sandbox)) == (9, {0: 6, 1: 6})
    assert {item["result"] for item in document(result)["items"]} == {"CONFIRMED", "UNKNOWN"}


@pytest.mark.parametrize("count", [1, 3, 20])
def test_however_often_it_is_interrupted_it_says_what_was_done(
    sandbox: ThreadedSandbox, capsys: Captured, count: int
) -> None:
    sandbox.faults.delay(0, UPDATE)
    sandbox.faults.silence(UPDATE, count=None)
    process = program(*BACK, "--yes", "--timeout", "1h", namesrv=sandbox.addr)
    try:
        _await_journal(capsys, "RUNNING")
        for _ in range(count):
            process.send_signal(signal.SIGINT)
            select.select([], [], [], 0.003)
        code, _, err = _ended(process)
    finally:
        process.kill()
        process.wait()
    assert code == 130
    change = _await_journal(capsys, "INTERRUPTED")
    assert err.endswith(
        "Interrupted. To see what was done: rmqctl offset history G\n"
        f"Group G: 2 not known.\nTo go back: rmqctl offset undo {change['id']}\n"
    )


def test_what_is_said_after_an_interrupt_is_cut_off_by_no_other() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        with Interrupts():
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_the_task_and_not_what_runs_at_that_moment() -> None:
    before = signal.getsignal(signal.SIGINT)

    async def task(interrupts: Interrupts) -> None:
        interrupts.watch()
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    try:
        with Interrupts() as interrupts, pytest.raises(asyncio.CancelledError):
            asyncio.run(task(interrupts))
    finally:
        signal.signal(signal.SIGINT, before)


def test_without_an_interrupt_all_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_the_end_while_a_group_is_waited_for(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    join(sandbox)
    process = program(*BACK, "--yes", "--wait-stable", "1h", "-o", "json", namesrv=sandbox.addr)
    try:
        until_s = time.monotonic() + _PATIENCE_S
        while stored(sandbox) != {0: 2, 1: 2}:
            assert time.monotonic() < until_s
            select.select([], [], [], 0.02)
        _await_journal(capsys, "RUNNING")
        process.send_signal(signal.SIGINT)
        code, _, err = _ended(process)
        assert code == 130
        assert "rmqctl offset history G" in err
    finally:
        process.kill()
        process.wait()
    change = _await_journal(capsys, "INTERRUPTED")
    receipt = document(call(capsys, "offset", "history", "--id", str(change["id"]), "-o", "json"))
    assert {item["result"] for item in receipt["items"]} == {"UNKNOWN"}


class _Terminal:
    """The program on a terminal: its stdin and stderr are one, its stdout a pipe."""

    def __init__(self, *argv: str, namesrv: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = program(*argv, namesrv=namesrv, stdin=theirs, stderr=theirs)
        os.close(theirs)
        self.said = ""

    def read_until(self, text: str) -> None:
        until_s = time.monotonic() + _PATIENCE_S
        while text not in self.said:
            ready, _, _ = select.select([self._ours], [], [], max(0.0, until_s - time.monotonic()))
            assert ready, self.said
            self.said += os.read(self._ours, 65536).decode()

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def end(self) -> tuple[int, str]:
        assert self.process.stdout is not None
        with self.process.stdout as stdout:
            out = stdout.read()
        code = self.process.wait(_PATIENCE_S)
        os.close(self._ours)
        assert "Traceback" not in self.said
        return code, out


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("yes", 0), ("Y", 0), ("n", 3), ("", 3), ("maybe", 3)])
def test_on_a_terminal_it_is_asked(sandbox: ThreadedSandbox, answer: str, code: int) -> None:
    terminal = _Terminal(*BACK, namesrv=sandbox.addr)
    terminal.read_until("[y/N] ")
    assert stored(sandbox) == {0: 6, 1: 6}
    terminal.type(f"{answer}\n")
    assert terminal.end()[0] == code
    assert stored(sandbox) == ({0: 2, 1: 2} if code == 0 else {0: 6, 1: 6})


@pytest.mark.parametrize(("typed", "code"), [("G", 0), ("g", 3), ("y", 3)])
def test_in_a_protected_context_the_name_is_asked_for(
    sandbox: ThreadedSandbox, config_file: Path, typed: str, code: int
) -> None:
    config_file.write_text(f'[contexts.prod]\nnamesrv = "{sandbox.addr}"\nprotected = true\n')
    terminal = _Terminal(*BACK, "--yes", "--context", "prod", namesrv=sandbox.addr)
    terminal.read_until("Type G to ")
    terminal.type(f"{typed}\n")
    assert terminal.end()[0] == code
    assert stored(sandbox) == ({0: 2, 1: 2} if code == 0 else {0: 6, 1: 6})


@pytest.mark.parametrize("answer", ["y", "n"])
def test_with_json_one_document_is_written_on_a_terminal_too(sandbox: ThreadedSandbox, answer: str) -> None:
    """Who pipes it away is asked on the terminal, or told that --yes is needed; never two documents."""
    terminal = _Terminal(*BACK, "-o", "json", namesrv=sandbox.addr)
    terminal.type(f"{answer}\n")
    code, out = terminal.end()
    assert json.loads(out)["kind"] in ("Plan", "Receipt")
    assert stored(sandbox) == ({0: 2, 1: 2} if code == 0 else {0: 6, 1: 6})


def _unread(sandbox: ThreadedSandbox, *argv: str) -> tuple[int, str]:
    """Run the program with a stdout that nobody reads."""
    ours, theirs = os.pipe()
    os.close(ours)
    process = program(*argv, namesrv=sandbox.addr, stdout=theirs)
    os.close(theirs)
    code, _, err = _ended(process)
    return code, err


def test_the_exit_code_tells_what_came_of_a_change_that_nobody_reads_of(sandbox: ThreadedSandbox) -> None:
    sandbox.faults.answer(UPDATE, 1, remark="no")
    code, err = _unread(sandbox, *BACK, "--yes", "-o", "json")
    assert sorted(stored(sandbox).values()) == [2, 6]
    assert code == 8
    assert "rmqctl offset history --id 2" in err


def test_nothing_is_changed_by_a_plan_that_nobody_reads(sandbox: ThreadedSandbox) -> None:
    code, err = _unread(sandbox, *BACK, "--yes")
    assert (code, stored(sandbox)) == (1, {0: 6, 1: 6})
    assert "Nothing was changed: the plan cannot be shown" in err
