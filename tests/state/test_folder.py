"""The user's state folder: whose it is, who may look into it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rmqctl.errors import UsageError
from rmqctl.state.folder import state_folder

_NOBODY = 65534


def test_a_folder_that_others_may_write_to_is_closed_to_them_when_it_is_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "rmqctl"
    own.mkdir()
    own.chmod(0o777)
    monkeypatch.setenv("RMQCTL_STATE", str(own))
    for create in (True, False):
        with pytest.raises(UsageError, match="is open to other users"):
            state_folder(create=create)
    assert own.stat().st_mode & 0o777 == 0o777
    monkeypatch.delenv("RMQCTL_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    made = state_folder()
    assert tmp_path in made.parents
    assert made.stat().st_mode & 0o777 == 0o700


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path("/")  # root's, unless we are root
    if os.geteuid() == 0:
        folder = tmp_path / "theirs"
        folder.mkdir(0o700)
        os.chown(folder, _NOBODY, _NOBODY)
    monkeypatch.setenv("RMQCTL_STATE", str(folder))
    with pytest.raises(UsageError) as raised:
        state_folder()
    assert raised.value.sentence == f"{folder} belongs to another user."
    assert raised.value.hint == "Name another folder in RMQCTL_STATE."


def test_a_file_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch(0o600)
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"Cannot use .*: file exists"):
        state_folder()
    with pytest.raises(UsageError, match="is not a folder"):
        state_folder(create=False)
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "file" / "below"))
    with pytest.raises(UsageError, match=r"Cannot use .*: not a directory"):
        state_folder()


def test_a_folder_named_from_here_is_the_same_after_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RMQCTL_STATE", "state")
    assert state_folder() == tmp_path / "state"
