"""rmqctl doctor: the installation, the configuration, and the way to a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rmqctl.cli.doctor.installation import fetch_installation_findings
from rmqctl.model.check_result import CheckResult, Status
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.cli.scripted_server import served
from tests.scripted_peer import ok, refused

from .calls import call, closed_address

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/zsh")
    monkeypatch.delenv("RMQCTL_CONTEXT", raising=False)
    return tmp_path


def _items(capsys: Captured, *argv: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    result = call(capsys, "doctor", "-o", "json", *argv)
    by_check: dict[str, list[dict[str, Any]]] = {}
    for item in json.loads(result.out)["items"]:
        by_check.setdefault(item["check"], []).append(item)
    return result.code, by_check


def _of(findings: list[CheckResult], check: str) -> CheckResult:
    return next(finding for finding in findings if finding.check == check)


def test_without_a_cluster_the_installation_is_checked_and_that_is_said(capsys: Captured) -> None:
    code, items = _items(capsys)
    assert code == 0
    assert "Python 3." in items["program"][0]["found"]
    assert items["libraries"][0]["measured"]["versions"]["typer"].startswith("0.")
    assert items["configuration"][0]["found"] == "no configuration file"
    assert (items["cluster"][0]["status"], items["cluster"][0]["found"]) == (
        "WARN",
        "no name server is given, so no cluster was checked",
    )


def test_a_configuration_that_others_can_write_and_keys_that_others_can_read_are_warnings(
    config_file: Path, home: Path
) -> None:
    (home / "keys").write_text("accessKey: a\nsecretKey: s3cret\n")
    (home / "keys").chmod(0o644)
    config_file.write_text('[contexts.c]\ncredentials = "keys"\n')
    config_file.chmod(0o666)
    findings = fetch_installation_findings(config_file)
    assert _of(findings, "configuration").status is Status.WARN
    credentials = _of(findings, "credentials")
    assert (credentials.status, credentials.found) == (Status.WARN, f"{home}/keys is accessible to other users (0644)")
    (home / "keys").chmod(0o600)
    config_file.chmod(0o600)
    findings = fetch_installation_findings(config_file)
    assert {_of(findings, check).status for check in ("configuration", "credentials")} == {Status.OK}
    assert "s3cret" not in str(findings)


@pytest.mark.parametrize(
    ("text", "check", "found"),
    [
        ("x = [", "configuration", "is not valid TOML"),
        ('current-context = "gone"\n', "context", "the current context gone does not exist"),
        ("[contexts.c]\nnamserv = 5", "context", "unknown setting 'namserv' in context c"),
        ('[contexts.c]\ncredentials = "gone"', "context", "gone: no such file or directory"),
        ('[contexts.c]\ncredentials = "config.toml"', "context", "Line 1 of the credentials file"),
    ],
)
def test_a_broken_configuration_is_a_failure_and_no_error(
    text: str, check: str, found: str, config_file: Path, capsys: Captured
) -> None:
    config_file.write_text(text)
    code, items = _items(capsys)
    assert code in (1, 2)
    failed = [item for item in items[check] if item["status"] == "FAIL"]
    assert found in failed[0]["found"]
    assert items["program"][0]["status"] == "OK"


def test_completion_is_found_where_shells_look(home: Path, monkeypatch: pytest.MonkeyPatch, config_file: Path) -> None:
    assert _of(fetch_installation_findings(config_file), "completion").status is Status.WARN
    (home / ".zshrc").write_text("source <(rmqctl completion zsh)\n")
    assert _of(fetch_installation_findings(config_file), "completion").status is Status.OK
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    (home / ".config/fish/completions").mkdir(parents=True)
    assert _of(fetch_installation_findings(config_file), "completion").status is Status.WARN
    (home / ".config/fish/completions/rmqctl.fish").touch()
    assert _of(fetch_installation_findings(config_file), "completion").status is Status.OK
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert _of(fetch_installation_findings(config_file), "completion").found == "the shell is tcsh"


def _cluster() -> Cluster:
    cluster = Cluster(BrokerState("broker-a", topics={"SELF_TEST_TOPIC": [Queue()]}))
    cluster.servers["broker-a"].table[Q.GET_ALL_TOPIC_CONFIG] = ok(b'{"topicConfigTable":{}}')
    return cluster


def test_a_cluster_is_checked_server_by_server(capsys: Captured) -> None:
    with served(_cluster()) as name_server:
        code, items = _items(capsys, "-n", name_server)
        result = call(capsys, "doctor", "-n", name_server)
    assert code == 0
    assert {item["status"] for check in ("name server", "broker", "rights", "TLS") for item in items[check]} == {"OK"}
    # The scripted broker's clock stands in the year 2027: a warning, which is no failure.
    (clock,) = items["clock"]
    assert clock["status"] == "WARN"
    assert clock["measured"]["skewLowMs"] > 1_000
    assert result.out.splitlines()[0].split() == ["STATUS", "CHECK", "SUBJECT", "FOUND", "HINT"]
    assert result.err.endswith("UNKNOWN.\n") or result.err.endswith("WARN.\n") or " OK" in result.err


def test_the_exit_code_tells_what_failed(capsys: Captured) -> None:
    cluster = _cluster()
    with served(cluster) as name_server:
        assert _items(capsys, "-n", f"{name_server};{closed_address()}")[0] == 6
        table = cluster.servers["broker-a"].table
        unsigned = refused(R.NO_PERMISSION, "username cannot be null.")
        table.update(dict.fromkeys((*table, Q.GET_BROKER_CLUSTER_INFO, Q.PULL_MESSAGE), unsigned))
        assert _items(capsys, "-n", name_server)[0] == 4
        assert _items(capsys, "-n", f"{name_server};{closed_address()}")[0] == 4
    code, items = _items(capsys, "-n", closed_address(), "--tls-ca", "/no/such")
    assert (code, items["connection"][0]["status"]) == (1, "FAIL")
    assert "/no/such" in items["connection"][0]["found"]


def test_rows_can_be_filtered(capsys: Captured) -> None:
    result = call(capsys, "doctor", "--where", "status!=OK", "-o", "name")
    assert result.out.split(":")[0] == "completion"


def test_a_broker_without_a_master_is_a_failure(capsys: Captured) -> None:
    cluster = Cluster(BrokerState("broker-a"))
    with served(cluster) as address:
        at = cluster.addresses["broker-a"].encode()
        cluster.name_server.table[Q.GET_BROKER_CLUSTER_INFO] = ok(
            b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{1:"%b"},"brokerName":"broker-a","cluster":"C"}}}' % at
        )
        code, items = _items(capsys, "-n", address)
    (finding,) = items["brokers"]
    assert (code, finding["status"], finding["subject"]) == (6, "FAIL", "broker-a")
    assert finding["found"] == "no master is registered"


def test_a_broker_that_says_it_is_another_one_is_a_failure(capsys: Captured) -> None:
    cluster = Cluster(BrokerState("broker-a"), BrokerState("broker-b"))
    with served(cluster) as address:
        assert "broker names" not in _items(capsys, "-n", address)[1]
        cluster.addresses["broker-b"] = cluster.addresses["broker-a"]
        code, items = _items(capsys, "-n", address)
        said = [item["found"] for item in items["broker names"] if item["subject"].startswith("broker-b/0")]
    assert (code, {item["status"] for item in items["broker names"]}) == (1, {"FAIL"})
    assert len(said) == 1
    assert "broker-a" in said[0]


def test_the_format_of_a_context_counts_once_it_can_be_read(config_file: Path, capsys: Captured) -> None:
    config_file.write_text(f'[contexts.c]\nnamesrv = "{closed_address()}"\noutput = "json"\n')
    assert json.loads(call(capsys, "doctor", "--context", "c").out)["kind"] == "Doctor"
    config_file.write_text('[contexts.c]\nnamesrv = "h:1"\noutput = "nope"\n')
    broken = call(capsys, "doctor", "--context", "c")
    assert (broken.code, "Invalid output format 'nope'" in broken.out) == (1, True)
