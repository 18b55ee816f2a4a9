"""A dead-letter topic is opened on a sandbox, as a person and as a script do it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqctl.protocol.codes import ResponseCode
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import Result, call

Captured = pytest.CaptureFixture[str]
TOPIC = "%DLQ%G"


@pytest.fixture(params=["5.4.0", "4.9.7"])
def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedSandbox]:
    """Two brokers, of which the first has the topic write-only, as 4.9.1 makes it."""
    with ThreadedSandbox(plays=request.param, brokers=2) as running:
        monkeypatch.setenv("NAMESRV_ADDR", running.addr)
        for name, perm in (("broker-a", 2), ("broker-b", 6)):
            running.call(
                lambda inner, name=name, perm=perm: inner.brokers[name].topics.create_for_group(TOPIC, 1, perm)
            )
        yield running


def _perms(sandbox: ThreadedSandbox) -> list[int]:
    return sandbox.call(lambda inner: [int(each.topics.topics[TOPIC].perm) for each in inner.brokers.values()])


def _fix(capsys: Captured, *words: str) -> Result:
    return call(capsys, "dlq", "show", "G", "--fix-permission", *words, "-o", "json")


def test_it_is_opened_and_closed_again(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    fixed = _fix(capsys, "--yes", "--reason", "to look")
    assert fixed.code == 0
    receipt = json.loads(fixed.out)
    assert (receipt["operation"], receipt["route"]) == ("dlq fix-permission", "TOPIC_CONFIG")
    assert [(each["brokerName"], each["result"]) for each in receipt["items"]] == [("broker-a", "CONFIRMED")]
    assert _perms(sandbox) == [6, 6]
    history = call(capsys, "offset", "history", "G", "-o", "json")
    (change,) = json.loads(history.out)["items"]
    assert (change["operation"], change["reason"], change["confirmedCount"]) == ("dlq fix-permission", "to look", 1)
    assert "perm=6" in call(capsys, "offset", "history", "--id", receipt["id"]).out

    again = _fix(capsys, "--yes")
    assert (again.code, [each["code"] for each in json.loads(again.out)["consequences"]]) == (0, ["NOTHING_TO_DO"])
    undone = call(capsys, "offset", "undo", receipt["id"], "--yes")
    assert undone.code == 0
    assert "undo of dlq fix-permission of group G" in undone.err
    assert _perms(sandbox) == [2, 6]


def test_a_plan_is_saved_shown_and_applied_once(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = str(tmp_path / "plan.json")
    planned = _fix(capsys, "--dry-run")
    assert (planned.code, [item["target"]["perm"] for item in json.loads(planned.out)["items"]]) == (0, [6])
    assert _fix(capsys, "--plan", path).code == 0
    assert _perms(sandbox) == [2, 6]
    assert "perm=2" in call(capsys, "plan", "show", path).out
    assert call(capsys, "apply", path, "--dry-run").code == 0
    assert call(capsys, "apply", path, "--yes").code == 0
    assert _perms(sandbox) == [6, 6]
    assert call(capsys, "apply", path, "--yes").code == 7


def test_it_wants_consent(
    sandbox: ThreadedSandbox, capsys: Captured, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR")
    config_file.write_text(
        f'[contexts.prod]\nnamesrv = "{sandbox.addr}"\nreadonly = true\n'
        f'[contexts.careful]\nnamesrv = "{sandbox.addr}"\nprotected = true\n'
        f'[contexts.free]\nnamesrv = "{sandbox.addr}"\n'
    )
    config_file.chmod(0o600)
    for context, words, code in (
        ("prod", ["G", "--yes"], 1), ("careful", ["G", "--yes"], 2), ("careful", ["G", "--confirm", "H"], 3),
        ("free", ["G"], 2), ("free", ["G*", "--yes"], 2), ("free", ["g", "--yes"], 5),
    ):  # fmt: skip
        assert call(capsys, "dlq", "show", "--fix-permission", "--context", context, *words).code == code, words
    assert _perms(sandbox) == [2, 6]
    assert _fix(capsys, "--context", "prod", "--dry-run").code == 0
    assert _fix(capsys, "--context", "careful", "--confirm", "G").code == 0
    assert _perms(sandbox) == [6, 6]


def test_a_broker_that_is_away_is_told_and_the_other_is_opened(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sandbox.faults.answer(None, ResponseCode.SYSTEM_ERROR, server="broker-b", count=None)
    fixed = _fix(capsys, "--yes")
    assert (fixed.code, [error["brokerName"] for error in json.loads(fixed.out)["errors"]]) == (8, ["broker-b"])
    assert _perms(sandbox)[0] == 6
