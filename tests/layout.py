"""Report what makes a subject hard to find: `python -m tests.layout FOLDER...`; exit code 1 if there is anything.

A file has at most 400 lines, a folder at most 30 modules. Folders with one file per request or per check may have more.
The name of a public class is used once.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

MOST_LINES = 400
MOST_MODULES = 30

_ONE_FILE_EACH = {Path("rmqctl/sandbox/handlers/broker"), Path("rmqctl/diagnose/checks")}


def too_large(root: Path) -> list[str]:
    """Return a sentence for each file and folder under `root` that is too large."""
    large: list[str] = []
    for folder in sorted({path.parent for path in root.rglob("*.py")}):
        modules = sorted(folder.glob("*.py"))
        if len(modules) > MOST_MODULES and folder not in _ONE_FILE_EACH:
            large.append(f"{folder} has {len(modules)} modules, more than {MOST_MODULES}: sort them into folders.")
        for path in modules:
            count = len(path.read_text(encoding="utf-8").splitlines())
            if count > MOST_LINES:
                large.append(f"{path} has {count} lines, more than {MOST_LINES}: split it.")
    return large


def repeated_names(root: Path) -> list[str]:
    """Return a sentence for each name that several public classes under `root` have."""
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path))
    return [f"{name} is a class in {' and '.join(paths)}." for name, paths in sorted(homes.items()) if len(paths) > 1]


if __name__ == "__main__":
    roots = [Path(name) for name in sys.argv[1:]]
    found = [sentence for root in roots for sentence in (*too_large(root), *repeated_names(root))]
    for sentence in found:
        print(sentence)
    sys.exit(bool(found))
