"""The check of the layout finds what is too large, and names with several meanings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import ROOT
from tests.layout import MOST_LINES, MOST_MODULES, repeated_names, too_large


def test_large_files_and_folders_are_reported(tmp_path: Path) -> None:
    for number in range(MOST_MODULES + 1):
        (tmp_path / f"module_{number}.py").write_text("\n" * (MOST_LINES + (number == 7)))
    large = tmp_path / "module_7.py"
    folder, file = too_large(tmp_path)
    assert folder.startswith(f"{tmp_path} has {MOST_MODULES + 1} modules")
    assert file.startswith(f"{large} has {MOST_LINES + 1} lines")


def test_a_public_class_name_is_used_once(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Shared:\n    class Inner: ...\n\n\nclass _Own: ...\n")
    (tmp_path / "b.py").write_text("class Shared: ...\nclass Inner: ...\nclass _Own: ...\n")
    assert repeated_names(tmp_path) == [f"Shared is a class in {tmp_path / 'a.py'} and {tmp_path / 'b.py'}."]


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "DECISIONS.md", "tests/README.md"])
def test_pages_for_contributors_name_files_that_exist(page: str) -> None:
    files = {f"/{path.relative_to(ROOT)}" for folder in ("rmqctl", "tests") for path in (ROOT / folder).rglob("*.*")}
    files |= {f"/{path.name}" for path in ROOT.glob("*.*")}
    named = re.findall(r"`([\w/]+\.(?:py|toml|json|md|html|java))`", (ROOT / page).read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if "NNN" not in name and not any(path.endswith(f"/{name}") for path in files)] == []
