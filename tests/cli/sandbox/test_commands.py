"""The commands against a sandbox that runs: what they change, what they print, how they fail."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.sandbox.scenarios.table import SCENARIOS
from tests.cli.calls import call
from tests.cli.sandbox.found_sandbox import Standing, standing

Captured = pytest.CaptureFixture[str]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


_BEGUN_MS = _now_ms()


@pytest.fixture
def sandbox() -> Iterator[Standing]:
    with standing(brokers=2) as running:
        yield running


def _faults(capsys: Captured, *words: str) -> list[dict[str, Any]]:
    result = call(capsys, "sandbox", "fault", *words, "-o", "json", "-q")
    assert (result.code, result.err) == (0, "")
    items: list[dict[str, Any]] = json.loads(result.out)["items"]
    return items


# Without a sandbox


@pytest.mark.parametrize("argv", [("fault", "list"), ("seed", "shop"), ("advance", "2h"), ("status", "--port", "9876")])
def test_without_a_sandbox_the_others_are_not_found(argv: tuple[str, ...], capsys: Captured) -> None:
    result = call(capsys, "sandbox", *argv)
    assert (result.code, result.out) == (5, "")
    sentence, hint = result.err.splitlines()
    assert sentence == (
        "rmqctl: No sandbox is running." if "--port" not in argv else "rmqctl: No sandbox is running on port 9876."
    )
    assert "rmqctl sandbox up --detach" in hint


def test_without_a_sandbox_status_is_empty_and_down_has_nothing_to_do(capsys: Captured) -> None:
    result = call(capsys, "sandbox", "status")
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith("No sandbox is running.")
    assert json.loads(call(capsys, "sandbox", "status", "-o", "json").out)["items"] == []
    assert call(capsys, "sandbox", "down") == (0, "", "No sandbox is running.\n")
    assert call(capsys, "sandbox", "down", "--port", "1") == (0, "", "No sandbox is running on port 1.\n")
    assert call(capsys, "sandbox", "down", "-q") == (0, "", "")


# Status


def test_status_counts_what_there_is(sandbox: Standing, capsys: Captured) -> None:
    result = call(capsys, "sandbox", "status", "-o", "json")
    assert (result.code, result.err) == (0, "")
    (item,) = json.loads(result.out)["items"]
    assert (item["namesrv"], item["plays"], item["dir"], item["faultCount"]) == (sandbox.addr, "5.4.0", None, 0)
    assert _BEGUN_MS <= item["startTimestamp"] <= _now_ms()
    assert [broker["brokerAddr"] for broker in item["brokers"]] == list(sandbox.brokers.values())
    assert {broker["messageCount"] for broker in item["brokers"]} == {0}
    assert call(capsys, "sandbox", "status", "-o", "name").out == f"{sandbox.addr}\n"
    table = call(capsys, "sandbox", "status").out
    assert table.startswith(f"Name server {sandbox.addr}\n")
    assert "broker-b" in table


def test_status_of_a_broker_that_is_stopped(sandbox: Standing, capsys: Captured) -> None:
    sandbox.stop_broker("broker-a")
    (item,) = json.loads(call(capsys, "sandbox", "status", "-o", "json").out)["items"]
    stopped, running = item["brokers"]
    assert (stopped["isRunning"], stopped["memberCount"], running["memberCount"]) == (False, None, 0)
    rows = [line.split() for line in call(capsys, "sandbox", "status").out.splitlines()]
    assert ["broker-a", stopped["brokerAddr"], "stopped", "0", "0", "-", "0", "-"] in rows


def test_several_sandboxes_are_told_apart_by_their_ports(sandbox: Standing, capsys: Captured) -> None:
    with standing(plays="4.9.7") as other:
        port = other.addr.rpartition(":")[2]
        assert len(json.loads(call(capsys, "sandbox", "status", "-o", "json").out)["items"]) == 2
        (item,) = json.loads(call(capsys, "sandbox", "status", "--port", port, "-o", "json").out)["items"]
        assert item["plays"] == "4.9.7"
        for argv in (["fault", "list"], ["down"], ["advance", "1s"]):
            result = call(capsys, "sandbox", *argv)
            assert (result.code, result.out) == (2, "")
            assert "Several sandboxes are running, on ports " in result.err
            assert "--port" in result.err
        assert call(capsys, "sandbox", "fault", "list", "--port", port).code == 0


# Faults


def test_a_planned_fault_is_told_listed_and_struck(sandbox: Standing, capsys: Captured) -> None:
    result = call(
        capsys, "sandbox", "fault", "answer", "GET_BROKER_CLUSTER_INFO", "with", "INVALID_PARAMETER",
        "--broker", "namesrv", "--remark", "slow down", "--count", "2",
    )  # fmt: skip
    assert result.code == 0
    assert result.err == (
        "The next 2 GET_BROKER_CLUSTER_INFO (106) at namesrv are answered with INVALID_PARAMETER (29).\n"
    )
    assert [line.split() for line in result.out.splitlines()[1:]] == [
        ["ANSWER", "namesrv", "GET_BROKER_CLUSTER_INFO", "INVALID_PARAMETER", "(29)", "0", "2"]
    ]
    refused = call(capsys, "cluster", "list", "-n", sandbox.addr)
    assert refused.code == 1
    assert refused.err.splitlines()[0].endswith("answered INVALID_PARAMETER (29): slow down")
    (item,) = _faults(capsys, "list")
    assert (item["leftCount"], item["struckCount"], item["remark"]) == (1, 1, "slow down")
    call(capsys, "cluster", "list", "-n", sandbox.addr)
    assert _faults(capsys) == []


def test_every_kind_of_fault_can_be_set_and_all_is_cleared(sandbox: Standing, capsys: Captured) -> None:
    for words in (
        "drop 11 --forever",
        "silence any",
        "delay 5s 310",
        "corrupt 34 --count 2 --broker broker-b",
        "partition c1",
        "partition c2 --broker broker-a",
        "refuse-writes --broker broker-a",
        "skew 90s behind --broker broker-b",
        "stop --broker broker-b",
    ):
        assert call(capsys, "sandbox", "fault", *words.split(), "-q").code == 0
    items = _faults(capsys, "list")
    assert [(item["fault"], item["server"]) for item in items] == [
        ("DROP", None), ("SILENCE", None), ("DELAY", None), ("CORRUPT", "broker-b"), ("PARTITION", None),
        ("PARTITION", "broker-a"), ("REFUSE_WRITES", "broker-a"), ("STOPPED", "broker-b"), ("SKEW", "broker-b"),
    ]  # fmt: skip
    assert [item["skewMs"] for item in items if item["fault"] == "SKEW"] == [-90_000]
    assert [item["delayMs"] for item in items if item["fault"] == "DELAY"] == [5_000]
    assert call(capsys, "sandbox", "status", "-o", "wide").code == 0
    table = call(capsys, "sandbox", "fault").out
    assert "1m30s behind" in table
    assert "unlimited" in table
    result = call(capsys, "sandbox", "fault", "clear")
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith("All faults were cleared")
    assert result.err.endswith("\nNo faults are active.\n")
    assert _faults(capsys, "list") == []
    assert sandbox.call(lambda inner: all(broker.is_running for broker in inner.brokers.values()))
    assert sandbox.call(lambda inner: [broker.skew_ms for broker in inner.brokers.values()]) == [0, 0]


def test_brokers_are_restarted(sandbox: Standing, capsys: Captured) -> None:
    result = call(capsys, "sandbox", "fault", "restart", "--lose-unflushed")
    assert result.err.splitlines() == [
        "broker-a was restarted; unflushed data was lost.",
        "broker-b was restarted; unflushed data was lost.",
        "No faults are active.",
    ]
    call(capsys, "sandbox", "fault", "stop", "--broker", "broker-a")
    assert call(capsys, "sandbox", "fault", "start").err.splitlines()[:2] == [
        "broker-a is running.", "broker-b is running.",
    ]  # fmt: skip
    assert call(capsys, "cluster", "list", "-n", sandbox.addr, "-q").code == 0


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("stop --broker broker-c", 5, "Broker broker-c does not exist."),
        ("drop --broker brokr-a", 5, "Server brokr-a does not exist."),
        ("partition c --broker namesrv", 2, "A client cannot be cut off from the name server"),
        ("heal c", 5, "A partition of client c does not exist."),
        ("explode", 2, "Unknown fault 'explode'."),
        ("list --columns fault,what", 2, "Unknown column 'what'."),
    ],
)
def test_mistakes(words: str, code: int, sentence: str, sandbox: Standing, capsys: Captured) -> None:
    result = call(capsys, "sandbox", "fault", *words.split())
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith(f"rmqctl: {sentence}")
    assert call(capsys, "sandbox", "fault", *words.split(), "-o", "json").error["exitCode"] == code


def test_a_partition_of_a_client_that_nobody_knows_says_so(sandbox: Standing, capsys: Captured) -> None:
    result = call(capsys, "sandbox", "fault", "partition", "who\x1b[31m")
    assert result.code == 0
    assert "\x1b" not in result.out + result.err
    assert "No broker knows a client with this id yet." in result.err
    assert call(capsys, "sandbox", "fault", "heal").err.startswith("who\\x1b[31m is no longer cut off.\n")


# Time


def test_time_is_let_pass(sandbox: Standing, capsys: Captured) -> None:
    result = call(capsys, "sandbox", "advance", "20m")
    assert (result.code, result.err) == (0, "")
    assert result.out.split()[-1] == "20m00s"
    (item,) = json.loads(call(capsys, "sandbox", "status", "-o", "json").out)["items"]
    assert abs(item["clockAheadMs"] - 1_200_000) < 1_000
    before_ms = _now_ms()
    (clock,) = json.loads(call(capsys, "sandbox", "advance", "10m", "-o", "json").out)["items"]
    assert clock["clockAheadMs"] >= 1_800_000
    assert before_ms <= clock["timestamp"] - clock["clockAheadMs"] <= _now_ms()
    assert "30m00s ahead of the machine's" in call(capsys, "sandbox", "status").out
    before_ms = _now_ms()
    now_ms = sandbox.call(lambda inner: inner.brokers["broker-a"].now_ms())
    assert before_ms <= now_ms - clock["clockAheadMs"] <= _now_ms()


def test_a_time_that_is_none_is_a_mistake(sandbox: Standing, capsys: Captured) -> None:
    result = call(capsys, "sandbox", "advance", "yesterday")
    assert result.code == 2
    assert "invalid duration 'yesterday'" in result.err


# Scenarios


def test_scenarios_are_listed_without_a_sandbox(capsys: Captured) -> None:
    result = call(capsys, "sandbox", "seed", "--list")
    assert result.code == 0
    assert [line.split()[0] for line in result.out.splitlines()[1:]] == list(SCENARIOS)
    assert call(capsys, "sandbox", "seed", "--list", "-o", "name").out.split() == list(SCENARIOS)
    assert json.loads(call(capsys, "sandbox", "seed", "--list", "-o", "json").out)["kind"] == "ScenarioList"


def test_a_scenario_is_run_in_the_sandbox(sandbox: Standing, capsys: Captured) -> None:
    result = call(capsys, "sandbox", "seed", "lagging")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[1].split(maxsplit=3) == [
        "parcels", "shipping", "300", "offline with a lag of 200 messages"
    ]  # fmt: skip
    status = json.loads(call(capsys, "sandbox", "status", "-o", "json").out)
    assert sum(broker["messageCount"] for broker in status["items"][0]["brokers"]) > 0


def test_a_scenario_that_there_is_not_gets_a_suggestion(sandbox: Standing, capsys: Captured) -> None:
    result = call(capsys, "sandbox", "seed", "shopp")
    assert result.code == 5
    assert result.err.splitlines() == ["rmqctl: Scenario shopp does not exist.", "        Did you mean shop?"]
    for argv in (["seed"], ["seed", "shop", "--list"]):
        assert call(capsys, "sandbox", *argv).code == 2


# What was left behind


def test_what_a_killed_sandbox_left_behind_is_removed(capsys: Captured, tmp_path: Path) -> None:
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    left = folder / "sandbox-9876.json"
    left.write_text('{"port":9876,"pid":1,"namesrv":"127.0.0.1:9876","socket":"/nowhere/x.sock"}')
    assert call(capsys, "sandbox", "fault", "list").code == 5
    assert not left.exists()
    left.write_text("nonsense")
    assert call(capsys, "sandbox", "status").code == 0
    assert not left.exists()


def test_a_sandbox_that_does_not_answer_is_told_and_hides_no_other(sandbox: Standing, capsys: Captured) -> None:
    with standing() as deaf:
        deaf.run(deaf.control.aclose())
        result = call(capsys, "sandbox", "status", "-o", "json")
        assert result.code == 8
        document = json.loads(result.out)
        assert [item["namesrv"] for item in document["items"]] == [sandbox.addr]
        assert [error["name"] for error in document["errors"]] == ["UNREACHABLE"]
        port = deaf.addr.rpartition(":")[2]
        assert call(capsys, "sandbox", "status", "--port", port).code == 6


def test_the_folder_is_for_its_owner_alone(sandbox: Standing, tmp_path: Path) -> None:
    folder = tmp_path / "runtime"
    assert folder.stat().st_mode & 0o777 == 0o700
    modes = {path.suffix: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes[".json"] == 0o600
    assert modes.get(".sock", 0o600) == 0o600
