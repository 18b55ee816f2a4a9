"""Every situation in which diagnosis is tried, what was planted there, and what it finds: SITUATIONS.md.

`python -m tests.diagnose.situations` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rmqctl.diagnose.finding import Finding, Severity
from rmqctl.diagnose.look import at_least, diagnose
from rmqctl.diagnose.table import CHECKS

from . import test_checks, test_progress
from .groups import look, sick

PAGE = Path(__file__).parent / "SITUATIONS.md"
_REAL = Path(__file__).parent.parent / "real"
_HEAD = """# Situations

Groups with a planted fault and groups without one, and what `rmqctl diagnose` finds in each. They are made of scripted
brokers and members; a ✓ says that a test makes a fault with this code on real brokers with real clients as well
(`tests/real/test_diagnose*.py`). A test writes this page and compares it.
"""


class Situation(NamedTuple):
    """What is special about a group, the codes that must be found (none of a healthy one), and what is found."""

    what: str
    planted: frozenset[str]
    found: tuple[Finding, ...]

    @property
    def codes(self) -> list[str]:
        """The codes that are found, of a healthy group those of WARNING and worse."""
        is_bad = at_least(Severity.WARNING)
        return sorted({finding.code for finding in self.found if self.planted or is_bad(finding)})


def situations() -> Iterator[Situation]:
    """Make each situation, and diagnose it."""
    for what, change, codes in test_checks.SICK:
        yield Situation(what, frozenset(codes), look(sick(change)).diagnoses[0].findings)
    for what, facts, expected in test_progress.SICK:
        yield Situation(what, frozenset(code for code, _ in expected), diagnose(facts, test_progress.PROGRESS).findings)
    for what, change in test_checks.HEALTHY:
        yield Situation(what, frozenset(), look(sick(change)).diagnoses[0].findings)
    for what, facts in test_progress.HEALTHY:
        yield Situation(what, frozenset(), diagnose(facts, test_progress.PROGRESS).findings)


def page() -> str:
    """Return the page in Markdown."""
    real = _real_codes()
    every = list(situations())
    faults = [each for each in every if each.planted]
    healthy = [each for each in every if not each.planted]
    lines = [_HEAD, f"## {len(faults)} with a fault", "", "| situation | planted | found |", "|---|---|---|"]
    lines += [
        f"| {each.what} | {', '.join(_marked(code, real) for code in sorted(each.planted))} | {', '.join(each.codes)} |"
        for each in faults
    ]
    lines += ["", f"## {len(healthy)} without", "", "| situation | found, WARNING or worse |", "|---|---|"]
    lines += [f"| {each.what} | {', '.join(each.codes) or 'nothing'} |" for each in healthy]
    return "\n".join([*lines, ""])


def _marked(code: str, real: frozenset[str]) -> str:
    return f"{code} ✓" if code in real else code


def _real_codes() -> frozenset[str]:
    """Return the codes that tests on real brokers name."""
    texts = [path.read_text(encoding="utf-8") for path in _REAL.glob("test_diagnose*.py")]
    known = {check.code for check in CHECKS}
    return frozenset(code for text in texts for code in re.findall(r'"([A-Z]{3}\d{3})"', text) if code in known)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
