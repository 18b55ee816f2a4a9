"""The control socket of a running sandbox, and the files that it is found by."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rmqctl.errors import DeadlineError, RemoteProtocolError, UnreachableError, UsageError
from rmqctl.net.clock import VirtualClock
from rmqctl.net.line_client import ask_line
from rmqctl.net.line_server import LineServer
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.control.messages import Ask, AskStatus, ControlRequest
from rmqctl.sandbox.control.server import ControlServer
from rmqctl.sandbox.control.state_file import AlreadyRunningError, StateFile, find_running, state_folder
from rmqctl.sandbox.topics.table import Topic
from tests.scripted_peer import run


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RMQCTL_RUNTIME", str(tmp_path / "run"))
    return tmp_path / "run"


def _line(ask: Any, **more: Any) -> bytes:
    return json.dumps({"version": 1, "ask": ask, **more}).encode()


async def _answer(control: ControlServer, line: bytes) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(await control.answer(line))
    assert result["version"] == 1
    return result


def test_a_question_of_the_command_line_is_the_documented_line() -> None:
    question = ControlRequest(msgspec.Raw(msgspec.json.encode(AskStatus())))
    assert json.loads(msgspec.json.encode(question)) == {"version": 1, "ask": {"do": "status"}}


def test_every_question_has_an_answer() -> None:
    control = ControlServer(Sandbox(clock=VirtualClock()))
    assert set(control._answers) == set(Ask.__args__)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "Unknown control request"),
        (b"GET / HTTP/1.1", "Unknown control request"),
        (b"\xff\xfe", "Unknown control request"),
        (b"[" * 50_000, "Unknown control request"),
        (b"{}", "Unknown control request"),
        (_line({"do": "dance"}), "Unknown control request"),
        (_line({"do": "plan", "effect": "explode"}), "Unknown control request"),
        (_line({"do": "plan", "effect": "drop", "count": "many"}), "Unknown control request"),
        (_line({"do": "plan", "effect": "answer"}), "response code"),
        (_line({"do": "plan", "effect": "drop", "count": 0}), "Invalid fault count '0'"),
        (_line({"do": "broker", "change": "paint"}), "Unknown control request"),
        (_line({"do": "advance", "milliseconds": -1}), "cannot go backwards"),
        (_line({"do": "status"}, version=2), "speaks version 1 of its control protocol, not 2"),
        (_line({"of": "the future"}, version=2), "speaks version 1 of its control protocol, not 2"),
    ],
)
async def test_what_cannot_be_done_is_answered_as_an_error(line: bytes, message: str) -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        control = ControlServer(sandbox)
        error = (await _answer(control, line))["error"]
        assert message in error["message"]
        assert (error["name"], error["exitCode"]) == ("USAGE", 2)
        assert (await _answer(control, _line({"do": "faults"})))["result"] == {"done": [], "faults": []}


async def test_the_clock_is_moved_and_told() -> None:
    async with Sandbox() as sandbox:
        control = ControlServer(sandbox)
        report = (await _answer(control, _line({"do": "advance", "milliseconds": 60_000})))["result"]
        assert report["clockAheadMs"] == 60_000
        # Two at once come one after the other.
        both = [control.answer(_line({"do": "advance", "milliseconds": 1_000})) for _ in range(2)]
        ahead = [json.loads(answer)["result"]["clockAheadMs"] for answer in await asyncio.gather(*both)]
        assert max(ahead) == 62_000


async def test_down_is_answered_before_it_ends() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        control = ControlServer(sandbox)
        assert (await _answer(control, _line({"do": "down"})))["error"] is None
        assert control.is_over.is_set()


# The socket


async def _asked(path: Path, line: bytes, timeout_s: float = 60) -> bytes:
    return await asyncio.to_thread(ask_line, path, line, timeout_s)


async def test_lines_are_answered_and_a_peer_that_breaks_the_rules_hinders_nobody(tmp_path: Path) -> None:
    async def answer(line: bytes) -> bytes:
        return line.strip()[::-1]

    path = tmp_path / "socket"
    server = LineServer(answer)
    await server.open(path)
    assert path.stat().st_mode & 0o777 == 0o600
    half, endless = [await asyncio.open_unix_connection(path) for _ in range(2)]
    half[1].write(b"half a line")
    endless[1].write(b"x" * 200_000)
    assert await _asked(path, b"abc") == b"cba"
    assert await _asked(path, b"x" * 60_000) == b"x" * 60_000
    with pytest.raises(UnreachableError):
        await _asked(path, b"x" * 100_000)
    await server.aclose()
    for _, writer in (half, endless):
        writer.close()
    with pytest.raises(UnreachableError):
        await _asked(path, b"abc")


async def test_a_server_that_is_silent_endless_or_gone(tmp_path: Path) -> None:
    async def silent(_: bytes) -> bytes:
        await asyncio.Event().wait()
        return b""

    async def endless(_: bytes) -> bytes:
        return b"x" * 20_000_000

    for name, answer, error in (("a", silent, DeadlineError), ("b", endless, RemoteProtocolError)):
        server = LineServer(answer)
        await server.open(tmp_path / name)
        with pytest.raises(error):
            await _asked(tmp_path / name, b"abc", 0.5 if answer is silent else 60)
        await server.aclose()
    with pytest.raises(UnreachableError):
        await _asked(tmp_path / "nobody", b"abc")
    with pytest.raises(UnreachableError):
        await LineServer(silent).open(tmp_path / "no" / "folder")


# The files


def test_a_sandbox_is_found_while_its_file_is_held() -> None:
    with StateFile(9876) as state:
        assert find_running() == []  # it starts
        state.publish("127.0.0.1:9876")
        (found,) = find_running()
        assert (found.port, found.pid, found.namesrv) == (9876, os.getpid(), "127.0.0.1:9876")
        assert find_running(9876) == [found]
        assert find_running(987) == []
    assert find_running() == []


def test_a_port_has_one_sandbox() -> None:
    with StateFile(9876) as state:
        state.publish("127.0.0.1:9876")
        with pytest.raises(AlreadyRunningError, match="on port 9876"):
            StateFile(9876)
        with StateFile(9877):
            pass
        assert len(find_running()) == 1
    with StateFile(9876):
        pass


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"port":"x"}', b"\xff" * 100_000])
def test_files_that_nobody_holds_are_removed_whatever_they_say(content: bytes, folder: Path) -> None:
    file = state_folder() / "sandbox-1.json"
    file.write_bytes(content)
    assert find_running() == []
    assert not file.exists()


def test_only_sockets_are_removed_with_a_file(folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("data")
    content = json.dumps({"port": 1, "pid": 1, "namesrv": "x", "socket": str(precious)})
    (state_folder() / "sandbox-1.json").write_text(content)
    assert find_running() == []
    assert precious.read_text() == "data"


def test_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("data")
    (state_folder() / "sandbox-1.json").symlink_to(target)
    assert find_running() == []
    with pytest.raises(OSError, match="symbolic"):
        StateFile(1)
    assert target.read_text() == "data"


def test_a_folder_that_others_may_write_to_is_closed_to_them_when_it_is_our_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = folder / "rmqctl"
    own.mkdir(parents=True)
    own.chmod(0o777)
    monkeypatch.setenv("RMQCTL_RUNTIME", str(own))
    with pytest.raises(UsageError, match="is open to others"):
        state_folder()
    assert own.stat().st_mode & 0o777 == 0o777
    monkeypatch.delenv("RMQCTL_RUNTIME")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    assert state_folder() == own
    assert own.stat().st_mode & 0o777 == 0o700


def test_the_folder_is_the_sessions_else_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RMQCTL_RUNTIME")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "session"))
    assert state_folder() == tmp_path / "session" / "rmqctl"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert tmp_path in state_folder().parents


def test_a_folder_that_cannot_be_used_is_a_mistake(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_text("a file")
    with pytest.raises(UsageError, match=str(folder)) as raised:
        state_folder()
    assert "RMQCTL_RUNTIME" in (raised.value.hint or "")


def test_a_mistake_of_our_own_is_told_to_whoever_asked(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Sandbox(clock=VirtualClock()) as sandbox:
            control = ControlServer(sandbox)
            error = (await _answer(control, _line({"do": "plan", "effect": "delay", "delay_ms": 10**400})))["error"]
            assert (error["name"], error["exitCode"]) == ("FAILED", 1)
            assert "The sandbox failed: OverflowError" in error["message"]

    run(scenario())
    assert "the control socket" in caplog.text


def test_whoever_looks_for_sandboxes_is_in_nobodys_way(folder: Path) -> None:
    path = folder / "sandbox-1.json"
    folder.mkdir(mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    # As find_running() does with what a killed one left behind.
    looking = threading.Timer(0.05, lambda: (path.unlink(), os.close(descriptor)))
    looking.start()
    with StateFile(1) as file:
        file.publish("127.0.0.1:1")
        assert [running.port for running in find_running()] == [1]
    looking.join()


async def test_what_a_broker_held_when_it_was_stopped_survives_a_later_power_cut() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        control, topics = ControlServer(sandbox), sandbox.brokers["broker-a"].topics
        topics.put(Topic("T", 1, 1))
        for change in ("stop", "start", "restart"):
            await _answer(control, _line({"do": "broker", "change": change, "lose_unflushed": True}))
        assert sandbox.brokers["broker-a"].topics.find("T") is not None
