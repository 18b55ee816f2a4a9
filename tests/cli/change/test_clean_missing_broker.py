"""`clean-expired` while one of two brokers does not answer: the other one's queues are freed all the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.changes.clean_expired import plan as planning
from rmqctl.cli.change import execution
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import Result, call
from tests.cli.change.seeded_sandbox import document
from tests.cli.change.stuck_member import CLEAN, stuck_member, wait_stuck
from tests.cli.test_clean_popped import join, pop

Captured = pytest.CaptureFixture[str]
Lose = Callable[[ThreadedSandbox], object]
YES = ("--yes", "--wait-stable", "0", "-o", "json")


def drop_all(sandbox: ThreadedSandbox) -> None:
    """Let broker-a stay registered and answer nothing."""
    sandbox.faults.drop(None, server="broker-a", count=None)


LOSSES = [
    pytest.param(drop_all, id="registered"), pytest.param(lambda sandbox: sandbox.stop_broker("broker-a"), id="stopped")
]  # fmt: skip


@pytest.fixture
def pulled(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> Iterator[ThreadedSandbox]:
    with stuck_member(monkeypatch, capsys, brokers=2) as running:
        yield running


@pytest.fixture
def popped(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> Iterator[ThreadedSandbox]:
    """Four popped messages of a queue of each broker."""
    with ThreadedSandbox(brokers=2) as running:
        monkeypatch.setenv("NAMESRV_ADDR", running.addr)
        for name in ("broker-a", "broker-b"):
            running.run(join(running.sandbox, "T", "%RETRY%G", broker_name=name))
            running.run(pop(running.sandbox, broker_name=name))
        wait_stuck(capsys, 2)
        yield running


@pytest.fixture(params=["pulled", "popped"])
def sandbox(request: pytest.FixtureRequest) -> ThreadedSandbox:
    running = request.getfixturevalue(request.param)
    assert isinstance(running, ThreadedSandbox)
    return running


def by_broker(result: Result, key: str) -> dict[str, set[Any]]:
    found: dict[str, set[Any]] = {}
    for item in document(result)["items"]:
        found.setdefault(item["brokerName"], set()).add(item[key])
    return found


def require_half(applied: Result) -> None:
    """Require that broker-b's messages are sent back, that nothing is at broker-a, and that it is named."""
    assert applied.code == 8, applied.err
    found = document(applied)
    assert {error["brokerName"] for error in found["errors"]} == {"broker-a"}
    sent = {
        (item["brokerName"], message["result"]) for item in found["items"] for message in item.get("messages") or ()
    }
    assert sent == {("broker-b", "CONFIRMED")}
    assert by_broker(applied, "result").get("broker-a", {"NOT_ATTEMPTED"}) == {"NOT_ATTEMPTED"}


# What a plan needs of a broker besides the offsets: whether it has the group, and how it resets.
PARTS = [
    pytest.param(
        lambda sandbox, code=code: sandbox.faults.answer(code, R.SYSTEM_ERROR, server="broker-a", count=None),
        id=code.name,
    )
    for code in (Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Q.GET_BROKER_CONFIG)
]


@pytest.mark.parametrize("lose", [*LOSSES, *PARTS])
def test_before_the_scan(pulled: ThreadedSandbox, capsys: Captured, lose: Lose) -> None:
    lose(pulled)
    planned = call(capsys, *CLEAN, "--dry-run", "-o", "json")
    assert (planned.code, by_broker(planned, "route")) == (8, {"broker-a": {"UNSEEN"}, "broker-b": {"SERVER_SIDE"}})
    assert {error["brokerName"] for error in document(planned)["errors"]} == {"broker-a"}
    require_half(call(capsys, *CLEAN, *YES))


@pytest.mark.parametrize("lose", LOSSES)
def test_between_scan_and_plan(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch, lose: Lose
) -> None:
    find, calls = planning.find_group, []

    async def find_group(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:  # the first call is before the scan
            lose(sandbox)
        return await find(*arguments)

    monkeypatch.setattr(planning, "find_group", find_group)
    applied = call(capsys, *CLEAN, *YES)
    require_half(applied)
    assert by_broker(applied, "route")["broker-a"] == {"UNSEEN"}


@pytest.mark.parametrize("lose", LOSSES)
def test_between_plan_and_application(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch, lose: Lose
) -> None:
    monkeypatch.setattr(execution, "require_consent", lambda *_, **__: lose(sandbox))
    applied = call(capsys, *CLEAN, *YES)
    require_half(applied)
    assert set(by_broker(applied, "result")) == {"broker-a", "broker-b"}


@pytest.mark.parametrize("lose", LOSSES)
def test_a_saved_plan(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, lose: Lose) -> None:
    path = tmp_path / "plan.json"
    assert call(capsys, *CLEAN, "--plan", str(path)).code == 10
    lose(sandbox)
    require_half(call(capsys, "apply", str(path), *YES))


def test_a_plan_of_a_part_is_never_a_success(pulled: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    drop_all(pulled)
    assert call(capsys, *CLEAN, "--plan", str(path)).code == 8
    assert {item["route"] for item in json.loads(path.read_text())["items"]} == {"UNSEEN", "SERVER_SIDE"}
    assert call(capsys, "apply", str(path), *YES).code == 8


def test_an_undo(pulled: ThreadedSandbox, capsys: Captured) -> None:
    applied = call(capsys, *CLEAN, *YES)
    drop_all(pulled)
    undone = call(capsys, "offset", "undo", document(applied)["id"], "--partial", *YES)
    assert (undone.code, by_broker(undone, "result")["broker-a"]) == (8, {"NOT_ATTEMPTED"}), undone.err


def test_rounds(pulled: ThreadedSandbox, capsys: Captured) -> None:
    drop_all(pulled)
    words = ("--watch", "--every", "1ms", "--rounds", "1", "--yes", "--wait-stable", "0", "-o", "jsonl")
    (line,) = call(capsys, *CLEAN, *words).out.splitlines()
    played = json.loads(line)
    assert (played["returnedCount"], "broker-a" in played["error"]) == (2, True)


def test_where_no_broker_answers(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert call(capsys, *CLEAN, "--plan", str(path)).code == 10
    sandbox.faults.drop(None, server="broker-a", count=None)
    sandbox.faults.drop(None, server="broker-b", count=None)
    assert call(capsys, "apply", str(path), *YES).code == 6
