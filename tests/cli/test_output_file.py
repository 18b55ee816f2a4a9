from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from rmqctl.cli import output_file
from rmqctl.cli.output_file import WriteBehind, writing
from rmqctl.errors import RmqctlError


def _write_behind(path: Path, chunks: Iterable[bytes]) -> None:
    with writing(path) as out, WriteBehind(out) as behind:
        for chunk in chunks:
            behind.write(chunk)


def test_what_is_written_behind_is_all_there_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_file, "_SYNC_BYTES", 1_000)
    chunks = [bytes([number % 256]) * 100 for number in range(300)]
    _write_behind(tmp_path / "new", chunks)
    assert (tmp_path / "new").read_bytes() == b"".join(chunks)


@pytest.mark.parametrize("count", [1, 1_000])
def test_what_cant_be_written_behind_is_told_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """At a later write, or at the end where none comes."""
    monkeypatch.setattr(output_file, "_SYNC_BYTES", 1)

    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(output_file.os, "fsync", full)
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
