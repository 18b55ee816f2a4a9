"""Files that users name: what can't be read or written is one sentence."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from rmqctl.cli import files
from rmqctl.cli.files import WriteBehind, read_input, writing
from rmqctl.errors import RmqctlError, UsageError


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
    monkeypatch.setattr(files, "_MAX_BYTES", 1024**2)
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


def _write_behind(path: Path, chunks: Iterable[bytes]) -> None:
    with writing(path) as out, WriteBehind(out) as behind:
        for chunk in chunks:
            behind.write(chunk)


def test_what_is_written_behind_is_all_there_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_SYNC_BYTES", 1_000)
    chunks = [bytes([number % 256]) * 100 for number in range(300)]
    _write_behind(tmp_path / "new", chunks)
    assert (tmp_path / "new").read_bytes() == b"".join(chunks)


@pytest.mark.parametrize("count", [1, 1_000])
def test_what_cant_be_written_behind_is_told_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """At a later write, or at the end where none comes."""
    monkeypatch.setattr(files, "_SYNC_BYTES", 1)

    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(RmqctlError, match="no space left"):
        _write_behind(tmp_path / "new", [b"x"] * count)
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_between_goes_before_what_cant_be_written(tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"x"
        raise KeyError

    with pytest.raises(KeyError):
        _write_behind(tmp_path / "new", chunks())
    assert list(tmp_path.iterdir()) == []
