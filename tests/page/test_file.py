from __future__ import annotations

import os
from pathlib import Path

import pytest

from rmqctl.errors import RmqctlError, UsageError
from rmqctl.page.file import replace_file, require_file


def test_a_file_is_replaced_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    replace_file(str(path), "one")
    path.chmod(0o640)
    reader = path.open()
    link = tmp_path / "link.html"
    link.symlink_to(path)
    replace_file(str(link), "two \ud800")
    assert link.is_symlink()
    assert path.read_text() == "two ?"
    assert path.stat().st_mode & 0o777 == 0o640
    # Who had it open still reads the whole of the old one.
    assert reader.read() == "one"
    reader.close()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(RmqctlError, match=r"report.html: no space left on device\."):
        replace_file(str(path), "three")
    assert path.read_text() == "two ?"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.html", "report.html"]


@pytest.mark.parametrize("name", ["", ".", "gone/report.html", "x" * 300, "loop", "pipe", "nul\0"])
def test_a_file_that_cannot_be_written_is_refused_before(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    os.mkfifo("pipe")
    require_file("--html", "new.html")
    Path("new.html").touch()
    require_file("--html", "new.html")
    with pytest.raises(UsageError) as caught:
        require_file("--html", name)
    assert caught.value.hint
