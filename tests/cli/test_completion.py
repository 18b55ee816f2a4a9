"""Completion: what is offered, and what shells make of it. Shells that are not installed are not tested."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from rmqctl.changes.journal.rows import TABLES
from rmqctl.cli.completion import table as completion_table
from rmqctl.cli.completion.scripts import FILE_NAMES, SCRIPTS
from rmqctl.cli.completion.words import FILES, complete
from rmqctl.cli.names_cache import cache_folder, read_names, remember_names
from rmqctl.cli.registry import ALIASES, COMMANDS
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.cli.scripted_server import served

from .calls import call, spawn

Captured = pytest.CaptureFixture[str]
_ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give each test a cache of its own, which is empty."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("RMQCTL_CACHE", str(folder))
    monkeypatch.delenv("RMQCTL_CONTEXT", raising=False)
    return folder


# The files that are made


def test_the_table_and_the_scripts_are_up_to_date() -> None:
    hint = "run `make completions`"
    assert Path(completion_table.__file__).with_name("table.json").read_text() == (completion_table.make_table()), hint
    for shell, name in FILE_NAMES.items():
        assert (_ROOT / "completions" / name).read_text() == SCRIPTS[shell], hint


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_command_prints_a_shells_script(shell: str, capsys: Captured) -> None:
    result = call(capsys, "completion", shell)
    assert (result.code, result.out, result.err) == (0, SCRIPTS[shell], "")


def test_there_is_none_for_other_shells(capsys: Captured) -> None:
    result = call(capsys, "completion", "bsh")
    assert result.code == 2
    assert "Did you mean bash" in result.err


# What is offered


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["off"], ["offset"]),
        (["offset", "sh"], ["show"]),
        (["context", "s"], ["show", "set"]),
        (["-q", "--timeout", "5s", "offset", "sh"], ["show"]),
        (["-njson", "offset", "sh"], ["show"]),
        (["no-such", ""], []),
        (["offset", "show", "--only"], ["--only-with-lag"]),
        (["offset", "show", "-o", "js"], ["json", "jsonl"]),
        (["offset", "show", "--output=js"], ["--output=json", "--output=jsonl"]),
        (["--tls-verify", ""], ["full", "ca", "none"]),
        (["--tls-ca", ""], [FILES]),
        (["--tls-ca=x"], [FILES]),
        (["offset", "show", "--timeout", ""], []),
        (["offset", "show", "--columns", "brokerN"], ["brokerName"]),
        (["offset", "show", "--columns", "lag,brokerN"], ["lag,brokerName"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["context", "set", "prod", "tls.v"], ["tls.verify="]),
        (["context", "set", "prod", "timeout=5s", "prot"], ["protected="]),
        (["explain", "206", ""], []),
        (["explain", "CONSUMER_NOT"], ["CONSUMER_NOT_ONLINE"]),
        (["explain", "OFF01"], ["OFF010", "OFF011", "OFF012", "OFF013", "OFF014"]),
        (["pipeline", "run", "snapshot", "dl"], ["dlq-report", "dlq-replay"]),
        (["whatif", "allocate", "--strategy", "cir"], ["circle"]),
        (["whatif", "readonly", "--by", "w"], ["wipeWritePerm"]),
        (["message", "get", "--codec", "ms"], ["msgpack"]),
        (["message", "get", "--body", "h"], ["hex"]),
        (["diagnose", "--fail-on", "e"], ["error"]),
        (["diagnose", "--only", "PXY"], ["PXY001", "PXY002"]),
        (["offset", "show", "--where", "consumer"], ["consumerOffset"]),
        (["group", "update", "g", "--set", "retryMax"], ["retryMaxTimes="]),
        (["sandbox", "up", "--set", "enableProp"], ["enablePropertyFilter="]),
        (["sandbox", "fault", "ans"], ["answer"]),
        (["sandbox", "fault", "answer", "SEND_BATCH"], ["SEND_BATCH_MESSAGE"]),
        (["offset", "show", "-h"], ["-h"]),
        (["offset", "show", "--", "--on"], []),
        ([], [*dict.fromkeys(words.split()[0] for words in (*COMMANDS, *ALIASES))]),
    ],
)
def test_words_that_need_no_cluster(words: list[str], offered: list[str]) -> None:
    assert complete(words) == offered


def test_names_are_those_of_the_cluster_that_the_line_means(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config_file.write_text(
        'current-context = "prod"\n[contexts.prod]\nnamesrv = "p:1;q:1"\n'
        '[contexts."a b"]\n[contexts.dev]\nnamesrv="d:1"\n'
    )
    remember_names("q:1;p:1", "groups", ["of-prod"])
    remember_names("d:1", "groups", ["of-dev"])
    remember_names("d:1", "topics", ["%RETRY%of-dev", "orders"])
    remember_names("e:1", "groups", ["of-env"])
    assert complete(["offset", "show", ""]) == ["of-prod"]
    assert complete(["offset", "show", "a", "o"]) == ["of-prod"]  # it takes several
    assert complete(["group", "members", "a", "o"]) == []
    assert complete(["--context", "dev", "offset", "show", ""]) == ["of-dev"]
    assert complete(["--context=dev", "topic", "route", "%"]) == ["%RETRY%of-dev"]
    assert complete(["offset", "show", "g", "-nd:1", "--topic", "o"]) == ["orders"]
    assert complete(["offset", "show", "--namesrv", "q:1,p:1", "o"]) == ["of-prod"]
    assert complete(["--context", ""]) == ["prod", "dev"]  # a name with a blank is not offered
    monkeypatch.setenv("NAMESRV_ADDR", "e:1")
    assert complete(["offset", "show", ""]) == ["of-env"]
    assert complete(["--context", "dev", "offset", "show", ""]) == ["of-dev"]
    monkeypatch.setenv("RMQCTL_CONTEXT", "dev")
    assert complete(["offset", "show", ""]) == ["of-dev"]


def test_names_stand_wherever_one_of_their_kind_is_meant() -> None:
    for kind, name in (("groups", "payments"), ("topics", "orders"), ("brokers", "broker-a")):
        remember_names("n:1", kind, [name])
    n = ("-n", "n:1")
    for words, name in (
        (["offset", "clone", "x", "pay"], "payments"),
        (["offset", "reset", "x", "--to-group", "pay"], "payments"),
        (["consume", "run", "x", "ord"], "orders"),
        (["message", "find", "x", "--queue", "bro"], "broker-a"),
        (["whatif", "readonly", "--broker", "bro"], "broker-a"),
    ):
        assert complete([*n, *words]) == [name], words


def test_changes_of_the_journal_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path))
    assert spawn("complete-words", "offset", "undo", "").stdout == ""
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection, connection:
        connection.execute("CREATE TABLE changes (number INTEGER, receipt_id TEXT)")
        connection.executemany("INSERT INTO changes VALUES (?, ?)", [(1, "2026-a"), (2, "2026-b"), (3, "2027-c")])
    assert complete(["offset", "undo", "2026"]) == ["2026-b", "2026-a"]
    assert complete(["offset", "history", "--id", "2027"]) == ["2027-c"]
    assert re.search(r"CREATE TABLE (IF NOT EXISTS )?changes \(.*\bnumber\b.*\breceipt_id\b", str(TABLES), re.DOTALL)


_HOSTILE = [
    "a b",
    "a'b",
    'a"b',
    "a\nb",
    "a\x1b[31m",
    "$(touch pwned)",
    "`touch pwned`",
    "a;touch pwned",
    "",
    "a\\b",
    "é",
]


def test_names_that_a_shell_could_read_as_more_are_not_offered() -> None:
    remember_names("n:1", "groups", [*_HOSTILE, "good-1", "a|b%c"])
    assert complete(["-n", "n:1", "offset", "show", ""]) == ["a|b%c", "good-1"]


@pytest.mark.parametrize(
    "data", [b"", b"[", b"[1]", b'{"groups": 5}', b'{"groups": [5, null, "ok"]}', b"\xff", b"[" * 99_999]
)
def test_a_cache_that_is_none_is_silent(data: bytes) -> None:
    remember_names("n:1", "groups", ["x"])
    (path,) = cache_folder().iterdir()
    path.write_bytes(data)
    done = spawn("complete-words", "-n", "n:1", "offset", "show", "")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout in ("", "ok\n")


@pytest.mark.parametrize("text", ["x = [", "contexts = 5", "current-context = 5", "[contexts]\nprod = 5", "\x00"])
def test_a_broken_configuration_is_silent(text: str, config_file: Path) -> None:
    config_file.write_text(text)
    for words in (("offset", "show", ""), ("--context", ""), ("--context", "prod", "offset", "show", "")):
        done = spawn("complete-words", *words)
        assert (done.returncode, done.stderr) == (0, "")


def test_completion_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom rmqctl.cli.completion.words import main\nmain(sys.argv[1:])\nprint('MODULES', *sys.modules)"
    )
    done = spawn("-n", "n:1", "offset", "show", "", code=code)
    modules = set(done.stdout.rpartition("MODULES ")[2].split())
    assert modules & {"typer", "msgspec", "asyncio", "ssl", "rich", "platformdirs", "tomllib", "difflib"} == set()


# The cache


def test_names_are_remembered_for_the_user_alone(cache: Path) -> None:
    remember_names("n:1", "groups", ["b", "a"])
    remember_names("n:1", "topics", ["t"])
    (path,) = cache.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert cache.stat().st_mode & 0o777 == 0o700
    assert (read_names("n:1", "groups"), read_names("n:1", "topics"), read_names("n:1", "brokers")) == (
        ["a", "b"],
        ["t"],
        [],
    )
    assert read_names("other:1", "groups") == []


def test_a_part_of_the_names_is_added_and_the_whole_replaces() -> None:
    remember_names("n:1", "groups", ["a", "b"])
    remember_names("n:1", "groups", ["c"], is_whole=False)
    assert read_names("n:1", "groups") == ["a", "b", "c"]
    remember_names("n:1", "groups", ["c"])
    assert read_names("n:1", "groups") == ["c"]


def test_a_cache_that_can_not_be_written_is_nobodys_concern(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cache.write_text("a file in the way")
    remember_names("n:1", "groups", ["a"])
    assert read_names("n:1", "groups") == []
    monkeypatch.setenv("RMQCTL_CACHE", "/proc/none")
    remember_names("n:1", "groups", ["a\ud800"])


def test_the_names_of_a_url_hold_none_of_its_secrets(cache: Path) -> None:
    remember_names("http://user:s3cret@h/x?token=s3cret", "groups", ["a"])
    (path,) = cache.iterdir()
    assert "s3cret" not in path.name + path.read_text()


def test_lists_are_remembered_as_a_by_product(capsys: Captured) -> None:
    state = BrokerState("broker-a", topics={"orders": [Queue(10)]})
    state.configured.add("payments")
    with served(Cluster(state)) as name_server:
        for words in (("group", "list"), ("cluster", "list")):
            assert call(capsys, *words, "-n", name_server).code == 0
    assert read_names(name_server, "groups") == ["payments"]
    assert read_names(name_server, "brokers") == ["broker-a"]


# In real shells


def _installed(shell: str) -> str:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    return path


@pytest.fixture
def program(tmp_path: Path, config_file: Path) -> dict[str, str]:
    """Put rmqctl into the PATH, with names in its cache; return the environment."""
    folder = tmp_path / "bin"
    folder.mkdir()
    launcher = folder / "rmqctl"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rmqctl "$@"\n')
    launcher.chmod(0o755)
    config_file.write_text('[contexts.prod]\nnamesrv = "n:1"\n[contexts."eu:prod"]\n[contexts."eu:dev"]\n')
    remember_names("n:1", "groups", ["payments", "payouts", "%RETRY%x", *_HOSTILE])
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(_ROOT), "HOME": str(tmp_path)}
    return {**env, "NAMESRV_ADDR": "n:1"}


def _bash(line: str, env: dict[str, str], *, breaks: str | None = None) -> list[str]:
    """Return what bash would offer; its words are split as readline splits them."""
    words = f"COMP_WORDBREAKS={json.dumps(breaks)[1:-1]!r}; " if breaks is not None else ""
    script = (
        f"source {_ROOT / 'completions' / 'rmqctl.bash'}; {words}"
        'COMP_LINE=$1 COMP_POINT=${#1}; _rmqctl; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [_installed("bash"), "--norc", "-c", script, "bash", line],
        env=env, capture_output=True, text=True, timeout=120, check=True, cwd=env["HOME"],
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("rmqctl off", ["offset"]),
        ("rmqctl offset show pay", ["payments", "payouts"]),
        ("rmqctl offset show %RE", ["%RETRY%x"]),
        ("rmqctl offset show zzz", []),
        ("rmqctl offset show $(touch pwned", []),
        # What stands before a colon or = is there already.
        ("rmqctl --context eu:", ["prod", "dev"]),
        ("rmqctl --context eu:p", ["prod"]),
        ("rmqctl --context e", ["eu:prod", "eu:dev"]),
        ("rmqctl --output=jso", ["json", "jsonl"]),
        ("rmqctl context set prod tls.v", ["tls.verify="]),
    ],
)
def test_bash_completes(line: str, offered: list[str], program: dict[str, str]) -> None:
    assert _bash(line, program) == offered
    assert not list(Path(program["HOME"]).rglob("pwned"))


def test_bash_completes_from_the_middle_of_a_word_whatever_splits_words(program: dict[str, str]) -> None:
    assert _bash("rmqctl offset show %RETRY%", program, breaks=" %:=") == ["x"]
    assert _bash("rmqctl --context eu:p", program, breaks=" ") == ["eu:prod"]


def test_bash_offers_all_names_and_none_that_is_hostile(program: dict[str, str]) -> None:
    assert _bash("rmqctl offset show ", program) == ["%RETRY%x", "payments", "payouts"]
    assert not list(Path(program["HOME"]).rglob("pwned"))


def test_zsh_completes(program: dict[str, str]) -> None:
    shell = _installed("zsh")
    # compadd works inside completion only: here it prints what it is given.
    script = (
        "compadd() { shift; print -l -- $@ }; _files() { print files }; compdef() { : }\n"
        f"source {_ROOT / 'completions' / '_rmqctl'}\n"
        'words=("${(@s: :)1}"); CURRENT=${#words}; _rmqctl'
    )
    for line, offered in (
        ("rmqctl off", ["offset"]),
        ("rmqctl offset show pay", ["payments", "payouts"]),
        ("rmqctl --context eu:p", ["eu:prod"]),
        ("rmqctl --tls-ca x", ["files"]),
        ("rmqctl offset show zzz", []),
    ):
        done = subprocess.run(
            [shell, "-f", "-c", script, "zsh", line],
            env=program,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.stdout.split(), done.stderr) == (offered, "")


def test_fish_completes(program: dict[str, str]) -> None:
    shell = _installed("fish")
    for line, offered in (
        ("rmqctl off", ["offset"]),
        ("rmqctl offset show pay", ["payments", "payouts"]),
        ("rmqctl --context eu:p", ["eu:prod"]),
        ("rmqctl offset show zzz", []),
    ):
        script = f"source {_ROOT / 'completions' / 'rmqctl.fish'}; complete -C {line!r}"
        done = subprocess.run(
            [shell, "--no-config", "-c", script], env=program, capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.stdout.split(), done.stderr) == (offered, "")


def _typed(command: list[str], setup: str, keys: str, wanted: str, env: dict[str, str]) -> str:
    """Type into a shell on a terminal; return what it shows until `wanted` has come, or 20 s are over."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**env, "TERM": "dumb"}, start_new_session=True
    )
    os.close(theirs)
    shown = ""

    def read_until(text: str) -> None:
        nonlocal shown
        until_s = time.monotonic() + 120
        while text not in shown and time.monotonic() < until_s:
            if select.select([ours], [], [], 0.5)[0]:
                shown += os.read(ours, 4096).decode(errors="replace")

    try:
        # What is echoed differs from what is printed, so that the wait is for the latter.
        os.write(ours, f"{setup}; echo rea''dy\n".encode())
        read_until("ready")
        shown = ""
        os.write(ours, keys.encode())
        read_until(wanted)
    finally:
        process.kill()
        process.wait(120)
        os.close(ours)
    return shown


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ("rmqctl offset show paym\t", "rmqctl offset show payments "),
        ("rmqctl offset show %RE\t", "rmqctl offset show %RETRY%x "),
        ("rmqctl --context eu:p\t", "rmqctl --context eu:prod "),
        ("rmqctl --context eu:\t\t", "prod"),
        ("rmqctl --output=jsonl\t", "rmqctl --output=jsonl "),
        ("rmqctl context set prod time\t", "rmqctl context set prod timeout="),
    ],
)
def test_a_tab_in_bash_completes_the_word(keys: str, wanted: str, program: dict[str, str]) -> None:
    setup = f"source {_ROOT / 'completions' / 'rmqctl.bash'}"
    shown = _typed([_installed("bash"), "--norc", "--noprofile", "-i"], setup, keys, wanted, program)
    assert wanted in shown


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ("rmqctl offset show paym\t", "rmqctl offset show payments "),
        ("rmqctl --context eu:p\t", "rmqctl --context eu:prod "),
    ],
)
def test_a_tab_in_zsh_completes_the_word(keys: str, wanted: str, program: dict[str, str]) -> None:
    setup = f"autoload -U compinit; compinit -u -D; source {_ROOT / 'completions' / '_rmqctl'}"
    shown = _typed([_installed("zsh"), "-f", "-i"], setup, keys, wanted, program)
    assert wanted in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x08", "", shown)
