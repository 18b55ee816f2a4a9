"""Contexts of the configuration file: shown, made, changed, deleted, tried."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rmqctl.cli.config import edit as config_edit
from rmqctl.cli.config.edit import change_config
from rmqctl.cli.globals import FORMATS
from rmqctl.errors import RmqctlError, UsageError
from tests.admin.cluster import BrokerState, Cluster
from tests.cli.calls import call, closed_address, spawn
from tests.cli.scripted_server import Serve, served

Captured = pytest.CaptureFixture[str]

_FILE = """# our clusters
current-context = "prod"  # careful

[contexts.prod]
namesrv = "p:1" # the old ones
credentials = "keys"
protected = true
[contexts.prod.tls]
ca = "ca.pem"
[contexts.prod.map-address]
broker-a = "h:1"

# for tests
[contexts.dev]
namesrv = "http://user:s3cret@h/x?token=s3cret"
"""


@pytest.fixture
def file(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("RMQCTL_CONTEXT", raising=False)
    config_file.write_text(_FILE)
    return config_file


def _contexts(file: Path) -> dict[str, Any]:
    contexts: dict[str, Any] = tomllib.loads(file.read_text())["contexts"]
    return contexts


# list and show


def test_list_has_a_row_a_context_and_marks_the_current_one(file: Path, capsys: Captured) -> None:
    result = call(capsys, "context", "list", "-o", "json")
    assert result.code == 0
    items = {item["context"]: item for item in json.loads(result.out)["items"]}
    assert [(name, item["isCurrent"], item["protected"]) for name, item in items.items()] == [
        ("prod", True, True),
        ("dev", False, False),
    ]
    assert items["prod"]["credentials"] == str(file.parent / "keys")
    assert items["prod"]["tls"] == {"ca": str(file.parent / "ca.pem"), "cert": None, "key": None, "verify": "full"}
    assert items["prod"]["mapAddress"] == {"broker-a": "h:1"}
    assert items["dev"]["tls"] is None
    assert call(capsys, "context", "list", "-o", "name").out == "prod\ndev\n"


@pytest.mark.parametrize("form", sorted({*FORMATS} - {"name"}))
@pytest.mark.parametrize("words", [("list",), ("show", "dev")])
def test_no_secret_of_a_url_is_shown(form: str, words: tuple[str, ...], file: Path, capsys: Captured) -> None:
    result = call(capsys, "context", *words, "-o", form)
    assert result.code == 0
    assert "http://h/x" in result.out
    assert "s3cret" not in result.out + result.err


def test_a_broken_context_keeps_its_row_and_hides_no_other(file: Path, capsys: Captured) -> None:
    file.write_text(f"{_FILE}\n[contexts.bad]\nnamserv = 5\n")
    result = call(capsys, "context", "list", "-o", "json")
    assert result.code == 8
    document = json.loads(result.out)
    assert [(item["context"], item["error"]) for item in document["items"]] == [
        *(("prod", None), ("dev", None), ("bad", "USAGE")),
    ]
    assert "unknown setting 'namserv' in context bad" in document["errors"][0]["message"]


def test_without_contexts_list_says_how_to_make_one(config_file: Path, capsys: Captured) -> None:
    result = call(capsys, "context", "list")
    assert (result.code, result.out) == (0, "")
    assert "rmqctl context set NAME namesrv=HOST:9876." in result.err


def test_what_stands_above_the_current_context_is_noted(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "e:1")
    assert "NAMESRV_ADDR is set and overrides" in call(capsys, "context", "list").err
    assert call(capsys, "context", "list", "-q").err == ""


def test_show_takes_the_current_context_unless_one_is_named(file: Path, capsys: Captured) -> None:
    out = call(capsys, "context", "show").out
    for line in ("Context         prod", f"Credentials     {file.parent}/keys", "Reach broker-a  at h:1"):
        assert line in out
    assert "dev" in call(capsys, "context", "show", "dev").out
    result = call(capsys, "context", "show", "prdo")
    assert (result.code, "Did you mean prod?" in result.err) == (5, True)
    file.write_text("")
    assert call(capsys, "context", "show").code == 2


# use, set, delete


def test_use_changes_the_current_context_and_nothing_else(file: Path, capsys: Captured) -> None:
    assert call(capsys, "context", "use", "dev").code == 0
    assert file.read_text() == _FILE.replace('"prod"  # careful', '"dev"  # careful')
    assert call(capsys, "context", "use", "gone").code == 5
    assert file.read_text() == _FILE.replace('"prod"  # careful', '"dev"  # careful')


def test_set_keeps_comments_and_order(file: Path, capsys: Captured) -> None:
    result = call(capsys, "context", "set", "prod", "timeout=20s", "tls.verify=ca", "namesrv=q:1;r:1")
    assert (result.code, result.out) == (0, "")
    assert f"context prod in {file}." in result.err
    expected = _FILE.replace('"p:1" #', '"q:1;r:1" #').replace(
        "protected = true\n", 'protected = true\ntimeout = "20s"\n'
    )
    expected = expected.replace('ca = "ca.pem"\n', 'ca = "ca.pem"\nverify = "ca"\n')
    changed = file.read_text()
    assert tomllib.loads(changed) == tomllib.loads(expected)
    for comment in ("# our clusters", "# careful", "# the old ones", "# for tests"):
        assert changed.count(comment) == 1
    assert changed.index("[contexts.prod]") < changed.index("timeout") < changed.index("[contexts.prod.tls]")


def test_set_makes_a_context_and_a_file_for_the_user_alone(config_file: Path, capsys: Captured) -> None:
    new = config_file.parent / "new" / "config.toml"
    os.environ["RMQCTL_CONFIG"] = str(new)
    result = call(
        capsys,
        *("context", "set", "a.b", "namesrv=a:1", "readonly=true", "tls=true", "map-address.10.0.0.1:10911=h:1"),
        *("map-address.broker-a/1=h:2", "description=ours = mine", "header=rocketmq", "output=wide"),
    )
    assert result.code == 0, result.err
    assert f"context a.b in {new}." in result.err
    assert new.stat().st_mode & 0o777 == 0o600
    assert _contexts(new)["a.b"] == {
        "namesrv": "a:1",
        "readonly": True,
        "tls": {},
        "map-address": {"10.0.0.1:10911": "h:1", "broker-a/1": "h:2"},
        "description": "ours = mine",
        "header": "rocketmq",
        "output": "wide",
    }
    assert call(capsys, "context", "show", "a.b", "-o", "json").code == 0


@pytest.mark.parametrize("setting", ["map-address.b1=h:4", "tls.ca="])
def test_a_file_in_which_other_settings_would_not_stay_is_left_alone(
    setting: str, config_file: Path, capsys: Captured
) -> None:
    # tomlkit makes a table of the first in the middle of the others, and drops the last setting's table.
    text = 'contexts.a.namesrv = "h:1"\ncontexts.a.tls.ca = "x"\ncontexts.b.namesrv = "h:2"\n'
    config_file.write_text(text)
    result = call(capsys, "context", "set", "a", setting)
    assert result.code == 1
    assert "other settings" in result.err
    assert config_file.read_text() == text


def test_an_empty_value_takes_a_setting_away(file: Path, capsys: Captured) -> None:
    words = ("protected=", "credentials=", "tls.ca=", "map-address.broker-a=", "timeout=", "tls.key=")
    assert call(capsys, "context", "set", "prod", *words).code == 0
    assert _contexts(file)["prod"] == {"namesrv": "p:1", "tls": {}, "map-address": {}}
    assert call(capsys, "context", "set", "prod", "tls=false", "map-address=").code == 0
    assert _contexts(file)["prod"] == {"namesrv": "p:1"}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("tiemout=5s", "Unknown setting 'tiemout'."),
        ("zzz=1", "Unknown setting 'zzz'."),
        ("timeout", "timeout has no value."),
        ("secretKey:s3cret", "secretKey is a secret"),
        ("my.token s3cret=x", "my.token is a secret"),
        ("timeout=soon", "timeout: invalid duration 'soon'"),
        ("timeout=0", "timeout must be above 0."),
        ("namesrv=no where", "Invalid address 'no where'."),
        ("namesrv=ftp://a", "Invalid URL ftp://... for name servers."),
        ("output=jsn", "Invalid output 'jsn'."),
        ("header=XML", "Invalid header 'XML'."),
        ("readonly=yes", "Invalid readonly 'yes'."),
        ("tls=on", "Invalid tls 'on'."),
        ("tls.verify=maybe", "Invalid tls.verify 'maybe'."),
        ("tls.cacert=x", "Unknown setting 'tls.cacert'."),
        ("map-address.broker-a=h", "Invalid address 'h'."),
        ("proxies=h:1,here", "Invalid address 'here'."),
        ("map-address=h:1", "map-address is a table"),
        ("map-address.=h:1", "Unknown setting 'map-address.'."),
        ("description=a\nb", "description must be one line"),
        ("secretKey=s3cret", "secretKey is a secret: "),
        ("access_key=s3cret", "access_key is a secret"),
        ("password=s3cret", "password is a secret"),
    ],
)
def test_a_setting_that_there_is_not_changes_nothing(setting: str, words: str, file: Path, capsys: Captured) -> None:
    result = call(capsys, "context", "set", "prod", "description=x", setting)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"rmqctl: {words}")
    assert "s3cret" not in result.err
    assert file.read_text() == _FILE


def test_delete_off_a_terminal_needs_yes_and_shows_what_it_would_do(file: Path, capsys: Captured) -> None:
    result = call(capsys, "context", "delete", "prod")
    assert (result.code, result.out) == (2, "")
    assert f"context prod from {file}." in result.err
    assert "It is the current context" in result.err
    assert "--yes" in result.err
    assert file.read_text() == _FILE
    assert call(capsys, "context", "delete", "gone", "--yes").code == 5


def test_delete_with_yes_takes_one_context_away(file: Path, capsys: Captured) -> None:
    assert call(capsys, "context", "delete", "dev", "--yes").code == 0
    data = tomllib.loads(file.read_text())
    assert (list(data["contexts"]), data["current-context"]) == (["prod"], "prod")
    assert call(capsys, "context", "delete", "prod", "--yes").code == 0
    assert tomllib.loads(file.read_text()).get("current-context") is None
    assert "# our clusters" in file.read_text()


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, False), ("n\n", 3, True), ("\n", 3, True)])
def test_delete_asks_on_a_terminal(answer: str, code: int, left: bool, file: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rmqctl", "context", "delete", "dev"], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    until_s = time.monotonic() + 120
    while b"[y/N]" not in shown and time.monotonic() < until_s:
        if select.select([ours], [], [], 1)[0]:
            shown += os.read(ours, 4096)
    os.write(ours, answer.encode())
    assert process.wait(120) == code
    os.close(ours)
    assert b"context dev" in shown
    assert ("dev" in _contexts(file)) is left


# The file itself


def test_an_existing_file_keeps_its_mode_and_a_link_stays_one(file: Path, capsys: Captured, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "rmqctl.toml"
    real.parent.mkdir()
    file.rename(real)
    real.chmod(0o640)
    file.symlink_to(real)
    assert call(capsys, "context", "use", "dev").code == 0
    assert file.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert tomllib.loads(real.read_text())["current-context"] == "dev"
    assert [path.name for path in real.parent.iterdir()] == ["rmqctl.toml"]


def test_an_edit_by_somebody_else_in_the_meantime_is_kept(file: Path) -> None:
    edits = iter(["# by an editor\n"])

    def change(document: Any) -> None:
        file.write_text(file.read_text() + next(edits, ""))
        document["current-context"] = "dev"

    change_config(change)
    assert file.read_text().count("# by an editor") == 1
    assert tomllib.loads(file.read_text())["current-context"] == "dev"


def test_a_file_that_never_stands_still_is_left_alone(file: Path) -> None:
    def change(document: Any) -> None:
        file.write_text(file.read_text() + "#\n")

    with pytest.raises(UsageError, match="is changing the configuration file"):
        change_config(change)
    assert file.read_text().startswith(_FILE)


def test_many_at_once_lose_nothing(file: Path) -> None:
    code = "import sys\nfrom rmqctl.cli.app import run\nsys.exit(run(sys.argv[1:]))"
    started = [
        subprocess.Popen([sys.executable, "-c", code, "context", "set", f"c{number}", f"namesrv=h:{number}"])
        for number in range(1, 7)
    ]
    assert [process.wait(120) for process in started] == [0] * 6
    assert {f"c{number}" for number in range(1, 7)} < set(_contexts(file))


def test_a_broken_file_is_not_overwritten(file: Path, capsys: Captured) -> None:
    for text in ("x = [", "contexts = 5\n"):
        file.write_text(text)
        assert call(capsys, "context", "set", "prod", "timeout=5s").code == 2
        assert file.read_text() == text


def test_what_is_no_table_is_not_written_into(file: Path, capsys: Captured) -> None:
    for text, words in (
        ('[contexts]\nprod = "x"\n', "The context is not a table"),
        ('[contexts.prod]\ntls = "x"\n', "tls is not a table"),
    ):
        file.write_text(text)
        result = call(capsys, "context", "set", "prod", "tls.ca=a")
        assert (result.code, words in result.err) == (2, True)
        assert file.read_text() == text
    assert call(capsys, "context", "set", "prod", "tls=", "tls.ca=a").code == 0
    assert _contexts(file)["prod"] == {"tls": {"ca": "a"}}


def test_a_broken_value_can_be_mended(file: Path, capsys: Captured) -> None:
    file.write_text("[contexts.prod]\ntimeout = 5\n")
    assert call(capsys, "context", "show", "prod").code == 2
    assert call(capsys, "context", "set", "prod", "timeout=5s").code == 0
    assert call(capsys, "context", "show", "prod").code == 0


def test_links_in_a_circle_are_one_sentence(file: Path, capsys: Captured) -> None:
    file.unlink()
    file.symlink_to(file.name)
    result = call(capsys, "context", "set", "prod", "timeout=5s")
    assert (result.code, "Cannot write the configuration file" in result.err) == (1, True)


def test_a_file_that_can_not_be_written_is_one_sentence(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQCTL_CONFIG", "/proc/none/config.toml")
    with pytest.raises(RmqctlError, match=r"Cannot write the configuration file .*") as caught:
        change_config(lambda document: None)
    assert caught.value.exit_code == 1


def test_a_crash_while_writing_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(config_edit.os, "fsync", full)
    with pytest.raises(RmqctlError, match="no space left on device"):
        change_config(lambda document: document.update({"current-context": "dev"}))
    assert file.read_text() == _FILE
    assert [path.name for path in file.parent.iterdir() if path.name.startswith(".")] == []


# test


def test_each_context_is_tried_with_its_own_settings(config_file: Path, capsys: Captured) -> None:
    one, other = Cluster(BrokerState("broker-a"), BrokerState("broker-b")), Cluster(BrokerState("broker-c"))
    with served(one) as first, served(other) as second:
        here, other.addresses["broker-c"] = other.addresses["broker-c"], closed_address()
        config_file.write_text(
            f'[contexts.good]\nnamesrv = "{first}"\n[contexts.half]\nnamesrv = "{second}"\n'
            f'[contexts.dead]\nnamesrv = "{closed_address()}"\n[contexts.bad]\nnamserv = "x"\n'
            f'[contexts.mapped]\nnamesrv = "{second}"\n[contexts.mapped.map-address]\nbroker-c = "{here}"\n'
        )
        result = call(capsys, "context", "test", "-o", "json")
        wide = call(capsys, "context", "test", "good", "dead", "-o", "wide")
        alone = [call(capsys, "context", "test", name).code for name in ("good", "half", "dead", "bad", "gone")]
    assert result.code == 8
    items = {item["context"]: item for item in json.loads(result.out)["items"]}
    assert {name: item["status"] for name, item in items.items()} == {
        "good": "OK",
        "half": "PARTLY",
        "dead": "FAILED",
        "bad": "FAILED",
        "mapped": "OK",
    }
    assert (items["good"]["nameServersOk"], items["good"]["brokersOk"]) == (1, 2)
    assert items["good"]["versions"] == ["5.4.0"]
    assert (items["dead"]["error"], items["bad"]["error"]) == ("UNREACHABLE", "USAGE")
    assert wide.code == 8
    assert [line.split()[0] for line in wide.out.splitlines()] == ["CONTEXT", "good", "good", "good", "dead"]
    assert alone == [0, 8, 6, 2, 5]


@pytest.mark.parametrize("form", ["json", "wide", "vertical"])
def test_a_cluster_without_a_broker_is_partly_and_no_success(form: str, config_file: Path, capsys: Captured) -> None:
    with served(Cluster()) as address:
        config_file.write_text(f'[contexts.new]\nnamesrv = "{address}"\n')
        result = call(capsys, "context", "test", "-o", form)
    assert result.code == 8
    if form == "json":
        document = json.loads(result.out)
        assert [(item["status"], item["error"]) for item in document["items"]] == [("PARTLY", "NOT_FOUND")]
        assert [failure["what"] for failure in document["errors"]] == ["context new"]


def test_a_context_without_name_servers_is_not_tried_with_those_of_the_environment(
    config_file: Path, serve: Serve, capsys: Captured
) -> None:
    config_file.write_text('[contexts.bare]\ntimeout = "2s"\n')
    serve(Cluster(BrokerState("broker-a")))
    result = call(capsys, "context", "test", "-o", "json")
    (item,) = json.loads(result.out)["items"]
    assert (result.code, item["status"], item["message"]) == (2, "FAILED", "Context bare has no name server.")


def test_what_a_context_does_not_say_is_a_dash(file: Path, capsys: Captured) -> None:
    lines = call(capsys, "context", "show", "prod", "-o", "wide").out.splitlines()
    assert ["Namespace", "-"] in [line.split() for line in lines]


def test_a_traceback_shows_no_secret_of_a_context(file: Path) -> None:
    (file.parent / "keys").write_text("accessKey: a\nsecretKey: s3cret\n")
    for words in (("test",), ("show", "gone"), ("set", "prod", "secretKey=s3cret")):
        done = spawn("context", *words, "--debug", "--timeout", "1s")
        assert "s3cret" not in done.stdout + done.stderr
