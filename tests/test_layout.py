"""The check of the layout finds what is too large, and names with several meanings."""

from __future__ import annotations

from pathlib import Path

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
