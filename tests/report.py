"""Prints what junit files tell of a whole run: `python -m tests.report FILE...`; exit code 1 where not all passed."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

_SLOWEST = 10


class Case(NamedTuple):
    """One test; `outcome` is passed, skipped or failed (an error of its fixtures is one)."""

    file: str
    name: str
    outcome: str
    seconds: float
    reason: str

    @property
    def path(self) -> str:
        """File and name, as pytest takes them but for the file's ending."""
        return f"{self.file}::{self.name}"


def read(path: Path) -> list[Case]:
    """Return the tests of a junit file as pytest writes it. Raises OSError and ElementTree.ParseError."""
    return [_case(element) for element in ElementTree.parse(path).iter("testcase")]


def _case(element: ElementTree.Element) -> Case:
    outcome, reason = "passed", ""
    for child in element:
        if child.tag in ("failure", "error"):
            outcome, reason = "failed", next(iter(child.get("message", "").splitlines()), child.tag)
        elif child.tag == "skipped":
            outcome = "skipped"
    file = element.get("classname", "").replace(".", "/")
    return Case(file, element.get("name", ""), outcome, float(element.get("time", "0")), reason)


def show(cases: Sequence[Case], missing: Sequence[str], console: Console) -> None:
    """Print by file, the slowest, what failed, and the sum; `missing` are parts that left no report."""
    by_file: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_file[case.file].append(case)
    rows = []
    for file, found in sorted(by_file.items()):
        outcomes = Counter(case.outcome for case in found)
        seconds = sum(case.seconds for case in found)
        rows.append((file, len(found), outcomes["failed"], outcomes["skipped"], f"{seconds:.1f}"))
    slowest = sorted(cases, key=lambda case: -case.seconds)[:_SLOWEST]
    failed = [case for case in cases if case.outcome == "failed"]
    _table(console, ("FILE", "TESTS", "FAILED", "SKIPPED", "SECONDS"), rows)
    _table(console, ("SLOWEST", "SECONDS"), [(case.path, f"{case.seconds:.1f}") for case in slowest])
    _table(console, ("FAILED", "REASON"), [(case.path, case.reason) for case in failed])
    for part in missing:
        console.print(f"{part} did not finish: it left no report.")
    count = Counter(case.outcome for case in cases)
    console.print(
        f"{len(cases)} tests: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped."
    )


def _table(console: Console, titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if not rows:
        return
    table = Table(*titles, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    console.print(table)
    console.print()


def main(paths: Sequence[str]) -> int:
    """Print the report of these files."""
    cases: list[Case] = []
    missing: list[str] = []
    for path in map(Path, paths):
        try:
            cases += read(path)
        except (OSError, ElementTree.ParseError):
            missing.append(path.stem)
    show(cases, missing, Console(width=180, highlight=False))
    return 1 if missing or any(case.outcome == "failed" for case in cases) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
