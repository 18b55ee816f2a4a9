"""rmqctl plugin list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calls import Result, call
from tests.plugin.test_sources import install

Captured = pytest.CaptureFixture[str]
SHIPPED = Path(__file__).parent.parent.parent.parent / "plugins"
_HEAD = "from rmqctl.plugin import hookimpl\n"
_STRATEGY = _HEAD + "@hookimpl\ndef rmqctl_strategies():\n    return {'mine': lambda *_: {}}\n"


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RMQCTL_PLUGINS", raising=False)


def _file(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def _list(capsys: Captured, *files: str) -> tuple[Result, dict[str, Any]]:
    words = [word for file in files for word in ("--plugin", file)]
    result = call(capsys, "plugin", "list", *words, "-o", "json")
    return result, json.loads(result.out)


def _rows(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["plugin"]: item for item in document["items"]}


def test_rmqctls_own_are_there_without_any(capsys: Captured) -> None:
    result = call(capsys, "plugin", "list")
    assert (result.code, result.err) == (0, "")
    assert [line.split() for line in result.out.splitlines()] == [
        ["PLUGIN", "FROM", "CODECS", "STRATEGIES", "RESOLVERS", "TRANSFORMS", "CHECKS", "NOTIFIERS", "STATE"],
        ["rmqctl", "built", "in", "base64,msgpack", "-", "-", "-", "-", "-", "OK"],
    ]


def test_the_shipped_ones_tell_what_they_bring(capsys: Captured) -> None:
    result, document = _list(capsys, *(str(path) for path in sorted(SHIPPED.glob("*.py"))))
    assert (result.code, document["kind"], document["errors"]) == (0, "PluginList", [])
    rows = _rows(document)
    assert rows["gzip_json"]["codecs"] == ["gzip-json"]
    assert rows["rooms_first"] == {
        "plugin": "rooms_first",
        "origin": "FILE",
        "distribution": None,
        "version": None,
        "path": str((SHIPPED / "rooms_first.py").resolve()),
        "hooks": ["rmqctl_strategies", "rmqctl_site_resolvers"],
        "codecs": [],
        "strategies": ["rooms-first"],
        "siteResolvers": ["zone-suffix"],
        "transforms": [],
        "checks": [],
        "notifiers": [],
        "takesOver": [],
        "state": "OK",
        "error": None,
        "reasons": {},
    }


def test_installed_ones_and_those_of_the_variable_are_there(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "acme", "acme_of_test_list")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("RMQCTL_PLUGINS", _file(tmp_path, "mine.py", _STRATEGY))
    result = call(capsys, "plugin", "list")
    assert result.code == 0
    assert "acme-point  acme 1.2" in result.out
    rows = _rows(_list(capsys)[1])
    assert (rows["acme-point"]["origin"], rows["acme-point"]["version"]) == ("INSTALLED", "1.2")
    assert rows["mine"]["strategies"] == ["mine"]


def test_one_that_fails_keeps_its_row_and_hides_no_other(capsys: Captured, tmp_path: Path) -> None:
    broken = _file(tmp_path, "broken.py", "raise SystemExit(0)")
    half = _file(tmp_path, "half.py", f"{_STRATEGY}@hookimpl\ndef rmqctl_body_codecs():\n    1 / 0\n")
    fine = _file(tmp_path, "fine.py", _STRATEGY.replace("mine", "fine"))
    gone = str(tmp_path / "gone.py")
    result, document = _list(capsys, broken, half, gone, fine)
    assert result.code == 8
    rows = _rows(document)
    assert {name: row["state"] for name, row in rows.items()} == {
        "rmqctl": "OK", "broken": "FAILED", "half": "FAILED", "gone": "FAILED", "fine": "OK",
    }  # fmt: skip
    kinds = ("hooks", "codecs", "strategies", "siteResolvers", "transforms", "checks", "notifiers")
    assert rows["broken"]["error"].endswith(f"plugin {broken}: SystemExit: 0.")
    assert rows["broken"]["reasons"] == dict.fromkeys(kinds, "NOT_LOADED")
    assert [rows["broken"][key] for key in kinds] == [None] * len(kinds)
    assert rows["half"]["error"].startswith(f"Plugin {half} failed: ZeroDivisionError")
    assert (rows["half"]["codecs"], rows["half"]["strategies"]) == (None, ["mine"])
    assert rows["half"]["reasons"] == {"codecs": "HOOK_FAILED"}
    assert rows["gone"]["error"] == f"Plugin file {gone!r} does not exist."
    assert [error["what"] for error in document["errors"]] == ["plugin broken", "plugin half", "plugin gone"]
    assert [error["name"] for error in document["errors"]] == ["PLUGIN", "PLUGIN", "USAGE"]


def test_a_failure_is_told_beside_the_table_even_with_q(capsys: Captured, tmp_path: Path) -> None:
    broken = _file(tmp_path, "broken.py", "1 / 0")
    result = call(capsys, "plugin", "list", "-q", "--plugin", broken)
    assert result.code == 8
    assert "FAILED" in result.out
    assert "plugin broken: " in result.err
    assert result.err.endswith(f"plugin {broken}: ZeroDivisionError: division by zero.\n")
    assert len(result.err.splitlines()) == 1


def test_plugins_with_one_name_all_fail_and_are_told_once(capsys: Captured, tmp_path: Path) -> None:
    files = [_file(tmp_path, f"{name}.py", _STRATEGY) for name in ("one", "two", "three")]
    result, document = _list(capsys, *files)
    assert result.code == 8
    rows = _rows(document)
    sentence = rows["one"]["error"]
    assert sentence.startswith(f"{files[0]}, {files[1]} and {files[2]} ")
    assert "strategy 'mine'" in sentence
    for name in ("one", "two", "three"):
        assert (rows[name]["state"], rows[name]["error"]) == ("FAILED", sentence)
        assert rows[name]["strategies"] == ["mine"]
    assert rows["rmqctl"]["state"] == "OK"
    assert [(error["what"], error["message"]) for error in document["errors"]] == [("plugins", sentence)]


def test_names_of_rmqctls_own_that_are_taken_over_are_told(capsys: Captured, tmp_path: Path) -> None:
    text = _STRATEGY.replace("mine", "averagely")
    text += "@hookimpl\ndef rmqctl_body_codecs():\n    return {'base64': len, 'hex64': len}\n"
    result, document = _list(capsys, _file(tmp_path, "mine.py", text))
    assert result.code == 0
    assert _rows(document)["mine"]["takesOver"] == ["codec base64", "strategy averagely"]
    assert _rows(document)["rmqctl"]["takesOver"] == []


def test_a_file_without_hooks_gets_a_note(capsys: Captured, tmp_path: Path) -> None:
    file = _file(tmp_path, "mine.py", "def rmqctl_strategies():\n    return {}\n")
    result = call(capsys, "plugin", "list", "--plugin", file)
    assert (result.code, result.err) == (0, f"{file} implements no hook: is hookimpl missing?\n")
    assert call(capsys, "plugin", "list", "--plugin", file, "-o", "jsonl").err == ""


def test_hostile_names_can_not_hurt_the_terminal(capsys: Captured, tmp_path: Path) -> None:
    file = _file(tmp_path, "mine.py", _STRATEGY.replace("'mine'", r"'a\x1b[31m\nb'"))
    for output in ("table", "wide", "json", "csv", "yaml"):
        result = call(capsys, "plugin", "list", "--plugin", file, "-o", output)
        assert result.code == 0
        assert "\x1b" not in result.out
    assert len(call(capsys, "plugin", "list", "--plugin", file).out.splitlines()) == 3


def test_listing_options_work_as_everywhere(capsys: Captured) -> None:
    words = ["plugin", "list", "--plugin", str(SHIPPED / "rooms_first.py")]
    assert call(capsys, *words, "-o", "name").out.split() == ["rmqctl", "rooms_first"]
    assert call(capsys, *words, "--columns", "plugin,strategies", "-o", "csv").out.splitlines() == [
        "plugin,strategies", "rmqctl,", "rooms_first,rooms-first",
    ]  # fmt: skip
    assert call(capsys, *words, "--where", "origin=FILE", "-o", "name").out.split() == ["rooms_first"]
    assert call(capsys, *words, "--columns", "strategys").code == 2
