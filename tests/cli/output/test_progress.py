from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from rmqctl.cli.output import progress
from rmqctl.cli.output.activity_line import ActivityLine
from rmqctl.cli.output.progress import ScanProgress

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """Make stderr say that it is a terminal."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the clock that the bar reads, to be moved by the test."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_what_is_done_within_a_second_shows_nothing(terminal: None, seconds: list[float], capsys: Captured) -> None:
    with ScanProgress("Reading", is_wanted=True) as bar:
        seconds[0] = 0.9
        bar.show(5, 10)
    assert capsys.readouterr().err == ""


_SHOWN = """
import sys
from rmqctl.cli.output import progress
progress._AFTER_S = progress._STEP_S = 0
with progress.ScanProgress(sys.argv[1], is_wanted=True) as bar:
    bar.show(5, 10)
    bar.show(7, 10)
print("data")
"""


def _on_a_terminal(what: str = "Reading", *, code: str = _SHOWN, **environ: str) -> tuple[str, str]:
    """Return what a bar leaves on stdout and on stderr, a real terminal."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb") as terminal:
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", **environ}
        done = subprocess.run(
            [sys.executable, "-c", code, what], stdout=subprocess.PIPE, stderr=theirs, text=True, env=env,
            timeout=120, check=True,
        )  # fmt: skip
        shown = os.read(terminal.fileno(), 1 << 16)
        os.close(theirs)
    return done.stdout, shown.decode()


def test_on_a_terminal_a_bar_stands_on_stderr_and_is_gone_at_the_end() -> None:
    out, err = _on_a_terminal()
    assert out == "data\n"
    assert "5/10" in err
    assert "7/10" in err
    assert err.endswith("\x1b[2K")  # the line is wiped


def test_without_colour_there_is_none() -> None:
    assert "\x1b[3" in _on_a_terminal()[1]
    assert not re.search(r"\x1b\[\d+m", _on_a_terminal(NO_COLOR="1")[1].replace("\x1b[0m", ""))


def test_off_a_terminal_and_when_quiet_there_is_none(
    seconds: list[float], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_wanted, is_terminal, term in ((True, False, "xterm"), (False, True, "xterm"), (True, True, "dumb")):
        monkeypatch.setattr("sys.stderr.isatty", lambda is_terminal=is_terminal: is_terminal, raising=False)
        monkeypatch.setenv("TERM", term)
        with ScanProgress("Reading", is_wanted=is_wanted) as bar:
            seconds[0] += 5
            bar.show(5, 10)
        with ActivityLine("Reading", is_wanted=is_wanted) as waiting:
            assert not waiting._thread.is_alive()
        assert capsys.readouterr().err == ""


_WAITED = """
import sys, threading
from rmqctl.cli.output import activity_line, text
activity_line._AFTER_S, activity_line._STEP_S = 0, 0.01
shown = threading.Event()
write = activity_line.ActivityLine._write
activity_line.ActivityLine._write = lambda self, line: (write(self, line), shown.set())
with activity_line.ActivityLine(sys.argv[1], is_wanted=True):
    assert shown.wait(60)
    text.to_stderr("a note")
with activity_line.ActivityLine("again", is_wanted=True):
    shown.clear()
    assert shown.wait(60)
print("data")
"""


def test_what_is_waited_for_gives_way_to_a_note_and_is_gone_at_the_end() -> None:
    out, err = _on_a_terminal("Reading \x1b]0;z", code=_WAITED)
    assert out == "data\n"
    # How many seconds it shows depends on the machine.
    assert re.search(r"Reading \\x1b\]0;z, \d+ s\x1b\[K", err)
    assert "\r\x1b[Ka note" in err
    assert re.search(r"again, \d+ s", err)
    assert err.endswith("\r\x1b[K")


def test_a_name_is_neither_markup_nor_obeyed() -> None:
    err = _on_a_terminal("Reading [/x] [red]y \x1b]0;z\x07")[1]
    assert "Reading [/x] [red]y \\x1b]0;z\\x07" in err
