"""skip, clone, delete, and reset by a group; and whatever else can be typed wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rmqctl.changes.documents.encode import sum_of
from rmqctl.net.clock import Clock, SystemClock
from rmqctl.protocol.codes import RequestCode
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import call
from tests.cli.change.seeded_sandbox import document, join, make_known, seeded, store, stored

Captured = pytest.CaptureFixture[str]
both = pytest.mark.parametrize("sandbox", ["5.4.0", "4.9.7"], indirect=True)


@both
def test_a_backlog_is_skipped(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result = call(capsys, "offset", "skip", "G", "--yes", "-o", "json")
    assert (result.code, document(result)["operation"]) == (0, "offset skip")
    assert stored(sandbox) == {0: 10, 1: 10}
    assert call(capsys, "offset", "skip", "G", "--yes", "-o", "json").code == 0


def test_some_queues_are_skipped(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    assert call(capsys, "offset", "skip", "G", "--topic", "T", "--queue", "broker-a:1", "--yes").code == 0
    assert stored(sandbox) == {0: 6, 1: 10}
    for queue in ("broker-a:7", "broker-z", "broker-a:1-0", "x y", ""):
        result = call(capsys, "offset", "skip", "G", "--queue", queue, "--yes")
        assert result.code == 2, queue
    assert stored(sandbox) == {0: 6, 1: 10}


@both
def test_a_group_begins_where_another_is(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    store(sandbox, 1, 8)
    make_known(sandbox, "H")
    result = call(capsys, "offset", "clone", "G", "H", "--yes", "-o", "json")
    assert (result.code, document(result)["group"]) == (0, "H")
    assert stored(sandbox, group="H") == {0: 6, 1: 8} == stored(sandbox)
    store(sandbox, 0, 3)
    assert call(capsys, "offset", "reset", "H", "--topic", "T", "--to-group", "G", "--yes").code == 0
    assert stored(sandbox, group="H") == {0: 3, 1: 8}


def test_what_can_not_be_cloned(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    for names in (("G", "G"), ("N%G", "G", "--namespace", "N")):
        result = call(capsys, "offset", "clone", *names, "--yes")
        assert (result.code, "FROM and TO are the same group" in result.err) == (2, True)
    assert call(capsys, "offset", "clone", "nobody", "G", "--yes").code == 5
    result = call(capsys, "offset", "clone", "G", "nobody", "--yes")
    assert result.code in (1, 5)
    assert stored(sandbox, group="nobody") == {}


@both
def test_offsets_are_taken_away(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result = call(capsys, "offset", "delete", "G", "--topic", "T", "--yes", "-o", "json")
    assert result.code == 0
    receipt = document(result)
    assert [(item["target"], item["after"], item["result"]) for item in receipt["items"]] == [
        (None, None, "CONFIRMED")
    ] * 2
    shown = document(call(capsys, "offset", "show", "G", "--topic", "T", "-o", "json"))
    assert {item["consumerOffset"] for item in shown["items"]} == {None}
    assert call(capsys, "offset", "delete", "G", "--topic", "T", "--yes").code == 5
    assert call(capsys, "offset", "undo", receipt["id"], "--yes").code == 0
    assert stored(sandbox) == {0: 6, 1: 6}


def test_what_taking_offsets_away_is_worth_is_said_to_be_unknown(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result = call(capsys, "offset", "delete", "G", "--topic", "T", "--dry-run")
    assert "How many messages of 2 queues would be redelivered or skipped is unknown." in result.err
    assert "0 messages" not in result.err


def test_what_can_not_be_taken_away(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    assert call(capsys, "offset", "delete", "G", "--yes").code == 2
    assert call(capsys, "offset", "delete", "G", "--leftovers", "--yes").code == 5
    join(sandbox)
    assert call(capsys, "offset", "delete", "G", "--topic", "T", "--yes").code == 1
    assert stored(sandbox) == {0: 6, 1: 6}


_RESET = ("offset", "reset", "G", "--topic", "T")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("offset", "reset"), 2),
        (("offset", "reset", "G"), 2),
        (("offset", "reset", "G", "--to-earliest"), 2),
        (_RESET, 2),
        ((*_RESET, "--to-earliest", "--to-latest"), 2),
        ((*_RESET, "--all-topics", "--to-latest"), 2),
        ((*_RESET, "--to-offset", "x"), 2),
        ((*_RESET, "--to-offset", "-1"), 2),
        ((*_RESET, "--to-offset", "9" * 30), 2),
        ((*_RESET, "--shift-by", "9" * 30), 2),
        ((*_RESET, "--shift-by", "-" + "9" * 30), 2),
        ((*_RESET, "--shift-by", ""), 2),
        ((*_RESET, "--to-time", "x"), 2),
        ((*_RESET, "--to-time", ""), 2),
        ((*_RESET, "--by-duration", ""), 2),
        ((*_RESET, "--to-earliest", "--queue", "x:y:z"), 2),
        ((*_RESET, "--to-earliest", "--wait-stable", "x"), 2),
        ((*_RESET, "--to-earliest", "--timeout", "x"), 2),
        ((*_RESET, "--from-file", "/nowhere"), 2),
        ((*_RESET, "--from-file", "/"), 2),
        ((*_RESET, "--from-file", "x" * 5000), 2),
        ((*_RESET, "--to-group", "nobody"), 5),
        ((*_RESET, "--to-group", ""), 5),
        ((*_RESET, "--to-group", "G"), 2),
        (("group", "update", "G", "--retries", "3", "--dry-run", "--columns", "change"), 2),
        (("group", "update", "G", "--retries", "3", "--columns", "skipped"), 2),
        (("offset", "reset", "G", "--topic", "T*", "--to-earliest"), 2),
        (("offset", "skip", "G", "--topic", "?"), 2),
        (("offset", "clone", "G", "H", "--topic", "*"), 2),
        (("offset", "delete", "G", "--topic", "T*"), 2),
        (("offset", "reset", "nobody", "--topic", "T", "--to-earliest"), 1),
        (("offset", "reset", "nobody", "--all-topics", "--to-earliest"), 5),
        (("offset", "reset", "G", "--topic", "nope", "--to-earliest"), 5),
        (("offset", "reset", "G", "--topic", "", "--to-earliest"), 5),
        (("offset", "reset", "", "--topic", "T", "--to-earliest"), 5),
        (("offset", "reset", "G\x00", "--topic", "T", "--to-earliest"), 1),
        (("offset", "reset", "\x1b[31m", "--topic", "T", "--to-earliest"), 1),
        (("offset", "reset", "\udcff", "--topic", "T", "--to-earliest"), 1),
        (("offset", "skip", "nobody"), 5),
        (("offset", "clone", "G"), 2),
        (("offset", "import", "/nowhere"), 2),
        (("offset", "undo"), 2),
        (("offset", "undo", "/"), 2),
        (("apply", "/nowhere"), 2),
        (("apply", "/"), 2),
        (("apply", "/dev/null"), 2),
        (("apply", "x" * 5000), 2),
        (("plan", "show", "/nowhere"), 2),
        (("plan", "show", ""), 2),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else None,
)
def test_nothing_that_can_be_typed_brings_it_down_or_changes_anything(
    sandbox: ThreadedSandbox, capsys: Captured, words: tuple[str, ...], code: int
) -> None:
    yes = () if words[:2] == ("plan", "show") else ("--yes",)
    result = call(capsys, *words, *yes)
    assert result.code == code or (code == 1 and result.code in (1, 5)), result.err
    assert result.out == ""
    first = result.err.splitlines()[0]
    assert first.startswith("rmqctl: ")
    assert first.endswith((".", "?"))
    assert "\x1b" not in result.err
    assert stored(sandbox) == {0: 6, 1: 6}
    as_json = call(capsys, *words, *yes, "-o", "json")
    assert (as_json.code, as_json.out) == (result.code, "")
    assert as_json.error["message"]


def _leap(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have clients left in peace for an hour, however slow the machine is, and let it pass; return the waits."""
    waits: list[float] = []
    machine_s = SystemClock.monotonic_s

    async def leap(_: Clock, seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("rmqctl.changes.journal.group_lock._RESET_PAUSE_MS", 3_600_000)
    monkeypatch.setattr("rmqctl.net.clock.pause", leap)
    monkeypatch.setattr(SystemClock, "monotonic_s", lambda clock: machine_s(clock) + sum(waits))
    return waits


def test_clients_that_were_just_told_are_left_in_peace(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two resets that clients are told of within 10 s break Java clients."""
    with seeded("4.9.7") as sandbox:
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        join(sandbox)
        result = call(capsys, *_RESET, "--to-offset", "2", "--yes", "--wait-stable", "0s", "-o", "json")
        assert (result.code, {item["route"] for item in document(result)["items"]}) == (9, {"CLIENT_PUSH"})
        store(sandbox, 0, 2)
        waits = _leap(monkeypatch)
        result = call(capsys, *_RESET, "--to-offset", "4", "--yes", "--wait-stable", "0s", "--timeout", "60s")
        assert result.code == 6
        assert len(waits) == 1
        assert "the group's clients are still busy with the last reset" in result.err
        assert stored(sandbox)[0] == 2
        assert len(document(call(capsys, "offset", "history", "-o", "json"))["items"]) == 1


def test_stdin_that_is_empty(sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (("apply", "-", "--yes"), ("plan", "show", "-"), ("offset", "undo", "-", "--yes"),
                  ("offset", "import", "-", "--yes"), (*_RESET, "--from-file", "-", "--yes")):  # fmt: skip
        with Path("/dev/null").open() as nothing:
            monkeypatch.setattr("sys.stdin", nothing)
            assert call(capsys, *words).code == 2, words


def test_two_brokers_of_which_one_is_gone(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    with seeded(brokers=2) as sandbox:
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        assert call(capsys, *_RESET, "--to-offset", "2", "--yes").code == 0
        sandbox.faults.drop(RequestCode.GET_CONSUME_STATS, server="broker-b", count=None)
        words = (*_RESET, "--to-offset", "4", "--yes", "-o", "json")
        refused = call(capsys, *words)
        assert (refused.code, refused.out, refused.error["name"]) == (1, "", "REFUSED")
        assert "broker-b" in refused.error["message"]
        assert "--partial" in refused.error["hint"]
        result = call(capsys, *words, "--partial")
        assert result.code == 8
        receipt = document(result)
        assert {(item["brokerName"], item["result"]) for item in receipt["items"]} == {
            ("broker-a", "CONFIRMED"),
            ("broker-b", "NOT_ATTEMPTED"),
        }
        assert {error["brokerName"] for error in receipt["errors"]} == {"broker-b"}
        assert (stored(sandbox), stored(sandbox, "broker-b")) == ({0: 4, 1: 4}, {0: 2, 1: 2})


def test_hostile_plans_with_a_right_sum(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    assert call(capsys, *_RESET, "--to-offset", "2", "--plan", str(path)).code == 0
    plan = json.loads(path.read_text())
    first = plan["items"][0]
    for number, changes in enumerate(
        (
            {"items": []},
            {"items": [{"brokerName": "broker-a", "before": None, "target": None}]},
            {"items": [{"brokerName": "broker-a", "before": None, "target": {"groupName": "G"}}]},
            {"operation": "group create"},
            {"operation": "group delete"},
            {"operation": "offset delete"},
            {"group": "\x1b[31m"},
            {"group": ""},
            {"group": "../../etc/passwd"},
            {"group": "x" * 100_000},
            {"brokers": {"broker-a": "127.0.0.1:1"}},
            {"brokers": {"broker-a": ""}},
            {"route": "MIXED"},
            {"route": "GROUP_CONFIG"},
            {"createdAtMs": 10**30},
            {"createdAtMs": -1},
            {"id": "x" * 10_000},
            {"items": [{**first, "topic": "nope"}]},
            {"items": [{**first, "queueId": 5}]},
            {"items": [{**first, "target": 2**63 - 1}]},
            {"items": [{**first, "minOffset": 2**70, "reconsumed": -5}]},
            {"items": [{**first, "route": "CLIENT_PUSH"}, plan["items"][1]]},
            {"items": [{**first, "route": "SERVER_SIDE"}]},
            {"items": [{**first, "route": "GROUP_CONFIG"}]},
            {"items": [{**first, "note": "\x1b[2J", "reasons": {"x": "\x1b[2J"}}]},
            {"topics": [{"topic": "T", "brokerName": "broker-a", "readQueueNums": 2**80}]},
            {"consequences": [{"code": "X", "text": "\x1b[2Jfine"}]},
            {"clientIds": ["c" * 10_000]},
        )
    ):
        changed = {**plan, **changes}
        path.write_text(json.dumps({**changed, "sha256": sum_of(changed)}))
        for words in (("plan", "show", str(path)), ("plan", "show", str(path), "-o", "csv"),
                      ("apply", str(path), "--yes"), ("apply", str(path), "--dry-run")):  # fmt: skip
            result = call(capsys, *words)
            assert result.code in (0, 1, 2, 5, 7, 8), (number, changes, result.err)
            assert "\x1b" not in result.out + result.err, (number, changes)
        for queue_id, offset in stored(sandbox).items():
            if offset != 6:
                store(sandbox, queue_id, 6)


def test_columns_of_a_groups_change_are_those_that_it_shows(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    words = ("group", "update", "G", "--retries", "3", "--dry-run", "--columns", "brokerName,before,target")
    result = call(capsys, *words)
    assert result.code == 0
    assert [line.split() for line in result.out.splitlines()] == [
        ["BROKER", "BEFORE", "TARGET"], ["broker-a", "retryMaxTimes=16", "retryMaxTimes=3"]
    ]  # fmt: skip


@pytest.mark.parametrize("sandbox", ["5.5.0"], indirect=True)
def test_a_release_that_makes_a_deleted_group_again(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    """5.5 does, unless its offsets go with it or it makes no groups by itself."""
    refused = call(capsys, "group", "delete", "G", "--yes")
    assert (refused.code, "--with-offsets" in refused.err) == (1, True)
    assert stored(sandbox) == {0: 6, 1: 6}
    assert call(capsys, "group", "delete", "G", "--with-offsets", "--yes").code == 0
    assert call(capsys, "group", "config", "G").code == 5
    made = document(call(capsys, "group", "create", "H", "--yes", "-o", "json"))
    assert call(capsys, "offset", "undo", made["id"], "--yes").code == 0
    assert call(capsys, "group", "config", "H").code == 5
    settings = sandbox.sandbox.brokers["broker-a"].settings
    sandbox.call(lambda _: settings.update({"autoCreateSubscriptionGroup": "false"}))
    made = document(call(capsys, "group", "create", "G", "--yes", "-o", "json"))
    store(sandbox, 0, 3)
    assert call(capsys, "group", "delete", "G", "--yes").code == 0
    assert stored(sandbox) == {0: 3}
    assert sandbox.call(lambda inner: "G" not in inner.brokers["broker-a"].groups.groups)
