"""`rmqctl top` on a sandbox: lines in a pipe, the screen on a terminal, and how it ends."""

from __future__ import annotations

import json
import signal

import pytest

from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.schemas import check_item
from tests.terminal import on_terminal

from .calls import Result, call, closed_address

Captured = pytest.CaptureFixture[str]
_QUICK = ("--every", "100ms", "--window", "40s", "--rate", "1000")


def _lines(capsys: Captured, shop: ThreadedSandbox, *words: str) -> Result:
    return call(capsys, "-n", shop.addr, "top", *_QUICK, *words)


def test_lines_of_each_round_the_worst_first(shop: ThreadedSandbox, capsys: Captured) -> None:
    result = _lines(capsys, shop, "--rounds", "2", "-o", "jsonl")
    assert result.code == 0, result.err
    items = [json.loads(line) for line in result.out.splitlines()]
    for item in items:
        check_item("GroupHealth", item)
    assert [item["group"] for item in items] == ["shipping", "warehouse"] * 2
    assert (items[0]["produceMsgsPerS"], items[0]["reasons"]["produceMsgsPerS"]) == (None, "TOO_FEW_SAMPLES")
    assert [(item["produceMsgsPerS"], item["consumeMsgsPerS"]) for item in items[2:]] == [(0.0, 0.0)] * 2


def test_lines_are_sorted_and_filtered_within_each_round(shop: ThreadedSandbox, capsys: Captured) -> None:
    result = _lines(capsys, shop, "--rounds", "2", "--sort", "-group", "-o", "name")
    assert result.out.split()[::2] == ["warehouse", "shipping"] * 2
    table = _lines(capsys, shop, "--rounds", "1", "--where", "lag>0").out.splitlines()
    assert [line.split()[1] for line in table] == ["GROUP", "shipping"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--sort", "nothing"), 2),
        (("--columns", "nothing"), 2),
        (("--window", "5s"), 2),
        (("-o", "json"), 2),
        (("no-such-group",), 5),
    ],
)
def test_bad_input(shop: ThreadedSandbox, capsys: Captured, words: tuple[str, ...], code: int) -> None:
    result = _lines(capsys, shop, "--rounds", "1", *words)
    assert (result.code, result.out) == (code, "")


def test_the_screen_opens_a_group_and_leaves_the_terminal_as_it_was(shop: ThreadedSandbox) -> None:
    with on_terminal("-n", shop.addr, "top", *_QUICK) as terminal:
        terminal.wait_for("shipping")
        terminal.press("/ship\r")
        assert "1 shown" in terminal.wait_for("filter: ship")
        terminal.press("\r")
        terminal.wait_for("parcels")
        terminal.wait_for("0 members")  # from the look at the group that was opened
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.is_as_before


@pytest.mark.parametrize(("ending", "code"), [("\x03", 130), (signal.SIGTERM, 0)])
def test_ctrl_c_and_sigterm_leave_the_terminal_as_it_was(
    shop: ThreadedSandbox, ending: str | signal.Signals, code: int
) -> None:
    with on_terminal("-n", shop.addr, "top", *_QUICK, size=(200, 50)) as terminal:
        terminal.wait_for("shipping")
        if isinstance(ending, str):
            terminal.press(ending)
        else:
            terminal.process.send_signal(ending)
        assert terminal.end() == code
        assert terminal.is_as_before


def test_the_screen_ends_after_rounds(shop: ThreadedSandbox) -> None:
    # The screen has until the second round to show the first one.
    with on_terminal("-n", shop.addr, "top", *_QUICK, "--every", "1s", "--rounds", "2") as terminal:
        assert terminal.end() == 0
        assert "shipping" in terminal.written
        assert terminal.is_as_before


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--where", "nothing>0"), 2),
        (("--sort", "nothing"), 2),
        (("--every", "2s", "--window", "1m", "--for", "1s"), 6),  # no time for another try
    ],
)
def test_errors_are_reported_without_a_screen(words: tuple[str, ...], code: int) -> None:
    with on_terminal("-n", closed_address(), "top", *words) as terminal:
        assert terminal.end() == code
        assert "\x1b[?1049h" not in terminal.written


def test_a_group_that_does_not_exist_is_reported_without_a_screen(shop: ThreadedSandbox) -> None:
    with on_terminal("-n", shop.addr, "top", *_QUICK, "no-such-group") as terminal:
        assert terminal.end() == 5
        assert "no-such-group" in terminal.written
        assert "\x1b[?1049h" not in terminal.written


def test_the_screen_opens_while_no_server_answers() -> None:
    with on_terminal("-n", closed_address(), "top", *_QUICK) as terminal:
        assert "connection refused" in terminal.wait_for("Not read yet.")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.is_as_before
