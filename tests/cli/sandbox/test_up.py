"""Sandboxes in processes of their own: how they start, are found, and end; nothing may be left of them."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from rmqctl.cli.sandbox import detach
from rmqctl.errors import DeadlineError
from rmqctl.sandbox.control.state_file import RunningSandbox, find_running, wait_until_gone
from tests.cli.calls import call, closed_address

Captured = pytest.CaptureFixture[str]
_PROGRAM = [sys.executable, "-m", "rmqctl", "sandbox", "up"]


@pytest.fixture(autouse=True)
def _nothing_outlives_the_test() -> Iterator[None]:
    yield
    for running in find_running():
        os.kill(running.pid, signal.SIGKILL)


def _left(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "runtime").iterdir())


@contextmanager
def _foreground(*argv: str, shell: str = 'exec "$@"') -> Iterator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    """Run one; gives its process, stdout and stderr."""
    command = ["sh", "-c", shell, "sh", *_PROGRAM, "--port", "0", *argv]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield process, process.stdout, process.stderr
        finally:
            process.kill()


def _is_open(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)])
def test_in_the_foreground_it_runs_until_a_signal(
    number: signal.Signals, code: int, capsys: Captured, tmp_path: Path
) -> None:
    with _foreground("--brokers", "2") as (process, out, err):
        first = out.readline()
        assert first.startswith("Name server 127.0.0.1:")
        address = first.split()[-1]
        listed = call(capsys, "cluster", "list", "-n", address)
        assert (listed.code, len(listed.out.splitlines())) == (0, 3)
        process.send_signal(number)
        assert process.wait(120) == code
        assert "broker-b" in out.read()
        notes = err.read().splitlines()
    assert notes[:2] == ["Try next, in another terminal:", f"  export NAMESRV_ADDR={address}"]
    assert notes[-1].startswith("Ctrl-C ")
    assert not _is_open(address)
    assert _left(tmp_path) == []


def test_a_flood_of_connections_beyond_the_files_of_the_process_keeps_nobody_out(capsys: Captured) -> None:
    with _foreground("-o", "name", shell='ulimit -n 128; exec "$@"') as (process, out, err):
        address = out.readline().strip()
        host, port = address.rsplit(":", 1)
        flood = []
        for _ in range(600):
            flood.append(socket.create_connection((host, int(port)), timeout=120))
            flood[-1].send(b"half")
        assert call(capsys, "cluster", "list", "-n", address).code == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        assert "Traceback" not in err.read()
        for each in flood:
            each.close()


def test_down_ends_one_in_the_foreground_as_well(capsys: Captured, tmp_path: Path) -> None:
    with _foreground("-o", "name", "--as", "4.9.7") as (process, out, err):
        address = out.readline().strip()
        result = call(capsys, "sandbox", "down")
        assert (result.code, result.out, result.err) == (0, "", f"The sandbox at {address} has stopped.\n")
        assert process.wait(120) == 0
        assert out.read() + err.read() == ""
    assert _left(tmp_path) == []


def test_in_the_background_it_stays_until_it_is_told_to_end(capsys: Captured, tmp_path: Path) -> None:
    result = call(capsys, "sandbox", "up", "--port", "0", "--detach", "-o", "json")
    assert (result.code, result.err) == (0, "")
    (item,) = json.loads(result.out)["items"]
    assert item["pid"] != os.getpid()
    assert os.getsid(item["pid"]) == item["pid"]
    (found,) = json.loads(call(capsys, "sandbox", "status", "-o", "json").out)["items"]
    assert found["namesrv"] == item["namesrv"]
    # It says so, and leaves that one alone, when the port is wanted again.
    port = item["namesrv"].rpartition(":")[2]
    for more in ((), ("--detach",)):
        again = call(capsys, "sandbox", "up", "--port", port, *more)
        assert (again.code, again.out) == (6, "")
        sentence, hint = again.err.splitlines()
        assert sentence == f"rmqctl: 127.0.0.1:{port}: another program is listening on this port."
        assert f"rmqctl sandbox down --port {port}" in hint
        assert "--port 0" in hint
    assert call(capsys, "sandbox", "down", "--port", port).code == 0
    assert not _is_open(item["namesrv"])
    assert not _is_open(item["brokers"][0]["brokerAddr"])
    assert _left(tmp_path) == []
    assert call(capsys, "sandbox", "down").err == "No sandbox is running.\n"


def test_in_the_background_it_has_its_settings_and_says_what_is_damaged(capsys: Captured, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    up = ("sandbox", "up", "--port", "0", "--detach", "-o", "name", "--dir", str(folder))
    given = ("--like-default", "--set", "fileReservedTime=5", "--set", "messageDelayLevel=1s 2s")
    for words in (given, ()):
        started = call(capsys, *up, *words)
        assert started.code == 0
        address = started.out.strip()
        (broker,) = json.loads(call(capsys, "broker", "show", "broker-a", "-n", address, "-o", "json").out)["items"]
        found = [broker["settings"][name] for name in ("enablePropertyFilter", "fileReservedTime", "messageDelayLevel")]
        assert found[:2] == (["false", "5"] if words else ["true", "72"])
        assert (found[2] == "1s 2s") == bool(words)
        assert call(capsys, "sandbox", "down").code == 0
    (segment,) = (folder / "broker-a" / "commitlog").iterdir()
    segment.write_bytes(segment.read_bytes() + b"garbage")
    started = call(capsys, *up)
    assert (started.code, started.out.startswith("127.0.0.1:")) == (0, True)
    assert started.err.startswith(f"rmqctl: {segment}: damaged at byte ")
    assert Path(f"{segment}.damaged-1").read_bytes().endswith(b"garbage")
    assert call(capsys, "sandbox", "down").code == 0


def test_a_start_in_the_background_may_take_long_as_long_as_it_is_heard_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    log, now_s = tmp_path / "log", [0.0]
    log.touch()
    running = RunningSandbox(1, 4711, "127.0.0.1:1", "socket")

    class Process:
        pid = 4711

        def poll(self) -> None:
            """It runs."""

    def sleep(_: float) -> None:
        now_s[0] += 1
        if now_s[0] % 9 == 0 and now_s[0] < 90:
            with log.open("a") as file:
                file.write(f"rmqctl: read {now_s[0]:.0f} of 90 MiB\n")

    monkeypatch.setattr(detach, "time", SimpleNamespace(monotonic=lambda: now_s[0], sleep=sleep))
    monkeypatch.setattr(detach, "find_running", lambda: [running] if now_s[0] >= 90 else [])
    with log.open("rb") as written:
        assert detach._wait(Process(), written, 10.0) == running  # type: ignore[arg-type]
        assert len(capsys.readouterr().err.splitlines()) == 9
        now_s[0] = 0.5
        with pytest.raises(DeadlineError):
            detach._wait(Process(), written, 5.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("words", "sentence"), [
    (("--set", "recallMessageEnable"), "--set expects NAME=VALUE"),
    (("--set", "queues=3"), "queues is not a setting that the sandbox obeys"),
    (("--set", "recallMessageEnable=1"), "Invalid value '1'"),
    (("--set", "fileReservedTime=1", "--set", "fileReservedTime=2"), "two values for fileReservedTime"),
])  # fmt: skip
def test_invalid_settings_are_refused_before_a_start(
    capsys: Captured, tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    for more in ((), ("--detach",)):
        refused = call(capsys, "sandbox", "up", "--port", "0", "--dir", str(tmp_path / "data"), *words, *more)
        assert (refused.code, refused.out) == (2, "")
        assert sentence in refused.err
    assert not (tmp_path / "data").exists()


def test_one_that_was_killed_is_forgotten_and_its_port_is_free_again(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Started in a folder whose files have names of modules: none of them is imported.
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "msgspec.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path / "here")
    # Below those that systems give away: tests beside this one would take it while nobody has it. Others like this one
    # may still do so, but not each time.
    for port in map(str, random.Random().sample(range(22_000, 30_000), 10)):
        first = call(capsys, "sandbox", "up", "--port", port, "--detach", "-o", "json")
        if first.code != 0:
            assert first.err.startswith("rmqctl: 127.0.0.1:")
            continue
        (item,) = json.loads(first.out)["items"]
        os.kill(item["pid"], signal.SIGKILL)
        os.waitpid(item["pid"], 0)
        assert any(name.endswith(".json") for name in _left(tmp_path))
        assert json.loads(call(capsys, "sandbox", "status", "-o", "json").out)["items"] == []
        assert _left(tmp_path) == []
        again = call(capsys, "sandbox", "up", "--port", port, "--detach", "-o", "name")
        if again.code == 0:
            assert again.out == f"127.0.0.1:{port}\n"
            assert call(capsys, "sandbox", "down", "--all").code == 0
            return
        assert again.err.startswith("rmqctl: 127.0.0.1:")
    raise AssertionError("no free port, or none that is free again")


def test_one_that_hangs_is_told_to_end_by_a_signal(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (item,) = json.loads(call(capsys, "sandbox", "up", "--port", "0", "--detach", "-o", "json").out)["items"]
    os.kill(item["pid"], signal.SIGSTOP)
    other = call(capsys, "sandbox", "up", "--port", "0", "--detach", "-o", "name").out.strip()
    # The one that hangs has no time at all, the other one enough of it.
    with monkeypatch.context() as patched:
        patched.setattr("rmqctl.cli.sandbox.down._ANSWER_S", 0.5)
        patched.setattr(
            "rmqctl.sandbox.control.state_file.wait_until_gone",
            lambda running, timeout_s: wait_until_gone(running, 0 if running.pid == item["pid"] else timeout_s),
        )
        result = call(capsys, "sandbox", "down", "--all", "--timeout", "60s")
    assert (result.code, result.out) == (6, "")
    assert f"The sandbox at {other} has stopped." in result.err
    assert "no answer within 60.0 s" in result.err
    assert f"kill -9 {item['pid']}" in result.err
    os.kill(item["pid"], signal.SIGCONT)
    assert call(capsys, "sandbox", "down").code == 0
    assert _left(tmp_path) == [], [path.read_text() for path in (tmp_path / "runtime").glob("*.log")]


def test_a_runtime_folder_with_a_long_path_is_no_hindrance(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / ("long" * 30)
    monkeypatch.setenv("RMQCTL_RUNTIME", str(folder))
    assert call(capsys, "sandbox", "up", "--port", "0", "--detach", "-q").code == 0
    (running,) = find_running()
    assert len(running.socket) < 108
    assert call(capsys, "sandbox", "fault", "drop").code == 0
    assert call(capsys, "sandbox", "down").code == 0
    assert list(folder.iterdir()) == []
    assert not Path(running.socket).parent.exists()


def test_ports_follow_the_name_servers(capsys: Captured) -> None:
    # 10 ports in a row could be anybody's: a taken one must be told as such, so several are tried.
    for port in range(21_000, 21_400, 40):
        result = call(capsys, "sandbox", "up", "--port", str(port), "--brokers", "2", "--detach", "-o", "json")
        if result.code == 0:
            (item,) = json.loads(result.out)["items"]
            assert item["namesrv"] == f"127.0.0.1:{port}"
            addresses = [broker["brokerAddr"] for broker in item["brokers"]]
            assert addresses == [f"127.0.0.1:{port + 1011}", f"127.0.0.1:{port + 1031}"]
            return
        error = json.loads(result.err)
        assert (error["exitCode"], error["message"].split(":")[0]) == (6, "127.0.0.1")
    raise AssertionError("no free ports")


@pytest.mark.parametrize("more", [(), ("--detach",)], ids=["foreground", "detached"])
def test_a_port_of_another_program_is_told_with_a_way_out(more: tuple[str, ...], capsys: Captured) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        result = call(capsys, "sandbox", "up", "--port", address.split(":")[1], *more)
        if result.code == 2:
            pytest.skip("the system gave a port above which there are none")
    assert (result.code, result.out) == (6, "")
    error, hint = result.err.splitlines()
    assert error == f"rmqctl: {address}: another program is listening on this port."
    assert "--port 0" in hint
    assert closed_address() != address


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--as", "4.8.0"], "Unknown RocketMQ release '4.8.0'."),
        (["--brokers", "0"], "A sandbox can have 1 to 26 brokers, not 0."),
        (["--brokers", "27"], "A sandbox can have 1 to 26 brokers, not 27."),
        (["--queues", "0"], "A topic can have 1 to 1024 queues, not 0."),
        (["--port", "65000"], "Port 65000 leaves no ports for the brokers above it."),
        (["--port", "-1"], "Invalid --port -1."),
        (["--port", "0", "--listen", "0.0.0.0"], "--listen 0.0.0.0 means all addresses"),
        (["--port", "0", "--listen", "::"], "--listen :: means all addresses"),
        (["--port", "0", "--listen", "0"], "--listen 0 means all addresses"),
        (["--port", "0", "--listen", "::ffff:0.0.0.0"], "--listen ::ffff:0.0.0.0 means all addresses"),
        (["--port", "0", "--listen", "a..b"], "--listen a..b is not an address of this machine."),
        (["--port", "0", "--columns", "brokr"], "Unknown column 'brokr'."),
    ],
)
@pytest.mark.parametrize("more", [[], ["--detach"]], ids=["foreground", "detached"])
def test_mistakes_are_told_before_anything_is_started(
    argv: list[str], sentence: str, more: list[str], capsys: Captured
) -> None:
    result = call(capsys, "sandbox", "up", *argv, *more)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"rmqctl: {sentence}")
    assert find_running() == []


def test_an_address_that_others_reach_is_warned_of(capsys: Captured) -> None:
    # 192.0.2.1 is nobody's (RFC 5737), so that it can't be listened on either.
    result = call(capsys, "sandbox", "up", "--port", "0", "--listen", "192.0.2.1", "-q")
    assert (result.code, result.out) == (6, "")
    warning, error, hint = result.err.splitlines()
    assert warning.startswith("rmqctl: anyone who can reach 192.0.2.1 ")
    assert error.startswith("rmqctl: 192.0.2.1:0: ")
    assert "--listen" in hint


def _status(capsys: Captured) -> dict[str, Any]:
    (item,) = json.loads(call(capsys, "sandbox", "status", "-o", "json").out)["items"]
    result: dict[str, Any] = item
    return result


def test_it_keeps_its_data_in_a_folder(capsys: Captured, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    argv = ("sandbox", "up", "--port", "0", "--detach", "-q", "--dir", str(folder))
    assert call(capsys, *argv).code == 0
    assert _status(capsys)["dir"] == str(folder)
    assert call(capsys, "sandbox", "seed", "lagging").code == 0
    before = [broker["messageCount"] for broker in _status(capsys)["brokers"]]
    assert sum(before) > 0
    assert call(capsys, "sandbox", "down").code == 0
    assert call(capsys, *argv).code == 0
    assert [broker["messageCount"] for broker in _status(capsys)["brokers"]] == before
    assert call(capsys, "sandbox", "down").code == 0
