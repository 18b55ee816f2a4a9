"""RocketMQ's own groups and topics are read, and no command changes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rmqctl.changes.documents.encode import plan_document, receipt_document
from rmqctl.model.plan import Operation, Plan, PlanItem, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import Receipt, ReceiptItem, Result
from tests.cli.calls import call

Captured = pytest.CaptureFixture[str]
OWN = "CID_RMQ_SYS_TRANS"
_MQ = MessageQueue("RMQ_SYS_TRANS_HALF_TOPIC", "broker-a", 0)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no server be there, and files name a group of RocketMQ, as an older release could write them."""
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    brokers = {"broker-a": "127.0.0.1:2"}
    item = PlanItem(_MQ, 6, 0, Route.BROKER_WRITE, 0, 10, 6, 0, 0)
    plan = Plan("p", Operation.OFFSET_RESET, 0, "C@ns:1", brokers, OWN, Route.BROKER_WRITE, items=(item,))
    receipt = Receipt(
        id="r", plan_id="p", plan_sha256="", operation=Operation.OFFSET_RESET, started_at_ms=0, ended_at_ms=1,
        cluster="C@ns:1", brokers=brokers, group=OWN, route=Route.BROKER_WRITE,
        items=(ReceiptItem(_MQ, 6, 0, Route.BROKER_WRITE, Result.CONFIRMED),),
    )  # fmt: skip
    Path("plan.json").write_text(json.dumps(plan_document(plan)))
    Path("receipt.json").write_text(json.dumps(receipt_document(receipt)))
    Path("offsets.json").write_text(
        json.dumps(
            {
                "apiVersion": "rmqctl/v1",
                "kind": "OffsetExport",
                "group": OWN,
                "items": [{"topic": "T", "brokerName": "broker-a", "queueId": 0, "consumerOffset": 3}],
            }
        )
    )


@pytest.mark.parametrize(
    "words",
    [
        f"offset reset {OWN} --topic T --to-earliest --yes",
        f"offset reset {OWN} --topic T --to-earliest --dry-run",
        "offset reset TOOLS_CONSUMER --all-topics --to-earliest --plan made.json",
        f"--namespace NS offset reset {OWN} --topic T --to-earliest --yes",
        f"offset skip {OWN} --yes",
        f"offset delete {OWN} --topic T --yes",
        f"offset clone G {OWN} --yes",
        "offset import offsets.json --yes",
        f"offset import offsets.json --group {OWN} --dry-run",
        "offset undo receipt.json --yes",
        "offset undo receipt.json --dry-run",
        "apply plan.json --yes",
        "apply plan.json --dry-run",
        f"clean-expired {OWN} --older-than 5s --yes",
        f"clean-expired {OWN} --older-than 5s --yes --watch --rounds 1",
        f"group create {OWN} --yes",
        f"group update {OWN} --retries 3 --yes",
        f"group delete {OWN} --yes",
        f"dlq show {OWN} --fix-permission --yes",
        f"dlq replay {OWN} --yes",
        f"dlq replay {OWN} --to-topic T --dry-run",
        f"consume run {OWN} T --print --yes",
        "dlq replay G --to-topic RMQ_SYS_TRANS_HALF_TOPIC --yes",
        "--namespace NS dlq replay G --to-topic SCHEDULE_TOPIC_XXXX --yes",
        "message send SCHEDULE_TOPIC_XXXX x",
    ],
)
def test_a_change_is_refused_before_a_server_is_asked(words: str, capsys: Captured) -> None:
    result = call(capsys, *words.split())
    assert result.code == 2, result.err
    assert "RocketMQ" in result.err
    assert not Path("made.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        f"offset show {OWN}",
        f"clean-expired {OWN}",
        f"offset clone {OWN} G --yes",
        "offset reset NS%TOOLS_CONSUMER --topic T --to-earliest --yes",
        "offset reset G --topic RMQ_SYS_TRACE_TOPIC --to-earliest --yes",
    ],
)
def test_reading_and_groups_of_users_are_not(words: str, capsys: Captured) -> None:
    """They go as far as the server, which does not answer."""
    assert call(capsys, *words.split()).code == 6
