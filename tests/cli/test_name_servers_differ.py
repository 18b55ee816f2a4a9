"""Name servers that contradict each other: exit code 0 and a change need answers that agree."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmqctl.cli.app import _whole_code
from rmqctl.cli.globals import RunState
from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.cli.output.render import render
from rmqctl.errors import NotAuthorisedError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.admin.cluster import BrokerState, Cluster
from tests.cli.change.seeded_sandbox import seeded, stored
from tests.cli.scripted_server import served

from .calls import call

Captured = pytest.CaptureFixture[str]

_RESET = ("offset", "reset", "G", "--topic", "T", "--to-offset", "2")


@contextmanager
def _with_second(monkeypatch: pytest.MonkeyPatch, *brokers: BrokerState) -> Iterator[ThreadedSandbox]:
    """Run a sandbox and a second name server, which lists these brokers, at the sandbox's addresses, in cluster C."""
    with seeded() as sandbox:
        other = Cluster(*brokers)
        other.addresses |= {
            each.name: sandbox.call(lambda inner: inner.brokers["broker-a"].address) for each in brokers
        }
        with served(other) as address:
            monkeypatch.setenv("NAMESRV_ADDR", f"{sandbox.addr};{address}")
            yield sandbox


def test_a_change_that_one_name_server_does_not_know_whole_is_not_exit_code_0(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _with_second(monkeypatch) as sandbox:
        for words in ((*_RESET, "--yes"), ("group", "update", "G", "--retries", "3", "--yes"), ("offset", "show", "G")):
            result = call(capsys, *words, "-o", "json")
            assert result.code == 8, (words, result)
            assert {error["name"] for error in json.loads(result.out)["errors"]} == {"NAME_SERVERS_DIFFER"}
        assert set(stored(sandbox).values()) == {2}


def test_one_broker_name_in_two_clusters_is_named_by_every_command_and_not_changed(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = str(tmp_path / "plan.json")
    with _with_second(monkeypatch, BrokerState("broker-a")) as sandbox:
        both = os.environ["NAMESRV_ADDR"]
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        assert call(capsys, *_RESET, "--plan", plan).code == 0
        monkeypatch.setenv("NAMESRV_ADDR", both)
        for words in (
            ("cluster", "list"), ("topic", "list"), ("topic", "status", "T"), ("topic", "route", "T"),
            ("broker", "show", "broker-a"), ("group", "list"), ("group", "describe", "G"), ("offset", "show", "G"),
            ("offset", "export", "G"), ("message", "find", "T", "--since", "1h"), ("diagnose", "G", "--for", "0s"),
            ("watch", "G", "--rounds", "1", "--rate", "100"), ("top", "--rounds", "1", "--rate", "100", "-o", "plain"),
            ("consume", "run", "G2", "T", "--print", "--for", "1ms", "--yes"),
            ("clean-expired", "G", "--for", "1ms"),
            (*_RESET, "--dry-run"),
        ):  # fmt: skip
            result = call(capsys, *words)
            assert (result.code, "several clusters" in result.out + result.err) == (8, True), (words, result)
        checked = call(capsys, "check", "G", "--max-lag", "100")
        assert (checked.code, "several clusters" in checked.out + checked.err) == (3, True)
        rows = json.loads(call(capsys, "doctor", "-o", "json").out)["items"]
        assert [row["status"] for row in rows if row["check"] == "broker names"] == ["FAIL"]
        for words in (
            (*_RESET, "--yes"), ("group", "update", "G", "--retries", "3", "--yes"), ("group", "create", "H", "--yes"),
            ("apply", plan, "--yes"), ("message", "send", "T", "x"),
        ):  # fmt: skip
            refused = call(capsys, *words)
            assert (refused.code, "several clusters" in refused.err) == (1, True), (words, refused)
        assert set(stored(sandbox).values()) == {6}


@pytest.mark.parametrize(
    ("error", "error_code", "code"),
    [(RmqctlError("x"), None, 8), (NotAuthorisedError("x"), None, 4), (RmqctlError("x"), 3, 3), (None, None, 0)],
)
def test_no_command_ends_with_0_after_a_partial_result(
    error: RmqctlError | None, error_code: int | None, code: int, capsys: Captured
) -> None:
    state = RunState(as_json=True, error_code=error_code)
    failures = [] if error is None else [Failure("broker-a", "offsets", error)]
    display = Display(format="json")
    state.findings = display.findings
    render(Listing("Kind", [Column("A", "a")], [], str, failures), display)
    assert bool(json.loads(capsys.readouterr().out)["errors"]) == bool(code)
    assert (_whole_code(0, state), _whole_code(9, state)) == (code, 9)
