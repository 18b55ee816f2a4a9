"""Whose folder it is."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from rmqctl.errors import RmqctlError
from rmqctl.net.clock import VirtualClock
from rmqctl.sandbox import Sandbox
from tests.scripted_peer import run

_NOBODY = 65534


def refusal(folder: Path, **options: Any) -> RmqctlError:
    """Return what a sandbox says to a folder."""
    with pytest.raises(RmqctlError) as refused:
        Sandbox(clock=VirtualClock(), dir=folder, **options)
    assert refused.value.hint
    return refused.value


async def test_a_folder_serves_one_sandbox_at_a_time(tmp_path: Path) -> None:
    async with Sandbox(clock=VirtualClock(), dir=tmp_path):
        assert refusal(tmp_path).sentence == f"{tmp_path} is in use by another sandbox."
    async with Sandbox(clock=VirtualClock(), dir=str(tmp_path)) as sandbox:
        pass
    with pytest.raises(RmqctlError, match="was stopped"):
        await sandbox.start()
    async with Sandbox(clock=VirtualClock(), dir=tmp_path):
        pass


def test_a_folder_belongs_to_one_release_and_number_of_brokers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Sandbox(clock=VirtualClock(), dir=tmp_path, brokers=2, plays="4.9.7"):
            pass

    run(scenario())
    said = refusal(tmp_path, brokers=2)
    assert said.sentence == f"{tmp_path} was written by a sandbox that plays 4.9.7, not 5.4.0."
    said = refusal(tmp_path, plays="4.9.7")
    assert said.sentence == f"{tmp_path} was written by a sandbox with 2 brokers, not 1."


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear all")
    assert refusal(tmp_path).sentence == f"{tmp_path} is not a sandbox folder: it contains letter.txt."
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_first_start_that_was_killed_is_no_hindrance(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Sandbox(clock=VirtualClock(), dir=tmp_path):
            pass

    (tmp_path / "lock").touch()
    (tmp_path / "sandbox.new").write_text("{")
    run(scenario())
    (tmp_path / "broker-a" / "state").unlink()
    (tmp_path / "broker-a" / "state.new").write_text("rmqctl")
    run(scenario())


def test_what_a_broker_has_lost_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def start() -> list[str]:
        caplog.clear()
        async with Sandbox(clock=VirtualClock(), dir=tmp_path):
            return [record.getMessage() for record in caplog.records]

    assert run(start()) == run(start()) == []
    (tmp_path / "broker-a" / "state").unlink()
    (warning,) = run(start())
    assert "its topics, groups and offsets are missing" in warning
    for path in (tmp_path / "broker-a" / "commitlog").iterdir():
        path.unlink()
    (warning,) = run(start())
    assert "its messages are missing" in warning


def test_the_missing_folder_of_a_broker_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def start() -> None:
        async with Sandbox(clock=VirtualClock(), dir=tmp_path, brokers=2):
            pass

    run(start())
    assert not caplog.records
    shutil.rmtree(tmp_path / "broker-b")
    run(start())
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning == f"{tmp_path / 'broker-b'}: the folder is missing: broker-b starts without any data"


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    async def start() -> None:
        async with Sandbox(clock=VirtualClock(), dir=tmp_path / "data"):
            pass

    run(start())
    modes = {path.name: path.stat().st_mode & 0o777 for path in [tmp_path / "data", *(tmp_path / "data").rglob("*")]}
    assert modes.pop("data") == modes.pop("broker-a") == modes.pop("commitlog") == 0o700
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("content", ["", "no JSON", "[]", json.dumps({"format": 2, "plays": "5.4.0", "brokers": 1})])
def test_facts_that_are_not_ours_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "sandbox.json").write_text(content)
    assert "its format is not supported" in refusal(tmp_path).sentence


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "file").sentence == f"Cannot use {tmp_path / 'file'}: File exists."
    assert "below: Not a directory" in refusal(tmp_path / "file" / "below").sentence


def test_a_folder_that_is_not_writable_is_refused(tmp_path: Path) -> None:
    import rmqctl.sandbox.storage.data_folder  # noqa: F401 - while this user can read it

    user = os.geteuid()
    tmp_path.chmod(0o500)
    try:
        if user == 0:
            os.seteuid(_NOBODY)  # root may write anywhere
        assert "Permission denied" in refusal(tmp_path).sentence
    finally:
        os.seteuid(user)
        tmp_path.chmod(0o700)


def test_a_folder_of_a_system_that_takes_no_files_is_refused() -> None:
    assert "Cannot use /proc/sandbox: " in refusal(Path("/proc/sandbox")).sentence


def test_a_folder_is_free_again_when_its_files_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Sandbox(clock=VirtualClock(), dir=tmp_path):
            pass

    run(scenario())
    state = tmp_path / "broker-a" / "state"
    whole = state.read_bytes()
    for _ in range(2):
        state.write_bytes(b"something else")
        assert f"{state} is not a state file" in refusal(tmp_path).sentence
    state.write_bytes(whole)
    run(scenario())
