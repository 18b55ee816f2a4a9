"""The folder that keeps the jars of the real tests: processes that need the same ones at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.real.harness.jars import cached


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RMQCTL_TEST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_two_need_at_once_is_fetched_once() -> None:
    fetched: list[Path] = []
    found: list[bool] = []

    def fetch(folder: Path) -> None:
        fetched.append(folder)
        (folder / "a.jar").touch()

    def use() -> None:
        found.append((cached("jars", fetch) / "a.jar").exists())

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(fetched), found) == (1, [True] * 8)


def test_what_was_fetched_in_part_is_fetched_anew(folder: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half.jar").touch()
        raise OSError("no route")

    with pytest.raises(OSError, match="no route"):
        cached("jars", fail)
    (folder / "jars").mkdir()
    (folder / "jars" / "half.jar").touch()
    jars = cached("jars", lambda folder: (folder / "a.jar").touch())
    assert sorted(path.name for path in jars.iterdir()) == [".complete", "a.jar"]
