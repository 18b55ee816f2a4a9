"""Files that users name: what can't be read is one sentence."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from rmqctl.cli import input_file
from rmqctl.cli.input_file import read_input
from rmqctl.errors import UsageError


def _sentence(path: str) -> str:
    with pytest.raises(UsageError) as caught:
        read_input("--spec", path)
    return caught.value.sentence


def test_a_file_is_read_as_bytes(tmp_path: Path) -> None:
    path = tmp_path / "any"
    path.write_bytes(b"\xff\x00\r\n")
    assert read_input("--spec", str(path)) == b"\xff\x00\r\n"


def test_what_can_not_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert _sentence(str(missing)) == f"Cannot read --spec {missing}: no such file or directory."
    assert _sentence(str(tmp_path)) == f"Cannot read --spec {tmp_path}: is a directory."
    assert _sentence(str(missing) + "x" * 5000).endswith(": file name too long.")


def test_more_than_anybody_writes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_file, "_MAX_BYTES", 1024**2)
    path = tmp_path / "large"
    path.write_bytes(b" " * 1024**2)
    assert len(read_input("--spec", str(path))) == 1024**2
    path.write_bytes(b" " * (1024**2 + 1))
    assert _sentence(str(path)) == f"--spec {path} is larger than 1 MiB."


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xffdata")))
    assert read_input("--spec", "-") == b"\xffdata"


def test_a_closed_standard_input_is_said() -> None:
    command = ["sh", "-c", 'exec "$0" -m rmqctl whatif allocate --spec - <&-', sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "rmqctl: Cannot read --spec -: standard input is closed.\n"
