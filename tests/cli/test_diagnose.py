"""rmqctl diagnose, from the words to the exit code."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from rmqctl.cli.diagnose import run as diagnose
from rmqctl.cli.diagnose.page import render_page
from rmqctl.cli.output.display import Display
from rmqctl.cli.output.render import render
from rmqctl.diagnose.diagnosis import DiagnosisRound, compare_rounds, diagnose_groups
from rmqctl.diagnose.finding import Severity
from rmqctl.diagnose.table import CHECKS
from rmqctl.protocol.codes import RequestCode as Q
from tests.admin.cluster import HOUR_MS
from tests.cli.calls import call
from tests.cli.group.groups import ask
from tests.cli.output.test_rich_table import _on_a_terminal
from tests.cli.scripted_server import Serve, served
from tests.diagnose.groups import at_a, both, healthy, look, member, members, second_group, sick
from tests.schemas import check_document
from tests.scripted_peer import SILENCE, Late

Captured = pytest.CaptureFixture[str]


def _show(
    found: DiagnosisRound, capsys: Captured, *, least: Severity | None = None, **display: Any
) -> tuple[int, str, str]:
    capsys.readouterr()
    code = render(diagnose.to_listing(found, CHECKS, least=least), Display(**{"format": "plain", **display}))
    told = capsys.readouterr()
    return code, told.out, told.err


def _moving() -> DiagnosisRound:
    return look(sick(members(c1=member("a0", "a1"), c2=member("b0"))))


@pytest.mark.parametrize(
    "found",
    [
        look(healthy()),
        look(sick(members(c1=member("a0", "a1", consumeTimeout="1"), c2=SILENCE))),
        look(sick(at_a(lambda broker: broker.configured.clear()))),
        _moving(),
        compare_rounds(_moving(), look(healthy())),
        look(sick(members(c1=member(), c2=member("b0", "b1", skew_ms=HOUR_MS)))),
        look(healthy(), "G", "nosuch"),
    ],
    ids=["healthy", "silent", "no configuration", "one look", "passed", "clocks", "not read"],
)
def test_documents_are_as_their_schema_says_and_every_null_has_its_reason(
    found: DiagnosisRound, capsys: Captured
) -> None:
    _, out, _ = _show(found, capsys, format="json")
    document = json.loads(out)
    check_document(document)
    clocks = [clock for group in document["groups"] for clock in group["clocks"]]
    for part in (*document["items"], *document["groups"], *clocks):
        assert {key for key, value in part.items() if value is None} == set(part["reasons"])


def test_a_healthy_group_is_said_to_be_so(capsys: Captured) -> None:
    code, out, err = _show(look(healthy()), capsys)
    assert (code, err) == (0, f"Nothing found in G by {len(CHECKS)} checks.\n")
    assert not out.strip()


def test_where_clocks_are_is_said_when_one_of_them_is_off(capsys: Captured) -> None:
    off = members(c1=member("a0", "a1"), c2=member("b0", "b1", skew_ms=HOUR_MS))
    _, out, err = _show(look(sick(off)), capsys)
    assert "c2" in out
    assert "broker-a +0.000 s ± 1 ms, broker-b +0.000 s ± 1 ms, c1 -5.001 s to +" in err


def test_a_fact_about_a_broker_is_one_row_and_an_item_of_each_group(capsys: Captured) -> None:
    found = look(sick(both(second_group, at_a(lambda broker: setattr(broker, "skew_ms", -90_000)))), "*")
    capsys.readouterr()
    listing = diagnose.to_listing(found, CHECKS, is_many=True)
    render(listing, Display(format="plain"))
    told = capsys.readouterr()
    assert [line.split()[:4] for line in told.out.splitlines()[1:]] == [["WARNING", "CLK001", "2", "groups"]]
    assert "1 WARNING in 2 groups" in told.err
    render(listing, Display(format="json"))
    items = json.loads(capsys.readouterr().out)["items"]
    assert [(each["code"], each["group"]) for each in items] == [("CLK001", "G"), ("CLK001", "H")]


def _beyond_the_deadline() -> DiagnosisRound:
    """Look at 30 groups of a cluster that answers too slowly for all of them."""
    cluster = healthy()
    for broker in cluster.brokers.values():
        for number in range(30):
            broker.configured.add(f"g{number:02}")
            broker.offsets[f"g{number:02}"] = {"T": {0: 100, 1: 100}}
    for server in cluster.servers.values():
        server.table[Q.GET_CONSUME_STATS] = Late(3.0, server.table[Q.GET_CONSUME_STATS])
    return ask(cluster, lambda client: diagnose_groups(client, ["*"], (), CHECKS))


def test_each_group_beyond_the_deadline_is_named_as_not_read(capsys: Captured) -> None:
    found = _beyond_the_deadline()
    read = [one.facts.group for one in found.diagnoses]
    assert read
    assert found.unread
    assert sorted([*read, *found.unread]) == ["G", *(f"g{number:02}" for number in range(30))]
    code, out, _ = _show(found, capsys, format="json")
    assert code == 8
    entries = {each["group"]: each for each in json.loads(out)["groups"]}
    assert entries.keys() == {*read, *found.unread}
    for group in found.unread:
        entry = entries[group]
        assert (entry["state"], entry["findingCount"], entry["readingCount"]) == ("UNKNOWN", None, 0)
        assert (len(entry["unknown"][0]["codes"]), bool(entry["unknown"][0]["reason"])) == (len(CHECKS), True)
    _, _, err = _show(found, capsys)
    assert f"{len(found.unread)} groups were not read: {sorted(found.unread)[0]}, " in err
    assert f"{len(found.unread)} groups were not read" in render_page(found, CHECKS)


def test_what_was_not_seen_is_named_and_the_exit_code_says_it(capsys: Captured) -> None:
    code, _, err = _show(look(sick(members(c1=member("a0", "a1"), c2=SILENCE))), capsys)
    assert code == 8
    assert " inconclusive: c2 did not answer (" in err
    assert "running info of c2" in err


def test_what_passed_is_told_apart_from_what_stays(capsys: Captured) -> None:
    _, out, err = _show(compare_rounds(_moving(), look(healthy())), capsys)
    assert not out.strip()
    assert "G: ALO002, ALO003 were seen in only one of two readings" in err


def test_severity_hides_rows_and_says_how_many(capsys: Captured) -> None:
    found = look(sick(members(c1=member("a0", "a1", consumeTimeout="1"), c2=SILENCE)))
    _, out, err = _show(found, capsys, least=Severity.ERROR)
    assert "MEM009" not in out
    assert "1 not shown (--severity)" in err


@pytest.fixture
def unbalanced(serve: Serve) -> None:
    """Serve a group with an ERROR that may pass and a WARNING that cannot."""
    holds = members(c1=member("a0", "a1", consumeTimeout="1"), c2=member("b0"))
    serve(sick(holds))


@pytest.mark.usefixtures("unbalanced")
@pytest.mark.parametrize(
    ("words", "code", "found"),
    [
        ([], 0, {"ALO002", "ALO003", "MEM006"}),
        (["--fail-on", "error"], 1, {"ALO002", "ALO003", "MEM006"}),
        (["--fail-on", "error", "--only", "MEM"], 0, {"MEM006"}),
        (["--fail-on", "warning", "--only", "mem006,ALO002"], 1, {"ALO002", "MEM006"}),
        (["--fail-on", "warning", "--severity", "error"], 1, {"ALO002", "ALO003"}),
    ],
)
def test_the_exit_code_is_1_only_where_it_was_asked_for(
    words: list[str], code: int, found: set[str], capsys: Captured
) -> None:
    result = call(capsys, "diagnose", "G", "--for", "0s", "--settle", "0s", "-o", "json", *words)
    document = json.loads(result.out)
    check_document(document)
    assert (result.code, {item["code"] for item in document["items"]}) == (code, found)
    assert {item["isConfirmed"] for item in document["items"] if item["code"] == "ALO002"} <= {False}


@pytest.mark.usefixtures("unbalanced")
def test_the_second_look_comes_after_the_time_to_settle(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    result = call(capsys, "diagnose", "--all", "--for", "0s", "--settle", "40s", "-o", "json")
    assert waits == [40]
    (group,) = json.loads(result.out)["groups"]
    assert (group["readingCount"], group["passedCodes"]) == (2, [])
    assert all(item["isConfirmed"] for item in json.loads(result.out)["items"])
    assert "reading again in 40 s" in result.err


@pytest.mark.usefixtures("unbalanced")
def test_ctrl_c_while_it_waits_shows_the_first_look(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    result = call(capsys, "diagnose", "G", "--for", "0s")
    assert result.code == 0
    assert "ALO003" in result.out
    assert "G: ALO002, ALO003 were seen only once" in result.err


@pytest.mark.usefixtures("unbalanced")
@pytest.mark.parametrize("width", [80, 200])
def test_it_fits_a_terminal(width: int) -> None:
    words = ("diagnose", "G", "--for", "0s", "--settle", "0s")
    text = _on_a_terminal(*words, COLUMNS=str(width), NAMESRV_ADDR=os.environ["NAMESRV_ADDR"])
    assert "ALO003" in text
    assert all(len(re.sub(r"\x1b\[[0-9;]*m", "", line.rstrip())) <= width for line in text.split("\n"))


@pytest.mark.usefixtures("unbalanced")
@pytest.mark.parametrize("words", [[], ["-o", "json"], ["-q", "--severity", "error", "--fail-on", "warning"]])
def test_a_page_is_written_beside_the_output(words: list[str], capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "pages" / "page.html"
    path.parent.mkdir()
    plain = call(capsys, "diagnose", "G", "--for", "0s", "--settle", "0s", *words)
    for _ in range(2):  # the second replaces the first
        result = call(capsys, "diagnose", "G", "--for", "0s", "--settle", "0s", "--html", str(path), *words)
        assert result.code == plain.code
        assert "ALO003" in result.out
        assert "ALO003" in path.read_text()
    assert (f"Written to {path}." in result.err) is ("-q" not in words)
    assert list(path.parent.iterdir()) == [path]
    assert os.environ["NAMESRV_ADDR"] in path.read_text()


@pytest.mark.usefixtures("unbalanced")
def test_a_page_that_cannot_be_written_leaves_the_table(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    path = tmp_path / "pages" / "page.html"
    path.parent.mkdir()
    result = call(capsys, "diagnose", "G", "--for", "0s", "--settle", "0s", "--html", str(path))
    assert result.code == 1
    assert "ALO003" in result.out
    assert "no space left" in result.err
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ([], "--all"),
        (["G", "--all"], "--all"),
        (["G", "--severity", "bad"], "error, warning, info"),
        (["G", "--fail-on", "bad"], "error, warning, info"),
        (["G", "--only", "SUB01"], "SUB001"),
        (["G", "--only", ","], ""),
        (["G", "--for", "soon"], ""),
        (["G", "--for", "0s", "--only", "SKW003"], "--for"),
        (["G", "--settle", "-1s"], ""),
        (["G", "--proxy", "here"], "host:port"),
        (["G", "--html", "gone/page.html"], "folder"),
        (["G", "--html", "."], "folder"),
    ],
)
def test_wrong_words_are_usage_errors(words: list[str], hint: str, capsys: Captured) -> None:
    result = call(capsys, "diagnose", *words, "-n", "127.0.0.1:1")
    assert result.code == 2
    assert hint in result.err


@pytest.mark.parametrize(
    ("words", "silent"), [([], "127.0.0.1:1"), (["--proxy", "127.0.0.1:2"], "127.0.0.1:2")], ids=["context", "option"]
)
def test_a_context_can_name_the_proxies_to_ask(
    words: list[str], silent: str, config_file: Path, capsys: Captured
) -> None:
    with served(healthy()) as address:
        config_file.write_text(f'[contexts.c]\nnamesrv = "{address}"\nproxies = "127.0.0.1:1"\n')
        result = call(capsys, "diagnose", "G", "--context", "c", "--for", "0s", "-o", "json", *words)
    assert result.code == 8
    assert [error["what"] for error in json.loads(result.out)["errors"]] == [f"members at the proxy {silent}"]


def test_explain_knows_every_check_and_those_of_a_subject(capsys: Captured) -> None:
    for check in CHECKS:
        result = call(capsys, "explain", check.code.lower())
        assert (result.code, result.out.splitlines()[0]) == (0, f"{check.code} {check.title} (finding)")
    document = json.loads(call(capsys, "explain", "SUB", "-o", "json").out)
    check_document(document)
    assert [item["code"] for item in document["items"]] == [c.code for c in CHECKS if c.code.startswith("SUB")]
    assert "SUB001" in call(capsys, "explain", "SUB0O1").err


_PLUGIN = """
from rmqctl.plugin import Severity, Symptom, check, hookimpl

@check("ACME001", Severity.WARNING, "a name without a team", meaning="Nobody owns it.", advice="Rename it.", needs=())
def named(facts):
    if "-" not in facts.group:
        yield Symptom(f"{facts.group} names no team.")

@hookimpl
def rmqctl_checks():
    return {"ACME001": named}
"""


def test_a_plugins_check_can_be_explained(capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "acme.py"
    path.write_text(_PLUGIN)
    monkeypatch.setenv("RMQCTL_PLUGINS", str(path))
    assert call(capsys, "explain", "ACME001").out.startswith("ACME001 a name without a team (finding)")
    listed = json.loads(call(capsys, "plugin", "list", "-o", "json").out)["items"]
    assert [item["checks"] for item in listed if item["plugin"] == "acme"] == [["ACME001"]]
