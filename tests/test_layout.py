"""The check of sizes finds files and folders that are too large, and exceptions that are no longer needed."""

from __future__ import annotations

from pathlib import Path

from tests.layout import MOST_LINES, MOST_MODULES, findings


def test_large_files_and_folders_and_needless_exceptions_are_reported(tmp_path: Path) -> None:
    for number in range(MOST_MODULES + 1):
        (tmp_path / f"module_{number}.py").write_text("\n" * (MOST_LINES + (number == 7)))
    large = tmp_path / "module_7.py"
    folder, file = findings(tmp_path)
    assert folder.startswith(f"{tmp_path} has {MOST_MODULES + 1} modules")
    assert file.startswith(f"{large} has {MOST_LINES + 1} lines")
    assert findings(tmp_path, [tmp_path, large]) == []
    assert findings(tmp_path, [tmp_path, large, tmp_path / "module_8.py"]) == [
        f"{tmp_path / 'module_8.py'} is no longer too large: remove its exception."
    ]
