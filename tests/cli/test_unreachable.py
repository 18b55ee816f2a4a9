from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqctl.changes.documents.encode import plan_document, receipt_document
from rmqctl.cli.registry import COMMANDS
from rmqctl.model.plan import Operation, Plan, PlanItem, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import Receipt, ReceiptItem, Result
from rmqctl.net.clock import SystemClock, Timer

from .calls import call, closed_address

_ASKING = {
    "offset show": ["my-group"],
    "offset peek": ["my-group", "--topic", "t"],
    "offset reset": ["my-group", "--topic", "t", "--to-latest", "--yes"],
    "offset skip": ["my-group", "--yes"],
    "offset clone": ["my-group", "other-group", "--yes"],
    "offset delete": ["my-group", "--topic", "t", "--yes"],
    "offset export": ["my-group"],
    "offset import": ["{offsets}", "--yes"],
    "offset undo": ["{receipt}", "--yes"],
    "apply": ["{plan}", "--yes", "-o", "csv"],  # a table shows the plan first
    "group create": ["my-group", "--yes"],
    "group update": ["my-group", "--set", "retryMaxTimes=3", "--yes"],
    "group delete": ["my-group", "--yes"],
    "clean-expired": ["my-group"],
    "dlq list": [],
    "dlq show": ["my-group"],
    "dlq stats": ["my-group"],
    "dlq export": ["my-group", "--to", "-"],
    "dlq replay": ["my-group", "--yes"],
    "group list": [],
    "group describe": ["my-group"],
    "group members": ["my-group"],
    "group subscriptions": ["my-group"],
    "group config": ["my-group"],
    "diagnose": ["my-group"],
    "top": ["my-group"],
    "watch": ["my-group"],
    "whatif allocate": ["my-group"],
    "whatif churn": ["my-group"],
    "whatif readonly": ["--broker", "broker-a"],
    "whatif expiry": ["my-group"],
    "cluster list": [],
    "topic list": [],
    "topic route": ["t"],
    "topic status": ["t"],
    "topic producers": ["t"],
    "topic create": ["t", "--yes"],
    "topic update": ["t", "--queues", "4", "--yes"],
    "topic delete": ["t", "--yes"],
    "broker show": ["broker-a"],
    "broker drain": ["broker-a", "--yes"],
    "broker restore": ["broker-a", "--yes"],
    "message get": ["0A0000010000A4B100000000000002F1"],
    "message find": ["t"],
    "message tail": ["t"],
    "message send": ["t", "body"],
    "message resend": ["0A0000010000A4B100000000000002F1", "--group", "my-group", "--yes"],
    "consume run": ["my-group", "t", "--print", "--yes"],
    "message trace": ["0A0000010000A4B100000000000002F1"],
}
_NOT_ASKING = {
    "offset history",
    "dlq status",
    "plan show",
    "explain",
    "schema",
    "message decode-id",
    "plugin list",
    "completion",
    # What can't be reached is their result: test_doctor.py, test_check.py.
    "doctor",
    "check",
    "demo",
    "pipeline migrate",
    "pipeline optimize",
    "pipeline package",
    "pipeline tables",
    "pipeline run",  # asks nobody without PySpark: tests/spark/test_run.py
}
_STREAMING = {"message tail", "consume run", "top", "watch"}


_ITEM = {"topic": "t", "brokerName": "broker-a", "queueId": 0}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Write what commands read before they ask: a plan, a receipt, offsets."""
    item = PlanItem(MessageQueue("t", "broker-a", 0), 5, 0, Route.BROKER_WRITE)
    plan = Plan(
        "p1", Operation.OFFSET_RESET, 1, "c", {"broker-a": "127.0.0.1:1"}, "my-group", Route.BROKER_WRITE, items=(item,)
    )
    receipt = Receipt(
        "r1", "p1", "", plan.operation, 1, 2, "c", plan.brokers, "my-group", plan.route,
        items=(ReceiptItem(item.mq, 5, 0, item.route, Result.CONFIRMED, 0, is_after_known=True),),
    )  # fmt: skip
    offsets = {
        "apiVersion": "rmqctl/v1",
        "kind": "OffsetExport",
        "group": "my-group",
        "items": [{**_ITEM, "consumerOffset": 1}],
    }
    documents = {"plan": plan_document(plan), "receipt": receipt_document(receipt), "offsets": offsets}
    for name, document in documents.items():
        (tmp_path / name).write_text(json.dumps(document))
    return {name: str(tmp_path / name) for name in documents}


def _argv(words: str, files: dict[str, str]) -> list[str]:
    return [*words.split(), *(word.format(**files) for word in _ASKING[words])]


def test_every_command_that_asks_a_cluster_is_tested_here() -> None:
    known = {words for words in COMMANDS if not words.startswith(("context ", "sandbox "))}
    assert known - _NOT_ASKING == set(_ASKING)


@pytest.mark.parametrize("words", _ASKING)
def test_a_name_server_that_refuses_exits_6_at_once(
    words: str, files: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    arm = SystemClock.call_later

    def note(clock: SystemClock, delay_s: float, callback: Callable[[], object]) -> Timer:
        return arm(clock, delay_s, lambda: (waits.append(delay_s), callback()))

    monkeypatch.setattr(SystemClock, "call_later", note)
    address = closed_address()
    result = call(capsys, *_argv(words, files), "-n", address)
    assert waits == []  # no timer was waited for
    assert (result.code, result.out) == (6, "")
    sentence, hint = result.err.splitlines()
    assert sentence == f"rmqctl: Name server {address}: connection refused."
    assert "-n" in hint


@pytest.mark.parametrize("words", _ASKING)
def test_it_is_told_as_json_when_json_was_asked_for(
    words: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    form = "jsonl" if words in _STREAMING else "json"
    result = call(capsys, *_argv(words, files), "-n", closed_address(), "-o", form)
    assert (result.code, result.out) == (6, "")
    assert (result.error["name"], result.error["exitCode"]) == ("UNREACHABLE", 6)
    assert "connection refused" in result.error["message"]


def test_several_that_refuse_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = closed_address(), closed_address()
    result = call(capsys, "offset", "show", "g", "--topic", "t", "--topic", "u", "-n", f"{first};{second}")
    sentence = f"rmqctl: Name server {first}: connection refused. None of the 2 name servers answered."
    assert result.err.splitlines()[0] == sentence


def test_a_host_that_does_not_resolve_exits_6(capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "group", "list", "-n", f"{'x' * 70}:9876")
    assert result.code == 6
    assert "the host name does not resolve" in result.err


def test_quiet_does_not_silence_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "group", "list", "-q", "-n", closed_address())
    assert result.code == 6
    assert "connection refused" in result.err
