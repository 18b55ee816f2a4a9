"""The demonstration, as a newcomer sees it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rmqctl.cli.sandbox.demo import CHANGE_ID, STEPS
from rmqctl.sandbox.control.state_file import find_running

_DEMO = [sys.executable, "-m", "rmqctl", "demo"]


@pytest.fixture(autouse=True)
def _nothing_outlives_the_test() -> Iterator[None]:
    yield
    for running in find_running():
        os.kill(running.pid, signal.SIGKILL)


def test_every_step_is_shown_with_what_it_says_and_it_can_be_ended() -> None:
    done = subprocess.run([*_DEMO, "--keep"], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "") or "not shown" in done.stderr, done.stderr
    shown = done.stdout
    for step in STEPS:
        words = re.escape(f"# {step.says}\n$ rmqctl {' '.join(step.words)}\n").replace(CHANGE_ID, r"\d{8}T\d{6}-\w+")
        assert re.search(words, shown), step
    # The stuck message of the text is a finding; the undo restores the lag of 200.
    assert re.search(r"ERROR +PRG001 +mailing ", shown)
    assert shown.count("Group shipping: 8 confirmed.") + done.stderr.count("Group shipping: 8 confirmed.") == 2
    for found in (
        "billing-b-slow",
        "billing-c-wrong",
        "blocked 20",
        '"card": "expired"',
        "Lag           200",
    ):
        assert found in shown, found
    assert "\x1b" not in shown
    (running,) = find_running()
    assert f"export NAMESRV_ADDR={running.namesrv}\n" in shown
    down = subprocess.run(
        [*_DEMO[:-1], "sandbox", "down", "--port", str(running.port)], capture_output=True, timeout=120, check=False
    )
    assert down.returncode == 0
    assert find_running() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_and_a_closed_terminal_take_the_sandbox_away(number: signal.Signals) -> None:
    with subprocess.Popen(_DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("# ")
        process.send_signal(number)
        assert process.wait(timeout=120) == 130
    assert find_running() == []
