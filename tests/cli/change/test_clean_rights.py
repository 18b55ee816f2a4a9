"""`clean-expired` of an account without a right that is needed after a message is sent back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import call
from tests.cli.change.seeded_sandbox import document

from .stuck_member import CLEAN, stuck_member

Captured = pytest.CaptureFixture[str]
_LATER = pytest.mark.parametrize("later", [Q.QUERY_MESSAGE, Q.INVOKE_BROKER_TO_RESET_OFFSET])


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> Iterator[ThreadedSandbox]:
    with stuck_member(monkeypatch, capsys, brokers=2) as running:
        yield running


def _refuse(sandbox: ThreadedSandbox, code: Q, server: str | None = None) -> None:
    sandbox.faults.answer(code, R.NO_PERMISSION, server=server, count=None)


def _saved_plan(capsys: Captured, folder: Path) -> Path:
    path = folder / "plan.json"
    path.write_text(call(capsys, *CLEAN, "--dry-run", "-o", "json").out)
    return path


def _sent(sandbox: ThreadedSandbox) -> set[str]:
    """Return the brokers that a message was sent back to."""
    return sandbox.call(
        lambda inner: {
            name
            for name, broker in inner.brokers.items()
            if any(broker.store.max_offset("SCHEDULE_TOPIC_XXXX", queue_id) for queue_id in range(18))
        }
    )


@_LATER
def test_nothing_is_sent_back_that_cannot_be_finished(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, later: Q
) -> None:
    saved = _saved_plan(capsys, tmp_path)
    _refuse(sandbox, later)
    for words in ((*CLEAN, "--dry-run"), (*CLEAN, "--yes"), ("apply", str(saved), "--yes")):
        done = call(capsys, *words, "-o", "json")
        assert (done.code, json.loads(done.err)["name"]) == (4, "NOT_AUTHORISED"), words
    assert _sent(sandbox) == set()


@_LATER
def test_what_can_be_finished_is_sent_back(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, later: Q
) -> None:
    saved = _saved_plan(capsys, tmp_path)
    _refuse(sandbox, later, "broker-a")
    planned = call(capsys, *CLEAN, "--dry-run", "-o", "json")
    assert (planned.code, {each["brokerName"] for each in document(planned)["items"]}) == (4, {"broker-b"})
    done = call(capsys, "apply", str(saved), "--yes", "--wait-stable", "0", "-o", "json")
    assert done.code == 4
    results = {(each["brokerName"], each["result"]) for each in document(done)["items"]}
    assert ("broker-a", "NOT_ATTEMPTED") in results
    assert {name for name, result in results if result != "NOT_ATTEMPTED"} == {"broker-b"}
    assert {each["brokerName"] for each in document(done)["errors"]} >= {"broker-a"}
    assert _sent(sandbox) == {"broker-b"}
