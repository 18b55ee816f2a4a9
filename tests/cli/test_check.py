"""`rmqctl check` on a sandbox: limits, formats, exit codes, files and waiting."""

from __future__ import annotations

import json
import re
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rmqctl.cli.check.display import OWN_FORMATS
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from rmqctl.sandbox.scenarios.table import SCENARIOS
from tests.cli.change.seeded_sandbox import seeded
from tests.scripted_peer import V5_4_0

from .calls import Result, call, closed_address
from .test_sick_states import HIDING, standing

Captured = pytest.CaptureFixture[str]

_STATUSES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")


@pytest.fixture(scope="module")
def shop() -> Iterator[ThreadedSandbox]:
    """Run groups that are up to date (warehouse), offline with a lag of 200 (shipping), and with dead letters."""
    with ThreadedSandbox(brokers=2) as sandbox:
        for name in ("lagging", "healthy", "dead-letters"):
            sandbox.run(SCENARIOS[name].run(sandbox.sandbox))
        yield sandbox


@pytest.fixture
def check(shop: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run check on that cluster."""
    monkeypatch.setenv("NAMESRV_ADDR", shop.addr)

    def run(*words: str) -> Result:
        return call(capsys, "check", *words)

    return run


def _items(result: Result) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(result.out)["items"]
    return items


@pytest.mark.parametrize(
    ("words", "code", "limit", "value"),
    [
        ("warehouse --max-lag 0", 0, "lag", 0),
        ("warehouse --max-time-lag 0", 0, "timeLag", 0),
        ("warehouse --min-members 2", 0, "members", 2),
        ("warehouse --min-members 3", 2, "members", 2),
        ("warehouse --min-members 2 --warn-members 3", 1, "members", 2),
        ("shipping --max-lag 199", 2, "lag", 200),
        ("shipping --max-lag 200", 0, "lag", 200),
        ("shipping --max-lag 1000 --warn-lag 199", 1, "lag", 200),
        ("shipping --topic parcels --max-lag 199", 2, "lag", 200),
        ("shipping --max-time-lag 1m", 2, "timeLag", None),
        ("shipping --min-members 1", 2, "members", 0),
        ("accounting --max-dlq-growth 11", 2, "deadLetters", 12),
        ("accounting --max-dlq-growth 12", 0, "deadLetters", 12),
        ("accounting --max-dlq-growth 0 --dlq-window 1ms", 0, "deadLetters", 0),
        ("warehouse --max-dlq-growth 0", 0, "deadLetters", 0),
        ("warehouse", 0, "severity", 0),
        ("shipping", 2, "severity", None),
        ("shipping --warn-severity error", 1, "severity", None),
        ("shipping --fail-on warning", 2, "severity", None),
        ("nosuch --max-lag 0", 3, "reading", None),
        ("nosuch-* --max-lag 0", 3, "reading", None),
        ("nosuch --max-dlq-growth 0", 3, "reading", None),
        ("nosuch", 3, "reading", None),
        ("warehouse --topic nosuch --max-lag 0", 3, "reading", None),
        # Of the groups that a pattern matches, those that consume the topic are checked.
        ("* --topic parcels --max-lag 199", 2, "lag", 200),
        ("* --topic parcels", 2, "severity", None),
        ("* --topic nosuch --max-lag 0", 3, "reading", None),
    ],
)
def test_a_limit_decides_the_exit_code(check: Any, words: str, code: int, limit: str, value: int | None) -> None:
    result = check(*words.split(), "-o", "json")
    document = json.loads(result.out)
    (item,) = document["items"]
    assert (result.code, document["exitCode"], item["limit"]) == (code, code, limit)
    assert item["status"] == document["status"] == _STATUSES[code]
    assert value is None or item["value"] == value
    assert (item["value"] is None) == ("value" in item["reasons"])
    assert bool(document["errors"]) == (code == 3)


def test_one_line_says_that_everything_is_fine(check: Any) -> None:
    assert check("warehouse", "--max-lag", "5", "--min-members", "2") == (
        0, "OK warehouse: lag 0 (max 5); 2 members (min 2)\n", "",
    )  # fmt: skip
    assert check("warehouse", "accounting", "--max-lag", "5") == (0, "OK 2 groups, 2 limits\n", "")


def test_what_is_wrong_is_named_with_what_to_do(check: Any) -> None:
    result = check("*", "shipping", "nosuch", "--max-lag", "5", "--min-members", "1")
    assert (result.code, result.err) == (2, "")
    assert result.out.splitlines() == [
        "CRITICAL shipping: lag 200 (max 5); 0 members (min 1)",
        "UNKNOWN nosuch: Group nosuch does not exist",
        "  rmqctl offset show shipping --only-with-lag",
        "  rmqctl group members shipping",
        "4 groups: 1 CRITICAL, 1 UNKNOWN, 2 OK.",
    ]
    assert "Did you mean warehouse?" in check("warehous", "--max-lag", "5").out


def test_nagios_gets_a_status_and_performance_data(check: Any) -> None:
    limits = ("--max-lag", "100", "--warn-lag", "50", "--max-time-lag", "1m", "--min-members", "2")
    assert check("warehouse", *limits, "-o", "nagios").out == (
        "OK - warehouse: lag 0 (max 100); time lag 0s (max 1m); 2 members (min 2) | "
        "lag=0;50;100;0 timeLag=0ms;;60000;0 members=2;;2:;0\n"
    )
    first, *more = check("*", *limits, "-o", "nagios").out.splitlines()
    text, data = first.split(" | ")
    assert text.startswith("CRITICAL - 3 groups: 2 CRITICAL, 1 OK: accounting: 1 member (min 2)")
    assert re.fullmatch(r"('[^'=|]+'=(\d+(ms)?|U)(;[\d:]*){3} ?)+", data)
    assert [line.split(":")[0] for line in more] == ["shipping"]
    unknown = check("nosuch", "--max-lag", "1", "-o", "nagios")
    assert (unknown.code, unknown.out) == (3, "UNKNOWN - nosuch: Group nosuch does not exist\n")


def test_prometheus_gets_samples_of_what_is_known(check: Any) -> None:
    result = check("*", "nosuch", "--max-lag", "100", "-o", "prometheus")
    samples = {
        (sample.name, sample.labels.get("consumer_group"), sample.labels.get("limit")): sample.value
        for family in text_string_to_metric_families(result.out)
        for sample in family.samples
    }
    assert samples.pop(("rmqctl_check_timestamp_seconds", None, None)) > 1.7e9
    groups = {"accounting": 0, "shipping": 2, "warehouse": 0, "nosuch": 3}
    assert samples == {
        **{("rmqctl_check_status", group, None): status for group, status in groups.items()},
        **{
            ("rmqctl_check_limit_status", group, "reading" if group == "nosuch" else "lag"): status
            for group, status in groups.items()
        },
        **{
            ("rmqctl_check_lag_messages", group, None): 200 if group == "shipping" else 0
            for group in groups
            if group != "nosuch"
        },
    }


def test_junit_gets_a_case_for_each_limit(check: Any) -> None:
    result = check("*", "nosuch", "--max-lag", "100", "--min-members", "2", "-o", "junit")
    top = ElementTree.fromstring(result.out)
    assert [top.get(name) for name in ("tests", "failures", "errors")] == ["7", "3", "1"]
    cases = {
        (case.get("classname"), case.get("name")): next(child.tag for child in case) for case in top.iter("testcase")
    }
    assert cases[("shipping", "lag")] == cases[("accounting", "members")] == "failure"
    assert (cases[("warehouse", "lag")], cases[("nosuch", "reading")]) == ("system-out", "error")


def test_a_warning_is_no_failure_of_junit_and_is_said_in_its_case(check: Any) -> None:
    result = check("shipping", "--warn-lag", "5", "-o", "junit")
    top = ElementTree.fromstring(result.out)
    assert (result.code, [top.get(name) for name in ("tests", "failures", "errors")]) == (1, ["1", "0", "0"])
    assert [(said.tag, (said.text or "").split(":")[0]) for said in top.iter() if said.text and said.text.strip()] == [
        ("system-out", "WARNING")
    ]


def test_a_file_is_replaced_and_the_terminal_gets_text(check: Any, tmp_path: Path) -> None:
    file = tmp_path / "out.xml"
    file.write_text("old")
    result = check("shipping", "--max-lag", "5", "-o", "junit", "--outfile", str(file))
    assert (result.code, result.out.splitlines()[0]) == (2, "CRITICAL shipping: lag 200 (max 5)")
    assert ElementTree.fromstring(file.read_text()).get("failures") == "1"
    assert list(tmp_path.glob("*.xml*")) == [file]
    quiet = check("shipping", "--max-lag", "5", "-o", "json", "--outfile", str(file), "-q")
    assert quiet == (2, "", "")
    assert json.loads(file.read_text())["exitCode"] == 2
    missing = check("shipping", "--max-lag", "5", "--outfile", str(tmp_path / "no" / "file"))
    assert (missing.code, missing.out, "does not exist" in missing.err) == (3, "", True)


def test_a_table_has_a_row_for_each_limit(check: Any) -> None:
    rows = check("shipping", "--max-lag", "5", "--max-time-lag", "10m", "-o", "plain").out.splitlines()
    assert rows[0].split() == ["STATUS", "GROUP", "LIMIT", "VALUE", "WARNING", "CRITICAL", "FOUND"]
    assert rows[1].split()[:6] == ["CRITICAL", "shipping", "lag", "200", "-", "5"]
    assert check("*", "--max-lag", "5", "-o", "table", "--where", "status!=OK", "--columns", "group").code == 2


def test_a_file_checks_an_estate_of_several_clusters(
    check: Any, shop: ThreadedSandbox, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "checks.toml"
    file.write_text(
        """
        [defaults]
        max-lag = 5
        [[check]]
        group = "shipping"
        max-lag = 500
        [[check]]
        group = "*"
        [[check]]
        group = "warehouse"
        context = "second"
        min-members = 2
        [[check]]
        group = "any"
        context = "dead"
        """
    )
    monkeypatch.setenv("RMQCTL_CONTEXT", "")
    for name, address in (("second", shop.addr), ("dead", closed_address())):
        assert call(capsys, "context", "set", name, f"namesrv={address}").code == 0
    result = check("--from", str(file), "-o", "json")
    assert result.code == 3
    found = {(item["context"], item["group"], item["limit"]): item["status"] for item in _items(result)}
    assert found == {
        (None, "shipping", "lag"): "OK",
        (None, "accounting", "lag"): "OK",
        (None, "warehouse", "lag"): "OK",
        ("second", "warehouse", "lag"): "OK",
        ("second", "warehouse", "members"): "OK",
        ("dead", "any", "reading"): "UNKNOWN",
    }


@pytest.mark.parametrize(
    "words",
    [
        "",
        "G --max-lag x",
        "G --max-lag -1",
        "G --max-time-lag 5",
        "G --fail-on bad",
        "G --max-lag 5 --warn-lag 6",
        "G --stable-for 1m --wait 30s",
        "G --every 0s",
        "G --no-such-option",
        "G --from checks.toml",
        "--from /no/such/file",
        "G -o nosuch",
        "G --max-lag 1 --where status=OK",
        "G --max-lag 1 --columns group",
        "G --max-lag 1 -n nowhere:x",
        "G --max-lag 1 --context nosuch",
    ],
)
def test_a_wrong_command_line_is_unknown_and_not_critical(words: str, capsys: Captured) -> None:
    """2 means CRITICAL to a scheduler, so it must not be the code of a usage error."""
    result = call(capsys, "check", *words.split())
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith("rmqctl: ")


def test_a_wrong_global_option_is_unknown_too(capsys: Captured) -> None:
    assert call(capsys, "--no-such", "check", "G").code == 3
    assert call(capsys, "--no-such", "group", "list").code == 2
    assert call(capsys, "check", "G", "-o", "json", "--every", "x").error["exitCode"] == 3


@pytest.mark.parametrize("form", OWN_FORMATS)
def test_a_dead_cluster_is_a_result_in_every_format(form: str, capsys: Captured) -> None:
    result = call(capsys, "check", "G", "--max-lag", "1", "-n", closed_address(), "-o", form)
    assert (result.code, result.err) == (3, "")
    assert "3.0" in result.out if form == "prometheus" else "connection refused" in result.out


@pytest.mark.parametrize("state", HIDING)
def test_a_missing_broker_is_unknown_unless_the_rest_exceeds_the_limit(
    state: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with standing(state, V5_4_0, capsys, monkeypatch):
        low = call(capsys, "check", "G", "--max-lag", "100", "-o", "json")
        high = call(capsys, "check", "G", "--max-lag", "5")
    lag, cluster = _items(low)
    assert (low.code, lag["status"], lag["value"], lag["valueAtLeast"]) == (3, "UNKNOWN", None, 6)
    assert (cluster["group"], cluster["limit"], cluster["status"]) == (None, "reading", "UNKNOWN")
    assert "broker-b" in cluster["sentence"]
    assert (high.code, "lag at least 6: " in high.out, "broker-b" in high.out) == (2, True, True)


def test_a_missing_permission_is_unknown_and_ends_the_wait(capsys: Captured) -> None:
    with seeded() as sandbox:
        sandbox.faults.answer(Q.GET_CONSUME_STATS, R.NO_PERMISSION, remark="no right", count=None)
        result = call(capsys, "check", "G", "--max-lag", "1", "--wait", "1h", "-n", sandbox.addr)
    assert result.code == 3
    assert result.out.startswith("UNKNOWN G: ")


def test_a_gate_opens_when_the_members_have_come(capsys: Captured) -> None:
    words = ("check", "warehouse", "--min-members", "2", "--every", "100ms")
    with ThreadedSandbox() as sandbox:
        closed = call(capsys, *words, "--wait", "1ms", "-n", sandbox.addr)
        assert closed.code == 3
        assert closed.out.startswith("UNKNOWN warehouse: ")
        coming = threading.Timer(1, lambda: sandbox.run(SCENARIOS["healthy"].run(sandbox.sandbox)))
        coming.start()
        opened = call(capsys, *words, "--wait", "5m", "--stable-for", "200ms", "-n", sandbox.addr)
        coming.join()
    assert (opened.code, opened.out.count("\n")) == (0, 1)
    assert opened.out.startswith("OK warehouse: 2 members (min 2); stable for ")
    assert "Z warehouse: " in opened.err
    assert "Waiting for up to 4m" in opened.err


def test_without_wait_a_limit_that_is_not_met_ends_the_watch(check: Any) -> None:
    result = check("warehouse", "--min-members", "3", "--stable-for", "1h")
    assert (result.code, "not stable: a limit was not met" in result.out) == (2, True)
    assert check("warehouse", "--min-members", "2", "--stable-for", "100ms", "--every", "50ms").code == 0
